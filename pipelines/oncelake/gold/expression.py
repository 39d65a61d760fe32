"""Turn the text of a gold declaration into a column that throws on no line, or refuse it.

A line on which an expression throws would end every run, even with ANSI off. Where Spark has a `try_` form of a
function, with the same arguments and the same answer wherever there is one, the form is used in its place; the
declaration stays as it is written, and so does the table that was built by it.

Every other function that throws is refused when it is declared, by the class that Catalyst has for it: an operator,
an implicit cast and a call inside a lambda are found as well. Most throw only by one argument (a pattern, a format, a
zone, a position): they are refused where it is no constant, and what a constant does is tried here. The classes are
those of Spark 4.0; a test knows each function of the registry.
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

from oncelake.common.errors import reason
from oncelake.common.spark.jvm import jvm

TRY_FORMS = ("aes_decrypt", "parse_json", "to_binary", "url_decode", "validate_utf8", "variant_get")

# What is quoted comes first, so that a name inside it is passed over.
_CALL = re.compile(
    rf"""(?P<passed> r'[^']*' | r"[^"]*" | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*" | --[^\n]* | /\*.*?\*/ )
    | \b(?P<name> {"|".join(TRY_FORMS)} ) (?= `? \s* \( )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)
_EXPRESSIONS = "org.apache.spark.sql.catalyst.expressions"


@dataclass(frozen=True)
class ThrowingRule:
    """How a function throws, and what to write in its place.

    Attributes:
        instead: what to write.
        constant: the arguments, counted from 0, by which it throws unless they are constants; all where None.
        own_time: the arguments at whose extremes it overflows; silver's own times are far from these.
        operator: what a refusal calls it where it is an operator.
        always: it throws whatever its arguments are.
        can_forgive: it does not throw where it was made to give NULL.
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
_PARSE = "write try_cast(x AS TIMESTAMP) or make_date of its parts, as '+999999-01-01' overflows whatever the format"
_INTERVAL = "count in numbers, such as unix_seconds(log_time)"
_SHIFT = "use log_time or ingested_at for the time and a constant for the rest, or write try_add"
_DIFFERENCE = "use log_time and ingested_at for both, or write try_subtract"
_NUMBER = "use a constant number"
_KEYS = "use constant keys, as null is none; str_to_map throws on no line"

# A rule, and the classes of Catalyst that it is for.
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
        "DateAddInterval DateAddYMInterval TimeAdd TimestampAddYMInterval",
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
    # what reads or writes a text of some form
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
    (ThrowingRule("write try_cast(x AS DECIMAL(18,3)), as it throws on an empty text"), "TryToNumber"),
    (ThrowingRule("write split(x, ','), as a line of many columns or with mode FAILFAST throws"), "CsvToStructs"),
    (ThrowingRule("write to_json"), "StructsToXml"),
    (
        ThrowingRule("use regexp_extract"),
        "XPathBoolean XPathDouble XPathFloat XPathInt XPathList XPathLong XPathShort XPathString XmlToStructs",
    ),
    (ThrowingRule("declare the measure approx_distinct(x)"), "HllSketchEstimate HllUnion"),
    (
        ThrowingRule("use Spark SQL's functions, as nobody can vouch for this one", always=True),
        "ApplyFunctionExpression",
    ),
)
RULES: Mapping[str, ThrowingRule] = {name: rule for rule, names in _RULES for name in names.split()}
_ARITHMETIC = ("Abs", "Add", "Subtract", "UnaryMinus")
_TIMES_OF_TEXT = ("ToUnixTimestamp", "UnixTimestamp")
# What keeps a time near where it was.
_NEAR = (
    *("Cast", "TruncTimestamp", "TruncDate", "DateAdd", "DateSub", "AddMonths", "TimeAdd", "LastDay", "NextDay"),
    *("DateAddInterval", "DateAddYMInterval", "TimestampAdd", "TimestampAddYMInterval"),
    *("FromUTCTimestamp", "ToUTCTimestamp", "ConvertTimezone"),
)
_OWN = ("log_time", "ingested_at")


def column(text: str) -> Column:
    """Return the column that a declaration's expression stands for."""
    return F.expr(with_try_forms(text))


def with_try_forms(text: str) -> str:
    """Replace each call of a function that has a `try_` form by that form."""
    return _CALL.sub(lambda found: found["passed"] or f"try_{found['name']}", text)


def throwing(selected: DataFrame, text: str) -> str | None:
    """Say why an expression may throw on some row; None where it does not.

    Args:
        selected: silver's columns with this expression alone selected, analysed.
        text: the expression.
    """
    walk = Walk(selected.sparkSession)
    expression = selected._jdf.queryExecution().analyzed().expressions().head()
    for node, called in walk.judged(expression):
        found = walk.fault(node, called)
        if found is not None:
            return found
    rows = _awkward_rows(selected.sparkSession, text)
    tried = (with_try_forms(text), *dict.fromkeys(walk.constant))
    return next(filter(None, (_failure(rows, each) for each in tried)), None)


class Walk:
    """A walk over an analysed expression."""

    def __init__(self, spark: SparkSession) -> None:
        self._gateway = spark.sparkContext._gateway
        self._jvm = jvm(spark)
        self.constant: list[str] = []

    def judged(
        self, node: Any, *, within_try: bool = False, called: str = "", given: Sequence[Any] = ()
    ) -> Iterator[tuple[Any, str]]:
        """List what may throw, and by which name it was called: all but the function that a `try_` form is made of.

        What such a form's arguments throw is not safe in it: Spark evaluates what two expressions share beforehand.

        Args:
            node: where to begin.
            within_try: it is the function that a `try_` form is made of.
            called: the function that it is a part of, which Spark will replace by it.
            given: that function's arguments.
        """
        if any(node.equals(each) for each in given):
            called, given = "", ()
        rule = RULES.get(_name(node))
        name = (rule.operator if rule else "") or called or node.prettyName()
        if not within_try:
            yield node, name
        if self._is(node, "RuntimeReplaceable"):
            arguments = given or self._arguments(node)
            yield from self.judged(node.replacement(), within_try=within_try, called=name, given=arguments)
            return
        tried = _name(node) == "TryEval" or (
            within_try and _name(node) == "Cast" and _type(node) == _type(node.child())
        )
        for child in _listed(node.children()):
            yield from self.judged(child, within_try=tried, called=called, given=given)

    def fault(self, node: Any, called: str) -> str | None:
        """Say why a function may throw on some row."""
        kind = _name(node)
        if not node.getClass().getName().startswith(_EXPRESSIONS):
            return "is no function of Spark SQL's own, and nobody can vouch for its result; use Spark SQL's"
        if kind == "Cast":
            return self._cast(node)
        way = self._way(node, kind)
        return self._by_rule(node, kind, called) if way is None else f"throws on some lines by {called}; {way}"

    def _way(self, node: Any, kind: str) -> str | None:
        """Say what to write in place of what throws by its types or its options."""
        if kind in _ARITHMETIC and "interval" in _type(node) and not node.foldable():
            return _INTERVAL
        if kind in _TIMES_OF_TEXT and _type(node.children().apply(0)) == "string":
            return _PARSE
        if kind == "JsonToStructs" and "failfast" in str(node.options()).lower():
            return "leave its mode FAILFAST out"
        if kind == "CreateMap" and not all(key.foldable() for key in _listed(node.children())[::2]):
            return _KEYS
        return None

    def _by_rule(self, node: Any, kind: str, called: str) -> str | None:
        rule = RULES.get(kind)
        if rule is None or (rule.can_forgive and not node.failOnError()):
            return None
        given = self._arguments(node)
        if kind == "ElementAt" and _type(given[0]) != "array":
            return None
        wanted = range(len(given)) if rule.constant is None else rule.constant
        constant = all(given[at].foldable() for at in wanted if at < len(given))
        near = all(self._is_near(given[at]) for at in rule.own_time)
        if rule.always or not (constant and near):
            return f"throws on some lines by {called}; {rule.instead}"
        if kind == "ElementAt" and given[1].eval(None) == 0:
            return f"throws on some lines by {called}; the first place is 1, not 0"
        self.constant.append(node.sql())
        return self._pattern(kind, given, called) if kind.startswith("RegExp") else None

    def _cast(self, node: Any) -> str | None:
        before, after = _type(node.child()), _type(node)
        if str(node.evalMode()) == "TRY" or node.foldable():
            return None
        if before == "variant" and after != "variant":
            return "throws on some lines by a cast from variant; write try_variant_get"
        if "interval " in before + after and "string" not in after:
            return f"throws on some lines by a cast of an interval; {_INTERVAL}"
        if before == "date" and after.startswith("timestamp") and not self._is_near(node.child()):
            return "throws on some lines by a cast of a date to a timestamp; write try_cast(x AS TIMESTAMP)"
        return None

    def _pattern(self, kind: str, given: list[Any], called: str) -> str | None:
        """Try a constant pattern on its groups, which Spark looks for only where it matches."""
        pattern, other = (given[at].eval(None) for at in (1, 2))
        if pattern is None or other is None:
            return None
        try:
            matcher = self._jvm.java.util.regex.Pattern.compile(f"(?:{pattern})|").matcher("")
            if kind == "RegExpReplace":
                matcher.replaceFirst(str(other))
        except (PySparkException, Py4JJavaError) as error:
            return f"throws on some lines by {called}: {_said(error)}"
        if kind != "RegExpReplace" and not 0 <= int(other) <= matcher.groupCount():
            return f"asks for group {other} of {str(pattern)!r}, which has {matcher.groupCount()}"
        return None

    def _is_near(self, node: Any) -> bool:
        """Tell whether a time is one of silver's own, or near it."""
        if self._is(node, "RuntimeReplaceable"):
            return self._is_near(node.replacement())
        if node.foldable() or (_name(node) == "AttributeReference" and node.name() in _OWN):
            return True
        return _name(node) in _NEAR and all(self._is_near(child) for child in _listed(node.children()))

    def _arguments(self, node: Any) -> list[Any]:
        return _listed(node.parameters() if self._is(node, "InheritAnalysisRules") else node.children())

    def _is(self, node: Any, kind: str) -> bool:
        return bool(is_instance_of(self._gateway, node, f"{_EXPRESSIONS}.{kind}"))


def _name(node: Any) -> str:
    return str(node.getClass().getSimpleName())


def _type(node: Any) -> str:
    return str(node.dataType().typeName())


def _listed(nodes: Any) -> list[Any]:
    return [nodes.apply(at) for at in range(nodes.size())]


_TEXTS = ("", "a", "100%zz", "-1", "2147483647", "+999999-01-01", '{"a": 1}', "http://a/?b=1", "k=v k=w", "é\u0000")
_TIMES = ("0001-01-01", "2017-07-30 14:09:08", "9999-12-31 23:59:59")
_QUOTED = re.compile(r"'([^'\\]*)'")


def _awkward_rows(spark: SparkSession, text: str) -> DataFrame:
    """Make rows of silver to try an expression on, with each quoted text as a key of `fields`; needs no job."""
    keys = dict.fromkeys(("a", *_QUOTED.findall(text)))
    rows = []
    for number, each in enumerate(_TEXTS):
        quoted = f"cast(X'{each.encode().hex()}' AS STRING)"
        fields = ", ".join(f"cast(X'{key.encode().hex()}' AS STRING), {quoted}" for key in keys)
        at = f"TIMESTAMP'{_TIMES[number % len(_TIMES)]}'"
        rows.append(
            f"({at}, 'ERROR', {quoted}, map({fields}), {quoted}, {number}, {number}L, {quoted}, {at}, array({quoted}))"
        )
    names = "log_time, level, message, fields, topic, partition, offset, file, ingested_at, warnings"
    return spark.sql(f"SELECT * FROM VALUES {', '.join(rows)} AS silver({names})")


def _failure(rows: DataFrame, tried: str) -> str | None:
    try:
        plan = rows.select(F.expr(tried))._jdf.queryExecution()
    except PySparkException:
        return None  # a part of a lambda, which is tried in the whole
    try:
        plan.executedPlan().executeCollect()
    except (PySparkException, Py4JJavaError) as error:
        return f"throws on some lines: {_said(error)}"
    return None


def _said(error: Exception) -> str:
    if isinstance(error, Py4JJavaError):
        return str(error.java_exception.toString()).splitlines()[0]
    return reason(error)
