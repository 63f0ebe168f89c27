"""Arrays, maps and rows: making them and taking them apart.

Source: Flink `ScalarOperatorGens` (2.3), checked by running it.
"""

from __future__ import annotations

from pyspark.sql.connect import functions as sf

from operators.expressions.integers import INTEGER
from operators.expressions.operand_rules import check_row, texts_to_join
from service.runtime.expressions.casts import convert
from service.runtime.expressions.site import Column, Site, bind, bind_all
from service.runtime.expressions.strings import java_quote
from state.types import INTEGER_BITS, STRING_ROOTS, TypeRoot


def array(site: Site) -> Column:
    """ARRAY[...]."""
    element = site.type.children[0]
    return sf.array(*(convert(site, value, element) for value in site.operands))


def row_of(site: Site) -> Column:
    """ROW(...), with the declared names."""
    check_row(site)
    fields = zip(site.operands, site.type.children, site.type.field_names, strict=True)
    return sf.struct(*(convert(site, value, kind).alias(name) for value, kind, name in fields))


def item(site: Site) -> Column:
    """collection[x]: an element from 1, or the value of a key; NULL where there is none."""
    value, key = site.operands
    if value.type.root is TypeRoot.MAP:
        return sf.try_element_at(value.column, convert(site, key, value.type.children[0]))
    if value.type.root is not TypeRoot.ARRAY or key.type.root not in INTEGER_BITS:
        site.refuse_types()
    index = convert(site, key, INTEGER)
    if key.is_literal:
        return sf.get(value.column, index - 1)
    return bind_all((value, key), lambda a, i: sf.when(i >= 1, sf.get(a, i.cast("int") - 1)))


def cardinality(site: Site) -> Column:
    """CARDINALITY: the number of elements or pairs."""
    return sf.cardinality(site[0].column)


def split(site: Site) -> Column:
    """SPLIT(x, separator): the parts of a text; none of an empty one."""
    pattern = java_quote(site.text(1, "the separator"))
    none = sf.array().cast("array<string>")
    return bind(
        site.of_type(0, STRING_ROOTS),
        lambda text: sf.when(text == "", none).otherwise(sf.split(text, pattern, -1)),
    )


def array_join(site: Site) -> Column:
    """ARRAY_JOIN(texts, separator[, for NULL]): leaves NULLs out if nothing stands for them."""
    return sf.array_join(*(each.column for each in texts_to_join(site)))
