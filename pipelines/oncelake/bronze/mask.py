"""Rules that mask personal data before bronze: how a source declares them, and how they are applied."""

import hashlib
import hmac
import json
import os
from collections.abc import Container, Mapping
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import ByteSize, Field, model_validator
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField

from oncelake.bronze.records import Records, why_not_on_class_path
from oncelake.bronze.schema import BRONZE
from oncelake.bronze.stand_in import BYTES_IN_FILE, IS_STAND_IN, MAX_LINE, is_stand_in
from oncelake.common.errors import ConfigError
from oncelake.common.models import Strict, later
from oncelake.common.spark.jvm import jvm
from oncelake.common.spark.rows import Count
from oncelake.common.spark.runtime import applied, has_class

if TYPE_CHECKING:
    import pyarrow

_CLASS = "oncelake.Mask"
_OF_A_KEY = b"oncelake mask key"
_ID_LENGTH = 16
# A key shorter than this can be found by trying.
_MIN_KEY_BYTES = 16
# At least this many tasks look for the key: on a cluster, each executor most probably runs one of them.
_PROBES = 64

BYTES = "value_bytes"
MASKED = "masked"
VERSION = "mask"
# The columns of bronze that only a source with rules has.
COLUMNS = (
    StructField(
        BYTES, LongType(), metadata={"comment": "the value's bytes before masking; null if there were no rules"}
    ),
    StructField(
        MASKED,
        MapType(StringType(), IntegerType()),
        metadata={"comment": "how many matches each mask rule had; null without a match"},
    ),
    StructField(
        VERSION, StringType(), metadata={"comment": "the fingerprint of the mask rules; oncelake history shows them"}
    ),
)
# What the rules replace.
_FIELDS = ("value", "key", "headers")
# How rules see a text: as it is written, or as its readers see it, with escapes read and parts joined; see Mask.java.
_AS_WRITTEN, _AS_READ = 1, 2
_TYPES = {"value": "binary", "key": "binary", "headers": BRONZE["headers"].dataType.simpleString()}
_ROW = ", ".join([*(f"{name} {of_type}" for name, of_type in _TYPES.items()), f"{MASKED} map<string,int>"])

_PatternName = Literal["all", "authorization", "card", "email", "ipv4", "ipv6"]
# \p{M} are the marks of decomposed letters
_LETTER = r"\p{L}\p{M}\p{N}"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1?\d?\d)"
# After a scheme that is not one of these, the word after it is masked as well.
_SCHEME, _TOKEN = r"(?:bearer|basic|token|apikey|negotiate|ntlm)", r"[^\s\"',;]++"
# Each pattern, the group that is masked, and what Mask.java checks in addition. None of them goes over a text twice.
_NAMED: Mapping[_PatternName, tuple[str, int, str | None]] = {
    "all": (r"(?s).++", 0, None),
    "authorization": (
        rf"(?i)(?:(?<![\p{{L}}\p{{N}}])(?:proxy-|http_)?authorization(?:[\"']\s{{0,9}},|[\"']?\s{{0,9}}(?:=>|[:=]))\s{{0,9}}"
        rf"\[?[\"']?(?:{_SCHEME}\s{{1,9}})?|\b(?:bearer|basic)\s{{1,9}})"
        rf"((?<={_SCHEME}\s{{1,9}}){_TOKEN}|AWS4[\w-]*+(?:,?\s{{1,9}}[a-z]++=[^\s\"',]++){{1,4}}|"
        rf"{_TOKEN}(?:\s{{1,9}}{_TOKEN})?)",
        1,
        None,
    ),
    "card": (r"(?<!\d)[2-6](?:[ -]?\d){12,18}(?!\d)", 0, "luhn"),
    "email": (rf"(?<![{_LETTER}._%+-])[{_LETTER}._%+-]++@[{_LETTER}-]++(?:\.[{_LETTER}-]++)+", 0, None),
    "ipv4": (rf"(?<![\d.])(?:{_BYTE}\.){{3}}{_BYTE}(?!\d|\.\d)", 0, None),
    "ipv6": (r"(?<![\w:.])(?=[0-9A-Fa-f]{0,4}:)[0-9A-Fa-f:.]++(?!\w)", 0, "ipv6"),
}


class MaskRule(Strict):
    """One rule: what it finds, where it looks, and what it does with a match."""

    name: str | None = Field(
        None,
        pattern=r"^[A-Za-z0-9_-]{1,40}$",
        description="the rule's name in counts and errors; unset: that of `find`",
    )
    find: _PatternName | None = Field(None, description="a pattern that oncelake ships")
    pattern: str | None = Field(None, min_length=1, description="a Java regular expression")
    group: int = Field(0, ge=0, description="the group of `pattern` that is masked; 0: the whole match")
    fields: tuple[str, ...] = Field(
        _FIELDS,
        min_length=1,
        description="where the rule looks: `value`, `key`, `headers`, or one header as `headers.NAME`",
    )
    action: Literal["drop", "replace", "hash"] = Field(
        description="remove the match, replace it with `text`, or with a hash under `key_variable`"
    )
    text: str | None = Field(None, description="replace: the text that a match becomes")
    length: int = Field(16, ge=8, le=64, description="hash: how many hexadecimal digits of HMAC-SHA-256 are kept")

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if (self.find is None) == (self.pattern is None):
            state = "both are set" if self.find else "neither is set"
            raise ValueError(f"find names a pattern, pattern is one: {state}; set one")
        if self.find is not None and self.group:
            raise ValueError("group is of pattern; find has its own")
        if (self.action == "replace") != (self.text is not None):
            raise ValueError("text is required for action replace, and for no other action")
        wrong = next((field for field in self.fields if not _is_field(field)), None)
        if wrong is not None:
            raise ValueError(f"fields has {wrong!r}; accepted are value, key, headers and headers.NAME")
        return self


def _is_field(name: str) -> bool:
    return name in _FIELDS or (name.startswith("headers.") and name != "headers.")


class Masking(Strict):
    """Rules as they are applied and kept: with the patterns of the named ones, and the identity of the key.

    Attributes:
        rules: the rules as Mask.java reads them.
        key_variable: the environment variable with the key.
        key_id: a value that only this key gives, and from which the key cannot be computed.
        max_line: the bytes of a line that is masked whole; of a longer one, only its beginning is kept.
        way: how the rules see a text; rules of an older oncelake have no number, and see it as it is written.
    """

    rules: tuple[Mapping[str, Any], ...]
    key_variable: str | None = None
    key_id: str | None = None
    max_line: ByteSize = later(MAX_LINE)
    way: int = later(_AS_WRITTEN, ge=_AS_WRITTEN, le=_AS_READ)

    def problem(self) -> str | None:  # guard: pseudonyms-under-same-key
        """Return why the key is not there, or is another one; None if it is there, or not needed."""
        if self.key_variable is None:
            return None
        current = _key_id(self.key_variable)
        if current is None:
            return f"the environment variable {self.key_variable} with the key is not set"
        return None if current == self.key_id else f"the environment variable {self.key_variable} has another key now"


class MaskSettings(Strict):
    """Rules that mask personal data before it is stored."""

    rules: tuple[MaskRule, ...] = Field(min_length=1, description="the rules, applied in this order")
    key_variable: str | None = Field(
        None,
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="hash: the name of the environment variable with the key, of at least 16 bytes",
    )

    @model_validator(mode="after")
    def _complete(self) -> Self:
        hashes = any(rule.action == "hash" for rule in self.rules)
        if hashes and self.key_variable is None:
            raise ValueError("a rule has action hash: set mask.key_variable to the name of the variable with the key")
        if not hashes and self.key_variable is not None:
            raise ValueError("no rule has action hash: remove mask.key_variable")
        names = self.names()
        twice = next((name for name in names if names.count(name) > 1), None)
        if twice is not None:
            raise ValueError(f"two mask rules have the name {twice}; give one of them another name")
        return self

    def names(self) -> list[str]:
        """Return the rules' names."""
        return [rule.name or rule.find or f"rule_{number}" for number, rule in enumerate(self.rules, 1)]

    def resolved(self, max_line: int = MAX_LINE) -> Masking:
        """Return the rules as they are applied, with the identity of today's key; None for the key if it is not set."""
        rules = tuple(_resolved(name, rule) for name, rule in zip(self.names(), self.rules, strict=True))
        return Masking(
            rules=rules,
            key_variable=self.key_variable,
            key_id=_key_id(self.key_variable),
            max_line=ByteSize(max_line),
            way=_AS_READ,  # guard: masks-see-escapes-read
        )


def _resolved(name: str, rule: MaskRule) -> Mapping[str, Any]:
    pattern, group, check = _NAMED[rule.find] if rule.find else (rule.pattern, rule.group, None)
    text, hashed = rule.text or "", rule.length if rule.action == "hash" else 0
    entry = {"name": name, "pattern": pattern, "group": group, "fields": [*rule.fields], "text": text, "hashed": hashed}
    return {**entry, "check": check} if check else entry


def _key_id(variable: str | None) -> str | None:
    """Return the identity of the key in an environment variable; None if it is not set."""
    key = os.environ.get(variable) if variable else None
    return hmac.new(key.encode(), _OF_A_KEY, hashlib.sha256).hexdigest()[:_ID_LENGTH] if key else None


def check_key(settings: MaskSettings, key: str) -> None:  # guard: mask-key-present
    """Raise ConfigError if the key of a source's rules is not set, or too short; `key` is the source's section."""
    name = settings.key_variable
    if name is None:
        return
    value = os.environ.get(name, "")
    state = f"has {len(value.encode())} bytes" if value else "is not set"
    if len(value.encode()) < _MIN_KEY_BYTES:
        raise ConfigError(
            f"{key}.mask.key_variable: the environment variable with the key {state}; it needs at least "
            f"{_MIN_KEY_BYTES} bytes. To make a key: openssl rand -hex 32"
        )


class Mask:
    """Rules in a session's JVM.

    Args:
        spark: the session.
        masking: the rules; their key is set, see `Masking.problem`.
        records: how the log format puts the lines of a file together; None if each line is a record.
    """

    def __init__(self, spark: SparkSession, masking: Masking, records: Records | None = None) -> None:
        java, variable = jvm(spark).oncelake.Mask, masking.key_variable
        if variable is not None and masking.key_id is not None and not java.has(variable, masking.key_id):
            java.hold(os.environ[variable])
        rules = json.dumps([dict(rule) for rule in masking.rules])
        # guard: cut-line-masked-joined
        joint, part = (records.joint, records.part) if records is not None else (None, None)
        self._java = java.of(rules, variable, masking.key_id, masking.way, joint, part)  # guard: masks-as-when-read

    def problem(self) -> str | None:
        """Return why Java does not accept a rule; None if it accepts all."""
        problem = self._java.problem()
        return str(problem) if problem is not None else None

    def value(self, value: bytes) -> bytes:
        """Return a value as bronze keeps it."""
        return bytes(self._java.value(value))

    def rows(self, rows: DataFrame, version: str) -> DataFrame:
        """Return bronze's rows as bronze keeps them, with the columns of `COLUMNS`.

        Args:
            rows: the rows as the source has them.
            version: the fingerprint of the rules.
        """
        # a file's headers are oncelake's own
        fields = {name: F.col(name) for name in _FIELDS} | {"headers": F.when(~is_stand_in(), F.col("headers"))}
        result = self._of(*fields.values()).alias("made")
        masked = {name: F.col(f"made.{name}") for name in _FIELDS}
        # guard: stand-in-headers-not-masked
        masked["headers"] = F.when(is_stand_in(), F.col("headers")).otherwise(masked["headers"])
        columns = [masked.get(name, F.col(name)).alias(name) for name in rows.columns]  # guard: keys-and-headers-masked
        more = (raw_length(rows), F.col(f"made.{MASKED}"), F.lit(version))
        added = (value.alias(column.name) for value, column in zip(more, COLUMNS, strict=True))
        return rows.select("*", result).select(*columns, *added)

    def values(self, rows: DataFrame) -> DataFrame:
        """Return rows with their `value` as bronze keeps it; the other columns stay as they are."""
        result = rows.select("*", self._of(F.col("value"), None, None).alias("made"))
        return result.select(*(F.col("made.value").alias(name) if name == "value" else name for name in rows.columns))

    def _of(self, *columns: Column | None) -> Column:
        inputs = [
            F.lit(None).cast(_TYPES[field]) if column is None else column
            for field, column in zip(_FIELDS, columns, strict=True)
        ]
        return applied(self._java.function(_ROW), *inputs)


def check_mask(spark: SparkSession, settings: MaskSettings, key: str) -> None:
    """Check that a session can apply a source's rules, on every executor.

    Args:
        spark: the session.
        settings: the rules.
        key: the source's section in the settings.

    Raises:
        ConfigError: the session lacks our classes or the key, or Java does not accept a pattern.
    """
    check_key(settings, key)
    here = str(spark.sparkContext.master).startswith("local")
    if here or not has_class(spark, _CLASS):
        problem = why_not_on_class_path(spark, _CLASS, f"{key}.mask is set")
        if problem is not None:
            raise ConfigError(problem)
    mask = Mask(spark, settings.resolved())
    problem = mask.problem()
    if problem is None and not here:
        problem = _on_executors(spark, mask)
    if problem is not None:
        raise ConfigError(f"{key}.mask: {problem}")


def _on_executors(spark: SparkSession, mask: Mask) -> str | None:
    """Return why executors cannot apply rules; each of them reads the key for it."""
    tried = spark.range(0, _PROBES, 1, _PROBES).select(F.lit("a@b.example 1.2.3.4").cast("binary").alias("value"))
    try:
        mask.values(tried).select(F.count("value")).collect()
    except Exception as error:
        message = next((line for line in str(error).splitlines() if "mask" in line or _CLASS in line), str(error))
        return f"an executor cannot apply the rules: {message.splitlines()[0][:200]}"
    return None


def raw_length(rows: DataFrame) -> Column:
    """Return the bytes of each value in the source, one line end not counted; null for a record without a value."""
    return F.expr(raw_length_of(rows.columns))


def raw_length_of(columns: Container[str]) -> str:
    """Return `raw_length` in SQL, for rows of bronze with some columns."""
    length = "CAST(octet_length(value) AS BIGINT)"
    # guard: masked-length-of-source
    length = f"coalesce({BYTES}, {length})" if BYTES in columns else length
    return f"CASE WHEN {IS_STAND_IN} THEN {BYTES_IN_FILE} - 1 ELSE {length} END"  # guard: stand-in-raw-length


def count_of_matches(rule: str) -> Count:
    """Return the count of the matches of a rule in a batch."""

    def of_frame() -> Column:
        return F.coalesce(F.sum(F.col(MASKED)[rule]), F.lit(0))

    def of_table(rows: "pyarrow.Table") -> int:
        import pyarrow  # noqa: PLC0415 - a run that collects nothing need not have it
        import pyarrow.compute as pc  # noqa: PLC0415

        return pc.sum(pc.map_lookup(rows[MASKED], pyarrow.scalar(rule), "first")).as_py() or 0

    return Count(f"{MASKED} {rule}", of_frame, of_table)
