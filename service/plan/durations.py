"""Durations as Flink's configuration and plans write them: `7 d`, `1500 ms`, `PT1H`.

Digits, optional blanks, an optional unit in any case (none is milliseconds), or an ISO-8601
duration that is not negative. What is finer than a millisecond is cut off, so `999 micro` is 0:
for a time to live that means "never expires".

Source: Flink `TimeUtils.parseDuration` and `java.time.Duration.parse`. Unlike Flink, which finds it
only when the plan is translated, a duration over 2^63-1 ms is refused here.
"""

from __future__ import annotations

import re

from service.plan.errors import DurationError

_NANOS_PER_MS = 1_000_000
_LONG_MAX = 2**63 - 1
_DIGITS_MAX = 64
"""More digits than any unit could make fit; bounds the work on hostile text."""

_UNITS: tuple[tuple[str, int, tuple[str, ...]], ...] = (
    ("DAYS", 86_400_000_000_000, ("d", "day", "days")),
    ("HOURS", 3_600_000_000_000, ("h", "hour", "hours")),
    ("MINUTES", 60_000_000_000, ("min", "m", "minute", "minutes")),
    ("SECONDS", 1_000_000_000, ("s", "sec", "secs", "second", "seconds")),
    ("MILLISECONDS", 1_000_000, ("ms", "milli", "millis", "millisecond", "milliseconds")),
    ("MICROSECONDS", 1_000, ("µs", "micro", "micros", "microsecond", "microseconds")),
    ("NANOSECONDS", 1, ("ns", "nano", "nanos", "nanosecond", "nanoseconds")),
)
_NANOS = {label: nanos for _, nanos, labels in _UNITS for label in labels}
_HIGHEST_FIRST = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))

_JAVA_BLANKS = "".join(map(chr, range(0x21)))
"""What Java's `String.trim` takes away: everything up to the blank."""
_NUMBER = re.compile(r"[0-9]*")
_ISO = re.compile(
    r"([-+]?)P(?:([-+]?[0-9]+)D)?"
    r"(T(?:([-+]?[0-9]+)H)?(?:([-+]?[0-9]+)M)?(?:([-+]?[0-9]+)(?:[.,]([0-9]{0,9}))?S)?)?",
    re.IGNORECASE | re.ASCII,
)


def parse_duration_ms(text: str) -> int:
    """The duration in whole milliseconds, cut off, not rounded.

    Raises:
        DurationError: The text is no duration, is negative, or is too long for 64 bits of ms.

    >>> parse_duration_ms("36 h"), parse_duration_ms("pt1.5s"), parse_duration_ms("999 micro")
    (129600000, 1500, 0)
    """
    trimmed = text.strip(_JAVA_BLANKS)
    if not trimmed:
        raise DurationError("the duration is empty")
    found = _NUMBER.match(trimmed)
    digits = found.group() if found else ""
    if not digits:
        return _fit(_parse_iso(trimmed), text)
    label = trimmed[len(digits) :].strip(_JAVA_BLANKS).lower()
    nanos = _NANOS_PER_MS if not label else _NANOS.get(label)
    if nanos is None:
        raise DurationError(
            f"Time interval unit label {_shown(label)} does not match any of the recognized units: "
            + ", ".join(f"{name}: ({' | '.join(labels)})" for name, _, labels in _UNITS)
        )
    if len(digits.lstrip("0")) > _DIGITS_MAX:
        raise DurationError(f"the duration {_shown(text)} is too long: at most {_LONG_MAX} ms")
    return _fit(int(digits.lstrip("0") or "0") * nanos, text)


def format_duration_ms(duration_ms: int) -> str:
    """The duration in the largest unit that divides it, as plans write it.

    >>> format_duration_ms(129600000), format_duration_ms(1500), format_duration_ms(0)
    ('36 h', '1500 ms', '0 ms')
    """
    for unit, size_ms in _HIGHEST_FIRST:
        if duration_ms and duration_ms % size_ms == 0:
            return f"{duration_ms // size_ms} {unit}"
    return f"{duration_ms} ms"


def _parse_iso(text: str) -> int:
    found = _ISO.fullmatch(text) if len(text) <= 4 * _DIGITS_MAX else None
    if found is None or (found[2] is None and found[3] is None) or (found[3] or "").upper() == "T":
        raise DurationError(
            "the text does not start with a number, and is not a valid ISO-8601 duration: "
            + _shown(text)
        )
    sign, days, _, hours, minutes, seconds, fraction = found.groups()
    whole = int(days or 0) * 86_400 + int(hours or 0) * 3_600 + int(minutes or 0) * 60
    whole += int(seconds or 0)
    part = int((fraction or "").ljust(9, "0"))
    nanos = whole * 1_000_000_000 + (-part if (seconds or "").startswith("-") else part)
    nanos = -nanos if sign == "-" else nanos
    if nanos < 0:
        raise DurationError(f"a negative duration is not supported: {_shown(text)}")
    return nanos


def _fit(nanos: int, text: str) -> int:
    duration_ms = nanos // _NANOS_PER_MS
    if duration_ms > _LONG_MAX:
        raise DurationError(f"the duration {_shown(text)} is too long: at most {_LONG_MAX} ms")
    return duration_ms


def _shown(text: str) -> str:
    return repr(text if len(text) <= 80 else text[:80] + "...")
