"""Java's patterns in Python: what is taken finds what Java finds, the rest is refused.

What Java finds is told by the documentation of java.util.regex.Pattern (Java 17).
"""

from __future__ import annotations

import pytest

from operators.expressions.java_patterns import PatternDiffers, translated


@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        # any character but the ends of lines that Java knows
        ("a.c", "abc", "abc"),
        ("a.c", "a\u2028c", None),
        ("a.c", "a\rc", None),
        ("(?s)a.c", "a\nc", "a\nc"),
        # the end of the text, or before the last end of a line
        ("c$", "abc", "c"),
        ("c$", "abc\n", "c"),
        ("c$", "abc\r\n", "c"),
        ("c$", "abc\u0085", "c"),
        ("c$", "abc\n\n", None),
        (r"c\z", "abc\n", None),
        (r"c\Z", "abc\r\n", "c"),
        (r"\Aa", "ba", None),
        # \d and \w are those of ASCII
        (r"\d+", "٣42", "42"),
        (r"\w+", "é_a1", "_a1"),
        (r"\s", "\u00a0 ", " "),
        # classes
        ("[a-c]+", "xabcd", "abc"),
        ("[^a-c]+", "abxyc", "xy"),
        (r"[\d.]+", "v1.2", "1.2"),
        (r"[\]\-]+", "a]-", "]-"),
        ("[a-]+", "-a-b", "-a-"),
        ("[.*]", "a*", "*"),
        # groups, named ones too, looking around, atomic and possessive
        ("(?<year>[0-9]{4})-", "in 2020-", "2020-"),
        ("(?:ab)+", "xababa", "abab"),
        ("(?<=a)b(?!c)", "abcab", "b"),
        ("(?>a+)b", "aab", "aab"),
        ("a*+a", "aaa", None),
        ("a{2,3}?", "aaaa", "aa"),
        # quotations and escapes
        (r"\Qa.b\E+", "a.bb", "a.bb"),
        (r"\x41\u0042\t", "AB\t", "AB\t"),
        (r"\.\\", "a.\\", ".\\"),
        ("}]", "}]", "}]"),
        # without regard to case in ASCII only
        ("(?i)ABC", "xabc", "abc"),
        ("(?i)k", "\u212a", None),
        # a character outside of the basic plane is one
        ("^.$", "😀", "😀"),
    ],
)
def test_what_is_taken_finds_what_java_finds(pattern: str, text: str, expected: str | None) -> None:
    found = translated(pattern).python.search(text)

    assert (found[0] if found else None) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        # word boundaries and properties, which Java judges by Unicode in part
        r"\bword", r"\p{L}", r"\h", r"\R", r"\X",
        # sets of classes
        "[a[bc]]", "[a-z&&[^b]]", "[]a]", "[a", r"[\d-z]",
        # what one engine reads as text and the other not at all
        "a{", "a{,3}", "{3}", "*a", "(*a)", "a**", "a{3}{2}", "^*",
        # flags inside, references back, other groups, half a pair
        "a(?i)b", "(?m)^a", r"(a)\1", "(?#note)a", r"(?<a>x)\k<a>", r"\ud800",
        # rounds of nothing
        "(a*)*", "(|a)+", "(?=a)*",
        # no patterns
        "(", ")", "a\\", r"\Q\E",
        "(?i)é", "a{99999999999999999999}", "(" * 3_000 + ")" * 3_000,
    ],
)  # fmt: skip  # a list of names, several a line
def test_what_may_differ_is_refused(pattern: str) -> None:
    with pytest.raises(PatternDiffers):
        translated(pattern)


@pytest.mark.parametrize(
    ("pattern", "unsure"),
    [
        ("(a)(b)", set()),
        ("(a)+(b)", {1}),
        ("(a(b))*(c)", {1, 2}),
        ("(?:x(a)){2}", {1}),
        ("(?<n>a)?", {1}),
        # Java keeps what matched inside, though the whole then does not
        ("(?!(a)b)(c)", {1}),
        ("(?=(a))", set()),
        (r"\((a)\)*", set()),
        (r"\Q(\E(a)", set()),
    ],
)
def test_groups_that_the_engines_keep_differently_are_known(pattern: str, unsure: set[int]) -> None:
    assert translated(pattern).unsure == unsure
