"""LIKE, SIMILAR TO and the functions of regular expressions.

Both engines use Java's regular expressions, so a pattern that is a literal means the same.
LIKE is written as string comparison where the pattern allows, else as a regular expression:
Spark's own LIKE knows a default escape character, which Flink does not, and lets `_` match a line
break, which Flink's does not.

Source: Flink `SqlLikeUtils`, `LikeCallGen`, `SqlFunctionUtils` (2.3), checked by running it.
"""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql.connect import functions as sf

from operators.expressions.java_patterns import JavaGroups, NotJava, groups_of
from operators.expressions.like_patterns import ANY_TEXT, Wildcard, like_parts
from operators.expressions.similar_patterns import similar_pattern
from service.runtime.expressions.site import Column, Site, bind, null_of
from service.runtime.expressions.strings import java_quote
from state.types import STRING_ROOTS


def _subject(site: Site) -> Column:
    return site.of_type(0, STRING_ROOTS).column


def like(site: Site) -> Column:
    """LIKE with an optional escape character."""
    parts = like_parts(site)
    subject = _subject(site)
    match parts:
        case []:
            return subject == ""
        case [str(text)]:
            return subject == text
        case [str(text), Wildcard(many=True)]:
            return sf.startswith(subject, sf.lit(text))
        case [Wildcard(many=True), str(text)]:
            return sf.endswith(subject, sf.lit(text))
        case [Wildcard(many=True), str(text), Wildcard(many=True)]:
            return sf.contains(subject, sf.lit(text))
        case _:
            pass
    return sf.rlike(subject, sf.lit(r"\A" + "".join(map(_expression, parts)) + r"\z"))


def _expression(part: str | Wildcard) -> str:
    if isinstance(part, str):
        return java_quote(part)
    return ANY_TEXT if part.many else "."


def similar(site: Site) -> Column:
    """SIMILAR TO with an optional escape character."""
    return sf.rlike(_subject(site), sf.lit(rf"\A(?:{similar_pattern(site).java})\z"))


def regexp(site: Site) -> Column:
    """REGEXP: whether the pattern is found anywhere; an empty one never is."""
    pattern = site.text(1, "the pattern")
    subject = _subject(site)
    if not pattern:
        return sf.when(subject.isNotNull(), sf.lit(False))
    _check(site, pattern)
    return sf.rlike(subject, sf.lit(pattern))


def regexp_replace(site: Site) -> Column:
    """REGEXP_REPLACE: every match becomes the replacement, which is taken literally."""
    pattern, by = site.text(1, "the pattern"), site.text(2, "the replacement")
    _check(site, pattern)
    quoted = by.replace("\\", "\\\\").replace("$", "\\$")
    return sf.regexp_replace(_subject(site), sf.lit(pattern), sf.lit(quoted))


def regexp_extract(site: Site) -> Column:
    """REGEXP_EXTRACT(x, pattern[, group]): NULL where nothing is found."""
    pattern = site.text(1, "the pattern")
    index = site.whole(2, "the number of the group") if len(site) > 2 else 0
    subject = _subject(site)
    groups = _check(site, pattern)
    if not 0 <= index <= groups.count:
        return sf.lit(None).cast("string")
    if index in groups.absent:
        # Where the group takes no part in a match Flink has NULL and Spark "".
        site.refuse("the group does not take part in every match")

    return bind(replace(site[0], column=subject), lambda x: _first_match(x, pattern, index))


def _first_match(x: Column, pattern: str, index: int) -> Column:
    """A group of the first match, which may be empty, or NULL."""
    return sf.when(sf.rlike(x, sf.lit(pattern)), sf.regexp_extract(x, pattern, index))


def regexp_extract_all(site: Site) -> Column:
    """REGEXP_EXTRACT_ALL(x, pattern[, group]): of each match the group, which is 1 by default."""
    pattern = site.text(1, "the pattern")
    index = site.whole(2, "the number of the group") if len(site) > 2 else 1
    subject = _subject(site)
    groups = _check(site, pattern)
    if not 0 <= index <= groups.count:
        return null_of(site.type)
    if index in groups.absent:
        # Where the group takes no part in a match Flink has NULL and Spark "".
        site.refuse("the group does not take part in every match")
    return sf.regexp_extract_all(subject, sf.lit(pattern), sf.lit(index))


def regexp_instr(site: Site) -> Column:
    """REGEXP_INSTR: where the first match begins, in UTF-16 units from 1; 0 if there is none."""
    pattern = site.text(1, "the pattern")
    _check(site, pattern)

    def place(x: Column) -> Column:
        # Spark counts characters.
        before = sf.substring(x, sf.lit(1), sf.regexp_instr(x, sf.lit(pattern)) - 1)
        units = (sf.length(sf.encode(before, "UTF-16BE")) / 2).cast("int")
        return sf.when(sf.rlike(x, sf.lit(pattern)), units + 1).when(x.isNotNull(), sf.lit(0))

    return bind(replace(site[0], column=_subject(site)), place)


def regexp_count(site: Site) -> Column:
    """REGEXP_COUNT: the number of matches."""
    pattern = site.text(1, "the pattern")
    _check(site, pattern)
    return sf.regexp_count(_subject(site), sf.lit(pattern))


def regexp_substr(site: Site) -> Column:
    """REGEXP_SUBSTR: the first match, or NULL."""
    pattern = site.text(1, "the pattern")
    _check(site, pattern)
    return bind(replace(site[0], column=_subject(site)), lambda x: _first_match(x, pattern, 0))


def _check(site: Site, pattern: str) -> JavaGroups:
    """The groups of a pattern; refuses one that is none in Java.

    Flink gives NULL or false for it, Spark fails at each row: neither is what anyone wants.
    """
    try:
        return groups_of(pattern)
    except NotJava as error:
        site.refuse(f"the pattern is none in Java: {error}")
