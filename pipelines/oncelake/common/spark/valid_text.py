"""Make texts that a user's expression computes valid UTF-8, as lines are: what is invalid becomes U+FFFD.

Spark does not check them, and other readers refuse a Parquet file with an invalid one. A pass over each text costs a
part of an aggregation, so an expression whose texts are surely valid is left as it is.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from py4j.java_gateway import is_instance_of
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, StringType, StructType

from oncelake.common.wording import count_of

# Before the name of a column, for a hidden one: whether, or how often, its texts had to be made valid.
INVALID_PREFIX = "_invalid_"
# Catalyst's names of the types whose values hold no bytes; a decimal has its digits behind the name.
_NUMBERS = ("byte", "short", "integer", "long", "float", "double", "decimal")
_BARE = (*_NUMBERS, "boolean", "date", "timestamp", "timestamp_ntz", "void")
# The classes of expressions whose texts are valid if those of their children are. A class that is missing costs time.
_KEEPING = frozenset(
    (
        *("AttributeReference", "Alias", "Literal", "Cast", "CaseWhen", "If", "Coalesce", "TryEval"),
        *("GetMapValue", "GetArrayItem", "GetStructField", "ElementAt", "CreateNamedStruct", "CreateArray"),
        *("Upper", "Lower", "Concat", "ConcatWs", "Substring", "StringTrim", "StringTrimLeft", "StringTrimRight"),
        *("RegExpExtract", "RegExpReplace", "StringSplit", "SubstringIndex", "DateFormatClass"),
    )
)
_REPLACED = "org.apache.spark.sql.catalyst.expressions.RuntimeReplaceable"


def has_text(kind: DataType) -> bool:
    """Return True if values of a type are texts, or arrays or structs with texts."""
    if isinstance(kind, ArrayType):
        return has_text(kind.elementType)
    if isinstance(kind, StructType):
        return any(has_text(each.dataType) for each in kind)
    return isinstance(kind, StringType)


def valid(value: Column, kind: DataType, *, nullable: bool = True) -> Column:
    """Return a value with each of its texts made valid; its type stays, with what cannot be null in it."""
    if isinstance(kind, StringType):
        text = F.make_valid_utf8(value)
        return text if nullable else F.coalesce(text, F.lit(""))
    if isinstance(kind, ArrayType) and has_text(kind):
        return F.transform(value, lambda each: valid(each, kind.elementType, nullable=kind.containsNull))
    if isinstance(kind, StructType) and has_text(kind):
        fields = ((value.getField(each.name), each) for each in kind)
        made = F.struct(*(valid(part, of.dataType, nullable=of.nullable).alias(of.name) for part, of in fields))
        return F.when(value.isNotNull(), made) if nullable else made
    return value


def is_invalid(value: Column, kind: DataType) -> Column:
    """Return a condition that a text of a value has to be made valid; it is never null."""
    return ~valid(value, kind).eqNullSafe(value)


def may_be_invalid(spark: SparkSession, node: Any) -> bool:  # guard: sure-texts-only-unchecked
    """Return False if the texts of an expression are surely valid where those of its columns are.

    Binary values are not the only source of others: get_json_object makes one of two escaped surrogates.

    Args:
        spark: the session.
        node: the expression, analyzed.
    """
    kind = str(node.dataType().typeName()).partition("(")[0]
    if kind in _BARE:
        return False
    if is_instance_of(spark.sparkContext._gateway, node, _REPLACED):
        return may_be_invalid(spark, node.replacement())
    children = node.children()
    return (
        kind == "binary"
        or str(node.getClass().getSimpleName()) not in _KEEPING
        or any(may_be_invalid(spark, children.apply(at)) for at in range(children.size()))
    )


def marks_of(columns: Iterable[str]) -> list[str]:
    """Return the hidden columns among some columns."""
    return [name for name in columns if name.startswith(INVALID_PREFIX)]


def counts_of(values: Mapping[str, Any]) -> dict[str, int]:
    """Return how many lines of a batch had a text that was made valid, by column, from sums of the hidden columns."""
    return {name.removeprefix(INVALID_PREFIX): int(values[name]) for name in marks_of(values) if values[name]}


def recorded(quality: Mapping[str, Any], found: Mapping[str, int]) -> Mapping[str, Any]:
    """Return what a batch's commit records, with the lines that had a text that was made valid, by column."""
    warned = [*quality["warned"], *(f"text of {name} is not UTF-8" for name in found)]
    return {**quality, "warned": warned, "not_utf8": found} if found else quality


def warnings(found: Mapping[str, int]) -> list[str]:
    """Return a warning for each column with texts that were made valid."""
    said = "a text that is not UTF-8; what no reader can read became U+FFFD"
    return [f"{name}: {count_of(count, 'line has', 'lines have')} {said}" for name, count in found.items()]
