"""Whether a failure of ours is the one that was recorded of Flink.

The words differ, and so do the places where a thing is noticed; what is wrong must be the same. A
list says which words of Flink's root cause stand for which failure of ours; where it says nothing,
the two messages must share what is particular in them. A failure of something else, such as a
missing file, is then told from the recorded one.
"""

from __future__ import annotations

import re

_MEANINGS = (
    (
        r"state metadata|state meta\b|StateMetadata|state ttl",
        r"InvalidStateMetadata|InvalidProperty: state",
    ),
    (r"[Ff]link ?[Vv]ersion", r"UnknownFlinkVersion"),
    (r"JsonParseException|No content to map", r"PlanSyntaxError"),
    (r"does not match the schema", r"SchemaMismatch"),
    (r"\"nodes\"\]->\S*\[\d+\]\)", r"UnknownNodeType"),
    (r"not found in nodes|is not unique|Exception: Index \d|cycle", r"InvalidGraph"),
    (
        r"No enum constant|NullPointerException|Cannot (construct|deserialize)",
        r"InvalidProperty|UnknownNodeType",
    ),
    (r"NotNullEnforcer|NOT NULL|null value", r".*\[tailrace:sink-refused\].* is null"),
    (r"system function|operator|signature", r"(Invalid|Malformed)Expression"),
    (
        r"Primary key constraint violation",
        r".*(PrimaryKeyConflict|distinct records with one primary key)",
    ),
    (r"[Ll]ength of .*column|LengthEnforcer", r".*\[tailrace:sink-refused\].* length"),
    (r"[Dd]eserialize|[Ff]ailed to parse|parse error", r".*\[tailrace:malformed-change\]"),
    (r"by zero", r".*(DIVIDE_BY_ZERO|division by zero)"),
    (r"more than one element", r".*AggregateFailed"),
    (r"ArithmeticException|overflow|out of range", r".*(OVERFLOW|OUT_OF_RANGE|DIVIDE_BY_ZERO)"),
    (
        r"NumberFormatException|DateTimeException|[Cc]ast|Cannot parse",
        r".*(CAST_|CANNOT_PARSE|INVALID_|EvaluationFailed: a text is no )",
    ),
)
"""What the recorded text holds, and how our failure, as class and message, begins; first wins."""
_PARTICULAR = re.compile(r"[A-Za-z][A-Za-z_-]{3,}")
_COMMON = frozenset(
    {"caused", "cannot", "class", "error", "exception", "failed", "from", "have", "invalid", "must"}
    | {"node", "nodes", "plan", "table", "that", "this", "with"}
)


def difference_of_failures(recorded: str, failure: BaseException) -> str | None:
    """What keeps the failure from being the recorded one, or None.

    Args:
        recorded: The text of `error.txt`: an exception of Java with its causes, the root last.
        failure: What was raised here.
    """
    ours = f"{type(failure).__name__}: {failure}"
    causes = [each for each in recorded.splitlines() if each.strip()]
    root = causes[-1].removeprefix("Caused by: ") if causes else ""
    meant = next((each for words, each in _MEANINGS if re.search(words, recorded)), None)
    if meant is not None:
        is_same = re.match(meant, ours, re.DOTALL) is not None
    else:
        is_same = not root or len(_words(root) & _words(ours)) > 1
    first = ours.splitlines()[0]
    return None if is_same else f"fails otherwise than Flink: {first}; recorded: {root}"


def _words(text: str) -> set[str]:
    """The words of a message that say what it is about, names of packages left out."""
    plain = re.sub(r"\b(?:[a-z]+\.)+[A-Z]\w*:?", "", text)
    return {each.lower() for each in _PARTICULAR.findall(plain)} - _COMMON
