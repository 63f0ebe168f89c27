"""Java's patterns in Python: what is taken finds what Java finds, the rest is refused.

What Java finds is told by the documentation of java.util.regex.Pattern (Java 17).
"""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import orjson
import pytest

from operators.expressions.java_patterns import NotJava, PatternDiffers, groups_of, translated
from operators.expressions.patterns import _found

RECORDED = Path(__file__).parents[2] / "oracles" / "expressions" / "java-patterns.jsonl"


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
    ("pattern", "text", "expected"),
    [
        # word boundaries: a letter or digit of any script, or a mark on one, is of a word
        (r"\bé", "a é", "é"),
        (r"\ba", "éa a", "a"),
        (r"a\b", "a\u0301a", "a"),
        (r"a\B.", "a. ab", "ab"),
        # properties, of ASCII and of Unicode
        (r"\p{L}+", "1éa2", "éa"),
        (r"\pN", "a٣", "٣"),
        (r"\P{Lu}", "ABc", "c"),
        (r"\p{Alpha}+", "éab", "ab"),
        (r"[\p{Punct}\s]+", "a, b", ", "),
        (r"\h+", "a\u00a0 b", "\u00a0 "),
        # classes in classes: both, or only what is in both
        ("[a[bc]]+", "xabcd", "abc"),
        ("[a-z&&[^aeiou]]+", "aeixyz", "xyz"),
        ("[^a-c&&[a-e]]", "abz", "z"),
        ("[^&]+", "&ab&", "ab"),
        ("(&|^)k=([^&]*)", "a=1&k=2&b=3", "&k=2"),
        ("[a&b~]+", "x&~a", "&~a"),
        ("[]a]+", "x]a", "]a"),
        (r"[\d-z]+", "a-1z", "-1z"),
        # flags where they stand, up to the end of their group
        ("a(?i)b", "aB", "aB"),
        ("a(?i)b", "AB", None),
        ("(?:(?i)a)b", "AB", None),
        ("(?i:a)b", "Ab", "Ab"),
        ("(?i)[^a]", "Ab", "b"),
        ("(?i)é", "É", None),
        ("(?m)^b$", "a\nb\r\nc", "b"),
        ("(?m)b$", "b\r\n", "b"),
        ("(?s-s)a.", "a\n", None),
        # references back to groups
        (r"(\d)\1", "1233", "33"),
        (r"(?<n>a|b)\k<n>", "abb", "bb"),
        (r"(a)\11", "aa1", "aa1"),
        # other ways to write a character
        (r"\0101\x{1F600}\cA", "A😀\x01", "A😀\x01"),
        (r"\ud83d\ude00", "😀", "😀"),
        (r"a\Q\E+", "aa", "aa"),
    ],
)
def test_what_only_java_writes_so_is_found(pattern: str, text: str, expected: str | None) -> None:
    found = translated(pattern).python.search(text)

    assert (found[0] if found else None) == expected


@pytest.mark.parametrize(
    "pattern",
    [
        # what Python does not know
        r"\R", r"\X", r"\p{IsLatin}", "(?u)é", r"\b{g}", "(?x)a b",
        # looking behind at texts of several lengths, and rounds of nothing
        "(?<=a+)b", "(?<=a|bc)d", "(a*)*", "(|a)+", "(?=a)*", "^*",
        # a group that is not closed where it is referred to, case that does not count
        r"(a\1)", r"(?i)(a)\1", r"(?i)\p{Lu}", r"\ud800",
        "a{70000}",
    ],
)  # fmt: skip  # a list of names, several a line
def test_what_may_differ_is_known_and_the_jvm_may_run_it(pattern: str) -> None:
    with pytest.raises(PatternDiffers) as caught:
        translated(pattern)

    assert not isinstance(caught.value, NotJava)
    assert groups_of(pattern).count >= 0


@pytest.mark.parametrize(
    "pattern",
    [
        "(", ")", "a\\", "[a", "[z-a]", "*a", "(*a)", "a**", "(?#note)a", r"\y",
        r"\p{Nothing}", r"\k<x>", "a{", "a{,3}", "a{2,1}", "a{99999999999999999999}",
        "(?<a>x)(?<a>y)", "[&&]", "(" * 3_000 + ")" * 3_000,
    ],
)  # fmt: skip  # a list of names, several a line
def test_what_is_no_pattern_of_java_is_known(pattern: str) -> None:
    for read in (translated, groups_of):
        with pytest.raises(NotJava):
            read(pattern)


@pytest.mark.parametrize(
    ("pattern", "unsure"),
    [
        ("(a)(b)", set()),
        ("(a)+(b)", set()),
        ("(a(b))*+(c)", {1, 2}),
        ("(?:x(a)){2}+", {1}),
        ("(?<n>a)?", set()),
        # Java keeps what matched inside, though the whole then does not
        ("(?!(a)b)(c)", {1}),
        ("(?=(a))(b)", {1}),
        ("(?>(a)|b)", {1}),
        (r"\((a)\)*", set()),
        (r"\Q(\E(a)", set()),
    ],
)
def test_groups_that_the_engines_keep_differently_are_known(pattern: str, unsure: set[int]) -> None:
    assert translated(pattern).unsure == unsure


@pytest.mark.parametrize(
    ("pattern", "absent"),
    [
        (r"(\d+)-(\d+)", set()),
        (r"(a)|(b)", {1, 2}),
        (r"(a)?b(c)", {1}),
        (r"(a*)b", set()),
        (r"((a)b)*", {1, 2}),
        (r"(?:x(a)){0,2}(b)", {1}),
        (r"(a|b)c", set()),
        (r"(a|(b))c", {2}),
        (r"\((a)\)", set()),
        (r"[(](a)", set()),
        (r"(?<name>a)", set()),
        (r"(?!(x))(a)", {1}),
    ],
)
def test_groups_that_a_match_may_leave_out_are_known(pattern: str, absent: set[int]) -> None:
    assert groups_of(pattern).absent == absent


def test_random_patterns_find_what_java_finds() -> None:
    """Patterns of many forms, matched by Java 17; how is told beside the recording."""
    lines = RECORDED.read_bytes().splitlines()
    for line in lines:
        case = orjson.loads(line)
        java = translated(case["pattern"])
        for text, expected in zip(case["texts"], case["found"], strict=True):
            found = [
                [list(each.span(at)) for at in range(java.python.groups + 1)]
                for each in islice(_found(java.python, text), len(expected) + 1)
            ]
            for match, wanted in zip(found, expected, strict=True):
                sure = [at for at in range(len(wanted)) if at not in java.unsure]
                assert [match[at] for at in sure] == [wanted[at] for at in sure], (
                    case["pattern"],
                    text,
                )
