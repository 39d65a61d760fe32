"""Turn the text of a gold expression into a column that throws on no line, or reject it.

A line on which an expression throws would stop every run, even with ANSI off. Some functions have a `try_` form in
Spark, with the same arguments and the same result wherever there is one. This form is used instead. The declaration
stays as it is written, and so does the table that was built from it.

Every other function that throws is rejected when it is declared. It is found by its Catalyst class, so operators,
implicit casts and calls inside a lambda are found as well. Most functions throw only because of one argument (a
pattern, a format, a zone, a position): they are rejected if this argument is not constant, and constants are tried
out. The classes are those of Spark 4.0, and of 4.1 where it has renamed one; a test covers each function of the
registry. A function that a later Spark has brought is rejected: a lake may move to one that lacks it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from oncelake.common.errors import reason
from oncelake.common.spark.jvm import elements, jvm
from oncelake.common.spark.versions import OLDEST

TRY_FORMS = ("aes_decrypt", "parse_json", "to_binary", "url_decode", "validate_utf8", "variant_get")

# Quoted text and comments come first, so that a name inside them is skipped.
_PASSED = r"""r'[^']*' | r"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/"""
_FLAGS = re.IGNORECASE | re.DOTALL | re.VERBOSE
_CALL = re.compile(rf"(?P<passed> {_PASSED} ) | \b(?P<name> {'|'.join(TRY_FORMS)} ) (?= `? \s* \( )", _FLAGS)
_ANY_CALL = re.compile(rf"{_PASSED} | \b([a-z_]\w*) `? (?: \s | --[^\n]*\n | /\*.*?\*/ )* \(", _FLAGS)
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"
# Functions that the oldest Spark lacks, although Spark dates them back to it.
_DATED_BACK = ("time", "try_to_date")


@dataclass(frozen=True)
class ThrowingRule:
    """When a function may throw, and what to write instead.

    Attributes:
        instead: what to write instead.
        constant: the arguments, counted from 0, that must be constant, or the function may throw; None means all.
        own_time: the time arguments whose extreme values overflow; silver's own times are far from these values.
        operator: the name that errors use, if the function is an operator.
        always: it may throw whatever its arguments are.
        can_forgive: it does not throw if it is set to return NULL on an error.
    """

    instead: str
    constant: tuple[int, ...] | None = None
    own_time: tuple[int, ...] = ()
    operator: str = ""
    always: bool = False
    can_forgive: bool = False


_PATTERN = "use a constant pattern"
_FORMAT = "use a constant format"
_ZONE = "use a constant zone, and log_time or ingested_at for the time"
_TIME = "use log_time or ingested_at for the time"
_PARSE = "write try_cast(x AS TIMESTAMP) or make_date of its parts, because '+999999-01-01' overflows with any format"
_INTERVAL = "use numbers instead, such as unix_seconds(log_time)"
_SHIFT = "use log_time or ingested_at for the time and a constant for the rest, or write try_add"
_DIFFERENCE = "use log_time and ingested_at for both, or write try_subtract"
_NUMBER = "use a constant number"
_KEYS = "use constant keys, because null is not a valid key; str_to_map throws on no line"

# Each rule, and the Catalyst classes that it applies to.
_RULES: tuple[tuple[ThrowingRule, str], ...] = (
    (ThrowingRule(_PATTERN, constant=(1,)), "Like RLike StringSplit"),
    (ThrowingRule(_PATTERN, constant=(1, 2)), "RegExpExtract RegExpExtractAll RegExpInStr StringToMap"),
    (ThrowingRule("use a constant pattern and replacement", constant=(1, 2)), "RegExpReplace"),
    (ThrowingRule(_FORMAT, constant=(1,)), "DateFormatClass FormatNumber FromUnixTime"),
    (ThrowingRule("use a constant format without %c, or concat", constant=(0,)), "FormatString"),
    (ThrowingRule(_NUMBER, constant=(1,)), "ArrayInsert ArrayRepeat BitwiseGet StringLPad StringRPad"),
    (ThrowingRule(_NUMBER, constant=(2,)), "SubstringIndex"),
    (ThrowingRule(_NUMBER, constant=(1, 2)), "Slice"),
    (ThrowingRule(_NUMBER), "StringSpace"),
    (ThrowingRule("use constants"), "Sequence StringRepeat"),
    (ThrowingRule("use a constant key", constant=(2,)), "ParseUrl"),
    (ThrowingRule("write get(x, n), which counts from 0", constant=(1,)), "ElementAt"),
    (ThrowingRule("write sort_array(x)"), "ArraySort"),
    (ThrowingRule(_KEYS), "MapFromArrays MapFromEntries TransformKeys"),
    # times and intervals
    (ThrowingRule(_ZONE, constant=(1,), own_time=(0,)), "FromUTCTimestamp ToUTCTimestamp"),
    (ThrowingRule(_ZONE, constant=(0, 1), own_time=(2,)), "ConvertTimezone"),
    (ThrowingRule("use a constant zone", constant=(6,)), "MakeTimestamp"),
    (ThrowingRule(_TIME, constant=(), own_time=(1,)), "TruncTimestamp"),
    (ThrowingRule(_TIME, constant=(), own_time=(0, 1)), "TimestampDiff"),
    (ThrowingRule(_SHIFT, constant=(1,), own_time=(0,)), "AddMonths"),
    (
        ThrowingRule(_SHIFT, constant=(1,), own_time=(0,), operator="+ or - of a time"),
        "DateAddInterval DateAddYMInterval TimeAdd TimestampAddInterval TimestampAddYMInterval",
    ),
    (ThrowingRule(_SHIFT, constant=(0,), own_time=(1,)), "TimestampAdd"),
    (
        ThrowingRule(_DIFFERENCE, constant=(), own_time=(0, 1), operator="- of two times"),
        "SubtractDates SubtractTimestamps",
    ),
    (ThrowingRule(_INTERVAL, operator="* of an interval"), "MultiplyDTInterval MultiplyYMInterval"),
    (ThrowingRule(_INTERVAL, operator="/ of an interval"), "DivideDTInterval DivideYMInterval"),
    (ThrowingRule(_INTERVAL), "MakeDTInterval MakeYMInterval"),
    (ThrowingRule("write timestamp_micros(1000 * x)"), "MillisToTimestamp"),
    (ThrowingRule("write try_cast(x AS TIMESTAMP)"), "SecondsToTimestamp"),
    (ThrowingRule(_PARSE), "GetTimestamp"),
    # parsers and formatters of text
    (ThrowingRule("write try_aes_decrypt"), "AesDecrypt"),
    (ThrowingRule("write try_parse_json", can_forgive=True), "ParseJson"),
    (ThrowingRule("write try_url_decode", can_forgive=True), "UrlDecode"),
    (ThrowingRule("write try_variant_get", always=True, can_forgive=True), "VariantGet"),
    (ThrowingRule("write try_validate_utf8"), "ValidateUTF8"),
    (ThrowingRule("write try_to_binary"), "ToBinary"),
    (ThrowingRule("write try_to_binary(x, 'base64')"), "UnBase64"),
    (ThrowingRule("write cast(x AS BINARY)"), "Encode"),
    (ThrowingRule("write cast(x AS STRING)"), "StringDecode"),
    (ThrowingRule("write try_cast(x AS DECIMAL(18,3))"), "ToNumber"),
    (ThrowingRule("write try_cast(x AS DECIMAL(18,3)), because an empty text throws"), "TryToNumber"),
    (ThrowingRule("write split(x, ','), because lines of many columns throw, as does mode FAILFAST"), "CsvToStructs"),
    (ThrowingRule("write to_json"), "StructsToXml"),
    (
        ThrowingRule("use regexp_extract"),
        "XPathBoolean XPathDouble XPathFloat XPathInt XPathList XPathLong XPathShort XPathString XmlToStructs",
    ),
    (ThrowingRule("declare the measure approx_distinct(x)"), "HllSketchEstimate HllUnion"),
    (
        ThrowingRule("use Spark SQL's functions, because this one may throw on any line", always=True),
        "ApplyFunctionExpression",
    ),
)
RULES: Mapping[str, ThrowingRule] = {name: rule for rule, names in _RULES for name in names.split()}
_ARITHMETIC = ("Abs", "Add", "Subtract", "UnaryMinus")
_TIMES_OF_TEXT = ("ToUnixTimestamp", "UnixTimestamp")
# The classes that move a time only a little.
_NEAR = (
    *("Cast", "TruncTimestamp", "TruncDate", "DateAdd", "DateSub", "AddMonths", "TimeAdd", "LastDay", "NextDay"),
    *("DateAddInterval", "DateAddYMInterval", "TimestampAdd", "TimestampAddInterval", "TimestampAddYMInterval"),
    *("FromUTCTimestamp", "ToUTCTimestamp", "ConvertTimezone"),
)
_OWN = ("log_time", "ingested_at")


def column(text: str) -> Column:
    """Return the column for a declared expression, with `try_` forms."""
    return F.expr(with_try_forms(text))


def with_try_forms(text: str) -> str:
    """Replace each call of a function that has a `try_` form with that form."""
    return _CALL.sub(lambda match: match["passed"] or f"try_{match['name']}", text)


def throwing(selected: DataFrame, text: str, silver: StructType) -> str | None:  # guard: throwing-expression-refused
    """Return why an expression may throw on some row; None if it does not.

    Args:
        selected: silver with only this expression selected, analyzed.
        text: the expression.
        silver: silver's columns.
    """
    brought = _brought_later(selected.sparkSession, text)
    if brought is not None:
        return brought
    walk = Walk(selected.sparkSession)
    expression = selected._jdf.queryExecution().analyzed().expressions().head()
    for node, called in walk.judged(expression):
        fault = walk.fault(node, called)
        if fault is not None:
            return fault
    rows = _awkward_rows(selected.sparkSession, text, silver)
    candidates = (with_try_forms(text), *dict.fromkeys(walk.constant))
    return next(filter(None, (_failure(rows, candidate) for candidate in candidates)), None)


def _brought_later(spark: SparkSession, text: str) -> str | None:  # guard: function-of-every-spark
    """Return which function of an expression the oldest Spark does not have; None if it has all."""
    catalog = spark._jsparkSession.sessionState().catalog()
    identifier = jvm(spark).org.apache.spark.sql.catalyst.FunctionIdentifier
    for name in dict.fromkeys(match[1].lower() for match in _ANY_CALL.finditer(text) if match[1]):
        if name == "identifier":
            return "calls a function by identifier(); write its name"
        if not catalog.isRegisteredFunction(identifier(name)):
            continue
        since = str(catalog.lookupFunctionInfo(identifier(name)).getSince())
        if name in _DATED_BACK or _numbers(since) > _numbers(OLDEST.name):
            return (
                f"calls {name}, which Spark {OLDEST.name} does not have, and oncelake runs on it as well; write it "
                "without"
            )
    return None


def _numbers(version: str) -> list[int]:
    """Return the first two numbers of a version."""
    return [int(part) for part in re.findall(r"\d+", version)[:2]]


class Walk:
    """A walk over the nodes of an analyzed expression."""

    def __init__(self, spark: SparkSession) -> None:
        self._gateway = spark.sparkContext._gateway
        self._jvm = jvm(spark)
        self.constant: list[str] = []

    def judged(
        self, node: Any, *, within_try: bool = False, called: str = "", arguments: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, str]]:
        """Yield each node that may throw, with the name it was called by; skip the function inside a `try_` form.

        A `try_` form does not protect its arguments: Spark may evaluate an expression that occurs twice beforehand.

        Args:
            node: the node to start at.
            within_try: True if the node is the function inside a `try_` form.
            called: the name of the function that Spark replaces with this node.
            arguments: the arguments of that function.
        """
        if any(node.equals(argument) for argument in arguments):
            called, arguments = "", ()
        rule = RULES.get(_name(node))
        name = (rule.operator if rule else "") or called or node.prettyName()
        if not within_try:
            yield node, name
        if self._is(node, "RuntimeReplaceable"):
            arguments = arguments or self._arguments(node)
            yield from self.judged(node.replacement(), within_try=within_try, called=name, arguments=arguments)
            return
        tried = _name(node) == "TryEval" or (
            within_try and _name(node) == "Cast" and _type(node) == _type(node.child())
        )
        for child in elements(node.children()):
            yield from self.judged(child, within_try=tried, called=called, arguments=arguments)

    def fault(self, node: Any, called: str) -> str | None:
        """Return why a function may throw on some row; None if it does not."""
        kind = _name(node)
        if not node.getClass().getName().startswith(_EXPRESSIONS):
            return "is not one of Spark SQL's own functions and may throw on any line; use Spark SQL's functions"
        if kind == "Cast":
            return self._cast(node)
        way = self._way(node, kind)
        return self._by_rule(node, kind, called) if way is None else f"throws on some lines in {called}; {way}"

    def _way(self, node: Any, kind: str) -> str | None:
        """Return what to write instead of a function that throws because of its types or options, or None."""
        if kind in _ARITHMETIC and "interval" in _type(node) and not node.foldable():
            return _INTERVAL
        if kind in _TIMES_OF_TEXT and _type(node.children().apply(0)) == "string":
            return _PARSE
        if kind == "JsonToStructs" and "failfast" in str(node.options()).lower():
            return "remove its mode FAILFAST"
        if kind == "CreateMap" and not all(key.foldable() for key in elements(node.children())[::2]):
            return _KEYS
        return None

    def _by_rule(self, node: Any, kind: str, called: str) -> str | None:
        rule = RULES.get(kind)
        if rule is None or (rule.can_forgive and not node.failOnError()):
            return None
        arguments = self._arguments(node)
        if kind == "ElementAt" and _type(arguments[0]) != "array":
            return None
        positions = range(len(arguments)) if rule.constant is None else rule.constant
        constant = all(arguments[at].foldable() for at in positions if at < len(arguments))
        near = all(self._is_near(arguments[at]) for at in rule.own_time)
        if rule.always or not (constant and near):
            return f"throws on some lines in {called}; {rule.instead}"
        if kind == "ElementAt" and arguments[1].eval(None) == 0:
            return f"throws on some lines in {called}; the first position is 1, not 0"
        self.constant.append(node.sql())
        return self._pattern(kind, arguments, called) if kind.startswith("RegExp") else None

    def _cast(self, node: Any) -> str | None:
        before, after = _type(node.child()), _type(node)
        if str(node.evalMode()) == "TRY" or node.foldable():
            return None
        if before == "variant" and after != "variant":
            return "throws on some lines in a cast from variant; write try_variant_get"
        if "interval " in before + after and "string" not in after:
            return f"throws on some lines in a cast of an interval; {_INTERVAL}"
        if before == "date" and after.startswith("timestamp") and not self._is_near(node.child()):
            return "throws on some lines in a cast of a date to a timestamp; write try_cast(x AS TIMESTAMP)"
        return None

    def _pattern(self, kind: str, arguments: list[Any], called: str) -> str | None:
        """Return what is wrong with a constant pattern's groups, which Spark uses only where the pattern matches."""
        pattern, other = (arguments[at].eval(None) for at in (1, 2))
        if pattern is None or other is None:
            return None
        try:
            matcher = self._jvm.java.util.regex.Pattern.compile(f"(?:{pattern})|").matcher("")
            if kind == "RegExpReplace":
                matcher.replaceFirst(str(other))
        except (PySparkException, Py4JJavaError) as error:
            return f"throws on some lines in {called}: {_message(error)}"
        if kind != "RegExpReplace" and not 0 <= int(other) <= matcher.groupCount():
            return f"asks for group {other} of {str(pattern)!r}, which has {matcher.groupCount()}"
        return None

    def _is_near(self, node: Any) -> bool:
        """Return True if a time is one of silver's own times, or near one."""
        if self._is(node, "RuntimeReplaceable"):
            return self._is_near(node.replacement())
        if node.foldable() or (_name(node) == "AttributeReference" and node.name() in _OWN):
            return True
        return _name(node) in _NEAR and all(self._is_near(child) for child in elements(node.children()))

    def _arguments(self, node: Any) -> list[Any]:
        return elements(node.parameters() if self._is(node, "InheritAnalysisRules") else node.children())

    def _is(self, node: Any, kind: str) -> bool:
        return bool(is_instance_of(self._gateway, node, f"{_EXPRESSIONS}.{kind}"))


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _type(node: Any) -> str:
    return str(node.dataType().typeName())


_TEXTS = ("", "a", "100%zz", "-1", "2147483647", "+999999-01-01", '{"a": 1}', "http://a/?b=1", "k=v k=w", "é\u0000")
_TIMES = ("0001-01-01", "2017-07-30 14:09:08", "9999-12-31 23:59:59")
_EXTREMES = (
    *("0", "1", "true", "false", "1e308", "-1e308"),
    *(str(sign * 2**bits) for bits in (31, 63) for sign in (1, -1)),
    *(str(sign * (2**bits - 1)) for bits in (31, 63) for sign in (1, -1)),
    *("9" * digits for digits in (8, 28, 36)),
)
_QUOTED = re.compile(r"'([^'\\]*)'")


def _awkward_rows(spark: SparkSession, text: str, silver: StructType) -> DataFrame:
    """Return difficult rows of silver to try an expression on; runs no job.

    Each text that the expression quotes is a key of `fields`.
    """
    keys = dict.fromkeys(("a", *_QUOTED.findall(text)))
    rows = []
    for number, sample in enumerate(_TEXTS):
        quoted = f"cast(X'{sample.encode().hex()}' AS STRING)"
        fields = ", ".join(f"cast(X'{key.encode().hex()}' AS STRING), {quoted}" for key in keys)
        at = f"TIMESTAMP'{_TIMES[number % len(_TIMES)]}'"
        rows.append(
            f"({at}, 'ERROR', {quoted}, map({fields}), {quoted}, {number}, {number}L, {quoted}, {at}, array({quoted}))"
        )
    names = "log_time, level, message, fields, topic, partition, offset, file, ingested_at, warnings"
    frame = spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS silver({names})")
    others = [field for field in silver if field.name not in frame.columns]
    return frame.withColumns({field.name: _awkward(field.dataType) for field in others}) if others else frame


def _awkward(kind: DataType) -> Column:
    """Return difficult values of a type, another one in each row."""
    values = [F.lit(text).try_cast(kind) for text in (*_EXTREMES, *_TIMES, *_TEXTS)]
    least = F.filter(F.array(*values), lambda value: value.isNotNull())
    return F.get(least, (F.col("offset") % F.greatest(F.size(least), F.lit(1))).cast("int"))


def _failure(rows: DataFrame, tried: str) -> str | None:
    try:
        plan = rows.select(F.expr(tried))._jdf.queryExecution()
    except PySparkException:
        return None  # a part of a lambda cannot run alone; the whole expression is tried too
    try:
        plan.executedPlan().executeCollect()
    except (PySparkException, Py4JJavaError) as error:
        return f"throws on some lines: {_message(error)}"
    return None


def _message(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString()).splitlines()[0]
    return reason(error)
