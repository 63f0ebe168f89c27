"""Operators of users: keyed process functions.

A function is a class in a package that is installed wherever workers and the service run; nothing
is uploaded. The package names it in its entry points:

    [project.entry-points."tailrace.functions"]
    CustomWindow = "my_package.windows:CustomWindow"

and a plan calls it by that name as Flink's process table function (a `systemName`, or the last part
of a `catalogName`; upper and lower case are the same):

    class CountRows(ProcessFunction):
        arguments = ("step",)

        @classmethod
        def result(cls, setting: FunctionSetting) -> RowSpec:
            return RowSpec(types=(parse_type("BIGINT"),), names=("n",))

        def __init__(self, setting: FunctionSetting) -> None:
            self._step = setting.arguments["step"] or 1
            self._counts = setting.value("counts", JSON)
            self.states = (self._counts,)

        def open(self, epoch: FunctionEpoch) -> None:
            self._count = epoch.session.value(self._counts)

        async def process(self, change: FunctionChange) -> None:
            count = (await self._count.value() or 0) + self._step
            await self._count.update(count)
            change.emit(RowKind.INSERT, (count,))

What comes out has the partition's columns of every input, then those of `result`, then the row time
where the call names one (`on_time`): that of the change, or of the timer that fired.

What holds for every operator holds here, too: changes of a key are processed in order, an `await`
is where others go on, and nothing may be kept between two of them but local variables, nor between
epochs but state. No clock, no randomness, no threads: the same epoch must give the same again.

Source: FLIP-220 and FLIP-425 have such functions as their motive; Flink's ProcessTableFunction
(FLIP-440) is how a plan calls one.

function.py             what whoever writes one derives from and is given
setting.py              what it is called with, and how it makes its states
process_operator.py     how it is found, and the operator that runs it
"""

from operators.process_function.function import (
    FunctionChange,
    FunctionEpoch,
    FunctionTimer,
    NoEventTimers,
    ProcessFunction,
)
from operators.process_function.process_operator import (
    GROUP,
    ProcessFunctionSpec,
    ProcessOperator,
    find_function,
)
from operators.process_function.setting import FunctionSetting

__all__ = [
    "GROUP",
    "FunctionChange",
    "FunctionEpoch",
    "FunctionSetting",
    "FunctionTimer",
    "NoEventTimers",
    "ProcessFunction",
    "ProcessFunctionSpec",
    "ProcessOperator",
    "find_function",
]
