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

from oncelake.common.spark.jvm import elements
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
        return any(has_text(field.dataType) for field in kind)
    return isinstance(kind, StringType)


def valid(value: Column, kind: DataType, *, nullable: bool = True) -> Column:
    """Return a value with each of its texts made valid; its type stays, with what cannot be null in it."""
    if isinstance(kind, StringType):
        text = F.make_valid_utf8(value)
        return text if nullable else F.coalesce(text, F.lit(""))
    if isinstance(kind, ArrayType) and has_text(kind):
        return F.transform(value, lambda item: valid(item, kind.elementType, nullable=kind.containsNull))
    if isinstance(kind, StructType) and has_text(kind):
        fields = ((value.getField(field.name), field) for field in kind)
        struct = F.struct(
            *(valid(part, field.dataType, nullable=field.nullable).alias(field.name) for part, field in fields)
        )
        return F.when(value.isNotNull(), struct) if nullable else struct
    return value


def is_invalid(value: Column, kind: DataType) -> Column:
    """Return a condition that a text of a value has to be made valid; it is never null."""
    return ~valid(value, kind).eqNullSafe(value)


def may_be_invalid(spark: SparkSession, node: Any) -> bool:  # guard: sure-texts-only-unchecked
    """Return False if the texts of an expression are surely valid where those of its columns are.

    Binary values are not the only source of others: get_json_object makes one of two escaped surrogates.
    """
    kind = str(node.dataType().typeName()).partition("(")[0]
    if kind in _BARE:
        return False
    if is_instance_of(spark.sparkContext._gateway, node, _REPLACED):
        return may_be_invalid(spark, node.replacement())
    return (
        kind == "binary"
        or str(node.getClass().getSimpleName()) not in _KEEPING
        or any(may_be_invalid(spark, child) for child in elements(node.children()))
    )


def marks_of(columns: Iterable[str]) -> list[str]:
    """Return the hidden columns among some columns."""
    return [name for name in columns if name.startswith(INVALID_PREFIX)]


def counts_of(values: Mapping[str, Any]) -> dict[str, int]:
    """Return how many lines of a batch had a text that was made valid, by column, from sums of the hidden columns."""
    return {name.removeprefix(INVALID_PREFIX): int(values[name]) for name in marks_of(values) if values[name]}


def recorded(quality: Mapping[str, Any], counts: Mapping[str, int]) -> Mapping[str, Any]:
    """Return what a batch's commit records, with the lines that had a text that was made valid, by column."""
    warned = [*quality["warned"], *(f"text of {name} is not UTF-8" for name in counts)]
    return {**quality, "warned": warned, "not_utf8": counts} if counts else quality


def warnings(counts: Mapping[str, int]) -> list[str]:
    """Return a warning for each column with texts that were made valid."""
    problem = "a text that is not UTF-8; what no reader can read became U+FFFD"
    return [f"{name}: {count_of(count, 'line has', 'lines have')} {problem}" for name, count in counts.items()]
