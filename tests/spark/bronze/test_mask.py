"""Rules mask what they find and no other byte, in a value alone and in bronze's rows alike."""

from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oncelake.bronze.mask import BYTES, MASKED, VERSION, Mask, MaskSettings, check_mask
from oncelake.bronze.schema import BRONZE
from oncelake.common.errors import ConfigError
from oncelake.common.explain import explain
from tests.support import masking

pytestmark = pytest.mark.spark

KEY = "0123456789abcdef0123456789abcdef"
VARIABLE = "MASK_TEST_KEY"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def settings(*rules: dict[str, Any]) -> MaskSettings:
    hashes = any(each["action"] == "hash" for each in rules)
    return MaskSettings.model_validate({"rules": rules, **({"key_variable": VARIABLE} if hashes else {})})


def masked(spark: SparkSession, value: bytes, *rules: dict[str, Any]) -> bytes:
    return Mask(spark, settings(*rules).resolved()).value(value)


def pseudonym(value: bytes, length: int = 16) -> bytes:
    return masking.pseudonym(KEY, value, length)


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("email", "from ada.l+x@mail.example.org, ok", "from #, ok"),
        ("email", "jürgen@bücher.example und user@host", "# und user@host"),
        ("ipv4", "10.0.0.255:80 1.2.3.4.5 256.1.1.1 9.9.9.9.", "#:80 1.2.3.4.5 256.1.1.1 #."),
        ("ipv6", "[2001:db8::1]:80 at 12:34:56 from fe80::1: ::ffff:10.0.0.1", "[#]:80 at 12:34:56 from #: #"),
        ("ipv6", "1:2:3:4:5:6:7:8 1:2:3:4:5:6:7:8:9 std::string 1::2::3", "# 1:2:3:4:5:6:7:8:9 std::string 1::2::3"),
        (
            "card",
            "2026 4111 1111 1111 1111 x 4111-1111-1111-1112 at 1700000000123",
            "2026 # x 4111-1111-1111-1112 at 1700000000123",
        ),
        ("card", "4111111111111111 12 5555555555554444", "# 12 #"),
        ("authorization", "Authorization: Bearer abc.def-1 GET", "Authorization: Bearer # GET"),
        (
            "authorization",
            '{"authorization":"Basic dXNlcg==","x":1} bearer zzz',
            '{"authorization":"Basic #","x":1} bearer #',
        ),
        (
            "authorization",
            "Authorization: mytoken GET /x, Authorization: Other abc",
            "Authorization: # /x, Authorization: #",
        ),
        ("all", "what\never", "#"),
    ],
)
def test_a_shipped_pattern_finds_what_it_says(spark: SparkSession, name: str, value: str, expected: str) -> None:
    rule = {"find": name, "action": "replace", "text": "#"}
    assert masked(spark, value.encode(), rule).decode() == expected


def test_no_byte_outside_a_match_changes(spark: SparkSession) -> None:
    value = b"\xff\xc3(\xed\xa0\x80\x00\r \xf0\x9f\x98\x80 a@b.example \xf0\x9f\x98 ja\xc3"
    drop = {"find": "email", "action": "drop"}
    assert masked(spark, value, drop) == value.replace(b"a@b.example", b"")
    for same in (b"", b"\n\n", bytes(range(256)), "größe 😀 ".encode()):
        assert masked(spark, same, drop) == same
    smile = {"pattern": "[\U0001f600-\U0001f60f]", "action": "replace", "text": "☺"}
    assert masked(spark, "a😀\xe9".encode() + b"\x80", smile) == "a☺\xe9".encode() + b"\x80"


def test_equal_texts_get_equal_pseudonyms_under_one_key(spark: SparkSession) -> None:
    rule = {"find": "email", "action": "hash", "length": 20}
    one, two = b"a@b.example", b"c@d.example"
    assert masked(spark, one + b" " + two + b" " + one, rule) == b" ".join(pseudonym(x, 20) for x in (one, two, one))


def test_only_the_group_is_masked(spark: SparkSession) -> None:
    rule = {"pattern": r"user=(\S+)|guest", "group": 1, "action": "hash"}
    assert masked(spark, b"user=ada guest user=bob", rule) == b"user=%b guest user=%b" % (
        pseudonym(b"ada"),
        pseudonym(b"bob"),
    )


def test_rules_are_applied_in_the_declared_order_each_to_the_result_of_the_one_before(spark: SparkSession) -> None:
    first = {"name": "one", "pattern": "ab", "action": "replace", "text": "bb"}
    second = {"name": "two", "pattern": "bb+", "action": "replace", "text": "<longer>"}
    assert masked(spark, b"abb", first, second) == b"<longer>"
    assert masked(spark, b"abb", second, first) == b"a<longer>"


def test_a_rule_sees_a_record_of_several_lines_as_a_whole(spark: SparkSession) -> None:
    rule = {"pattern": r"(?s)-----BEGIN.+?-----END", "action": "drop"}
    assert masked(spark, b"x\n-----BEGIN\nsecret\n-----END\ny", rule) == b"x\n\ny"


@pytest.mark.parametrize(("pattern", "value"), [(r"a*a*a*a*b", b"a" * 500), (r"(?:a|b)+c", b"ab" * 50_000)])
def test_a_pattern_that_takes_too_many_steps_ends_with_the_rule_and_not_the_text(
    spark: SparkSession, pattern: str, value: bytes
) -> None:
    rule = {"name": "slow", "pattern": pattern, "action": "drop"}
    rows = spark.createDataFrame([(bytearray(value),)], "value binary")
    with pytest.raises((PySparkException, Py4JJavaError)) as found:
        Mask(spark, settings(rule).resolved()).values(rows).collect()
    said = explain(found.value)
    assert f"mask rule slow takes too many steps on a record of {len(value)} bytes; nothing of the batch" in said, said
    assert "aaaa" not in said
    assert "aaaa" not in str(found.value)


def test_shipped_patterns_take_few_steps_on_a_long_line(spark: SparkSession) -> None:
    names = ("all", "authorization", "card", "email", "ipv4", "ipv6")
    rules = [{"find": name, "action": "replace", "text": "#", "name": f"a_{name}"} for name in names[1:]]
    for text in (
        b"a" * 300_000,
        b"a." * 150_000,
        b"1" * 300_000,
        b"1 " * 150_000,
        b"a:" * 150_000,
        b"bearer " * 40_000,
    ):
        masked(spark, text, *rules)


def test_rows_have_what_was_masked_in_value_key_and_headers(spark: SparkSession) -> None:
    mail, schema = bytearray(b"a@b.example"), BRONZE
    row = dict.fromkeys(schema.fieldNames())
    rows = spark.createDataFrame(
        [
            {
                **row,
                "value": mail + b" " + mail,
                "key": mail,
                "headers": [("From", mail), ("other", mail), ("n", None)],
            },
            {**row, "value": bytearray(b"nothing")},
            {**row},
        ],
        schema,
    )
    rules = (
        {"name": "mail", "find": "email", "action": "hash", "fields": ["value", "key", "headers.FROM"]},
        {"name": "never", "pattern": "zzz", "action": "drop"},
    )
    mask = Mask(spark, settings(*rules).resolved())
    first, second, third = mask.rows(rows, "v1").collect()
    hashed = pseudonym(b"a@b.example")
    assert first["value"] == hashed + b" " + hashed
    assert first["key"] == hashed
    assert [(each["key"], each["value"]) for each in first["headers"]] == [
        ("From", hashed),
        ("other", mail),
        ("n", None),
    ]
    assert (first[BYTES], first[MASKED], first[VERSION]) == (23, {"mail": 4}, "v1")
    assert (second["value"], second["headers"], second[BYTES], second[MASKED]) == (b"nothing", None, 7, None)
    assert (third["value"], third[BYTES], third[MASKED], third[VERSION]) == (None, None, None, "v1")


def test_a_plan_shows_neither_the_key_nor_the_rules(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    rule = {"pattern": "a-pattern", "action": "hash"}
    rows = Mask(spark, settings(rule).resolved()).rows(spark.createDataFrame([], BRONZE), "v1")
    rows.explain("extended")
    shown = capsys.readouterr().out
    assert "UDF" in shown
    assert KEY not in shown
    assert "a-pattern" not in shown


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (
            {"pattern": "(", "action": "drop"},
            "source.mask: rule rule_1: Java does not accept the pattern: Unclosed group",
        ),
        ({"pattern": "a", "group": 1, "action": "drop"}, "source.mask: rule rule_1: the pattern has no group 1"),
    ],
)
def test_a_rule_that_java_cannot_apply_is_refused(spark: SparkSession, rule: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError) as found:
        check_mask(spark, settings(rule), "source")
    assert str(found.value).startswith(said)
