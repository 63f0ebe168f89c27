"""Columns of outside texts as typed columns, in one go, where that is sure to be exact.

What a text means is said by `state.json_values`, a value at a time. Arrow's casts are far faster,
but take other texts (`0x10`, `inf`, `1` for a BOOLEAN) and round in other ways. So a column is cast
only if each text has a form that both read alike: fewer forms than the exact way takes. Everything
else is left to the exact way, by answering None. Readers of whole blocks build on this, and a
property test holds each of them to the exact way.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from state.types import (
    FLOAT_ROOTS,
    INTEGER_BITS,
    STRING_ROOTS,
    TIMESTAMP_ROOTS,
    LogicalType,
    TypeRoot,
    arrow_type,
)

_DATE_FORM = "[0-9]{4}-[0-9]{2}-[0-9]{2}"
_TIMESTAMP_FORM = _DATE_FORM + r"[T ][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,6})?"
_FLOAT_FORM = r"-?[0-9]{1,30}(\.[0-9]{1,30})?([eE][+-]?[0-9]{1,2})?"
_FORMS = {
    TypeRoot.BOOLEAN: "(true|false)",
    TypeRoot.DATE: _DATE_FORM,
    TypeRoot.TIMESTAMP: _TIMESTAMP_FORM,
    TypeRoot.TIMESTAMP_LTZ: _TIMESTAMP_FORM + "Z",
    **dict.fromkeys(INTEGER_BITS, "-?[0-9]{1,18}"),
    **dict.fromkeys(FLOAT_ROOTS, _FLOAT_FORM),
}


def typed_column(logical: LogicalType, texts: pa.Array) -> pa.Array | None:
    """Texts as a column of this type, or None where only the exact way can tell.

    Args:
        logical: The type of the column.
        texts: A string array.
    """
    if texts.null_count and not logical.nullable:
        return None
    if logical.root in STRING_ROOTS:
        return texts
    form = _decimal_form(logical) if logical.root is TypeRoot.DECIMAL else _FORMS.get(logical.root)
    if form is None:
        return None
    matches = pc.match_substring_regex(texts, f"^{form}$")
    if not pc.all(matches, min_count=0).as_py():
        return None
    try:
        if logical.root in FLOAT_ROOTS:
            return finite_floats(logical, texts.cast(pa.float64()))
        if logical.root in TIMESTAMP_ROOTS or logical.root is TypeRoot.DATE:
            return _times(logical, texts)
        return texts.cast(arrow_type(logical))
    except pa.ArrowInvalid:
        return None


def finite_floats(logical: LogicalType, column: pa.Array) -> pa.Array | None:
    """Doubles as FLOAT or DOUBLE, or None if one of them is, or becomes, no finite number."""
    if logical.root is TypeRoot.FLOAT:
        column = column.cast(pa.float32(), safe=False)
    finite = np.isfinite(column.fill_null(0.0).to_numpy())
    return column if finite.all() else None


def _decimal_form(logical: LogicalType) -> str:
    scale = logical.scale or 0
    whole = f"-?[0-9]{{1,{max((logical.precision or 0) - scale, 1)}}}"
    return rf"{whole}(\.[0-9]{{1,{scale}}})?" if scale else whole


def _times(logical: LogicalType, texts: pa.Array) -> pa.Array | None:
    """Texts of a checked form as times, cut to the precision; Arrow refuses dates that are none."""
    if pc.any(pc.starts_with(texts, "0000"), min_count=0).as_py():
        return None
    times = texts.cast(arrow_type(logical))
    unit = 10 ** (6 - (logical.precision or 0))
    if logical.root not in TIMESTAMP_ROOTS or unit == 1:
        return times
    values = times.view(pa.int64()).fill_null(0).to_numpy()
    cut = pa.array(values - values % unit)
    return pc.if_else(times.is_valid(), cut, None).view(times.type)
