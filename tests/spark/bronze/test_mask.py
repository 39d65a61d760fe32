"""Rules mask what they find and no other byte, in a value alone and in bronze's rows alike."""

import json
import re
import unicodedata
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from oncelake.bronze.mask import BYTES, MASKED, VERSION, Mask, Masking, MaskSettings, check_mask
from oncelake.bronze.mask_versions import MaskVersion, MaskVersions
from oncelake.bronze.records import Records
from oncelake.bronze.schema import BRONZE
from oncelake.common.ansi import SEQUENCES
from oncelake.common.errors import ConfigError
from oncelake.common.explain import explain
from oncelake.engine.conf_file import shipped_conf
from oncelake.silver.parsing.format import load_format
from tests.support import masking

pytestmark = pytest.mark.spark

KEY = "0123456789abcdef0123456789abcdef"
VARIABLE = "MASK_TEST_KEY"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, KEY)


def settings(*rules: dict[str, Any]) -> MaskSettings:
    hashes = any(rule["action"] == "hash" for rule in rules)
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


REPLACED = {"action": "replace", "text": "#"}
EMAIL, CARD = {"find": "email", **REPLACED}, {"find": "card", **REPLACED}
AUTHORIZATION = {"find": "authorization", **REPLACED}
HASHED = {"find": "email", "action": "hash"}
IPV6 = {"find": "ipv6", **REPLACED}
TOKEN = {"pattern": r"token=(\S+)", "group": 1, **REPLACED}


@pytest.mark.parametrize(
    ("rule", "value", "expected"),
    [
        (EMAIL, r'{"m":"ann\u0040example.com"}', '{"m":"#"}'),
        (EMAIL, r'{"m":"a\tann@example.com"}', r'{"m":"a\t#"}'),
        (EMAIL, r'{"m":"from \u003cann@example.com\u003e"}', r'{"m":"from \u003c#\u003e"}'),
        (EMAIL, r'{"m":"C:\\new@example.com"}', r'{"m":"C:\\#"}'),
        (EMAIL, r'{"\u0061nn@example.com":1}', '{"#":1}'),
        (EMAIL, r"{'m':'ann\u0040example.com'}", "{'m':'#'}"),
        (EMAIL, r"msg=\"\tann\@example.com\" x=1".replace('\\"', '"'), r'msg="\t#" x=1'),
        (EMAIL, r"C:\tann@example.com", "C:\\#"),
        (EMAIL, r'{"a":"x","b":"ann\u0040example.com', '{"a":"x","b":"#'),
        (EMAIL, r'{"log":"{\"m\":\"\\tann\\u0040example.com\"}\n"}', r'{"log":"{\"m\":\"\\t#\"}\n"}'),
        (IPV6, r'{"m":"peers:\n2001:db8::1"}', r'{"m":"peers:\n#"}'),
        (CARD, '{"n": 4111111111111111, "x":1}', '{"n": "#", "x":1}'),
        (CARD, r'{"log":"{\"n\":4111111111111111}\n"}', r'{"log":"{\"n\":\"#\"}\n"}'),
        (CARD, "at {} [4111111111111111]", "at {} [#]"),
        (
            AUTHORIZATION,
            r'{"m":"GET /\r\nAuthorization: ApiKey s3cr3t\r\n"}',
            r'{"m":"GET /\r\nAuthorization: ApiKey #\r\n"}',
        ),
        (AUTHORIZATION, '{"Authorization"=>"s3cret"}', '{"Authorization"=>"#"}'),
        (AUTHORIZATION, '["Authorization", "ApiKey s3"], 1', '["Authorization", "ApiKey #"], 1'),
        (AUTHORIZATION, "HTTP_AUTHORIZATION=s3 x", "HTTP_AUTHORIZATION=#"),
        (
            AUTHORIZATION,
            "Authorization: AWS4-HMAC-SHA256 Credential=AK/2026/s3, SignedHeaders=host;x, Signature=fe5f80 done",
            "Authorization: # done",
        ),
        (AUTHORIZATION, '{"Authorization": 12345}', '{"Authorization": "#"}'),
        (AUTHORIZATION, r'{"Authoriz\u0061tion": "ApiKey s3\"cr3t"}', r'{"Authoriz\u0061tion": "ApiKey #"}'),
        (AUTHORIZATION, '{"Authorization": ["ApiKey x"]}', '{"Authorization": ["ApiKey #"]}'),
        (TOKEN, '{"m":"token=abc","x":1}', '{"m":"token=#","x":1}'),
        ({"pattern": "^ada$", **REPLACED}, '{"m":"ada","x":1}', '{"m":"#","x":1}'),
        ({"find": "all", **REPLACED}, r'{"m":"a\nb"}', "#"),
        ({"pattern": "ada", "action": "replace", "text": 'a "b"'}, '{"m":"ada"}', r'{"m":"a \"b\""}'),
        ({"pattern": r"\d{4}", **REPLACED}, '{"n":41111111}', '{"n":"##"}'),
        ({"pattern": "jos\u00e9", **REPLACED}, "to jose\u0301.", "to #."),
        (EMAIL, "x jose\u0301@example.com", "x #"),
        (EMAIL, "x ann\x1b[0m@exam\x1b[1;31mple.com\x1b[0m y", "x #\x1b[0m y"),
        (EMAIL, r'{"m":"ann\u001b[0m@example.com"}', '{"m":"#"}'),
        (CARD, "n=5\x1b[0m4111111111111111\x1b[0m1", "n=5\x1b[0m#\x1b[0m1"),
        (CARD, "n=\x1b[36m4111 1111\x1b]8;;x\x07 1111 1111\x1b[0m", "n=\x1b[36m#\x1b[0m"),
    ],
)
def test_a_rule_sees_what_a_reader_sees_and_json_stays_json(
    spark: SparkSession, rule: dict[str, Any], value: str, expected: str
) -> None:
    assert masked(spark, value.encode(), rule).decode() == expected


def test_a_text_has_one_pseudonym_in_whatever_form_it_is_written(spark: SparkSession) -> None:
    composed = "jos\u00e9@example.com"
    forms = (composed, unicodedata.normalize("NFD", composed), r"jos\u00e9\u0040example.com", r"jose\u0301@example.com")
    for form in forms:
        assert masked(spark, f'{{"m":"{form}"}}'.encode(), HASHED) == b'{"m":"%b"}' % pseudonym(composed.encode())


SHIPPED = shipped_conf() / "formats"


def records(name: str) -> Records:
    found = load_format(name, [SHIPPED]).record
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        (
            "kubernetes",
            "2026Z stdout P to ann@exam\r\n2026Z stdout P ple.c\n2026Z stdout F om now",
            "2026Z stdout P to #\r\n2026Z stdout P \n2026Z stdout F  now",
        ),
        (
            "kubernetes",
            "2026Z stdout P card 4111 1111 1\n2026Z stdout F 111 1111",
            "2026Z stdout P card #\n2026Z stdout F ",
        ),
        (
            "docker",
            '{"log":"to ann\\u0040exam","stream":"stdout","attrs":{"by":"bob@example.com"},"time":"1"}\n'
            '{"log":"ple.com\\n","stream":"stdout","time":"2"}',
            '{"log":"to #","stream":"stdout","attrs":{"by":"#"},"time":"1"}\n'
            '{"log":"\\n","stream":"stdout","time":"2"}',
        ),
        (  # silver puts lines together that were not cut, with a line end between them
            "kubernetes",
            "2026Z stdout F to ann@example.com\n2026Z stdout F bob@ex\n2026Z stdout P x bob@ex\n2026Z stdout F ple.com",
            "2026Z stdout F to #\n2026Z stdout F bob@ex\n2026Z stdout P x #\n2026Z stdout F ",
        ),
    ],
)
def test_parts_that_a_runtime_has_cut_are_masked_as_joined_and_stay_lines(
    spark: SparkSession, name: str, value: str, expected: str
) -> None:
    mask = Mask(spark, settings(EMAIL, CARD).resolved(), records(name))
    assert mask.value(value.encode()).decode() == expected


def test_an_old_version_of_the_rules_sees_the_text_as_it_is_written(spark: SparkSession) -> None:
    kept = settings(EMAIL).resolved().model_dump(mode="json", exclude_defaults=True)
    old = {name: value for name, value in kept.items() if name != "way"}
    assert "way" not in Masking.model_validate(old).model_dump_json()
    joined = records("kubernetes").model_dump(mode="json", exclude_defaults=True)
    versions = MaskVersions(lambda: spark, {"old": {"rules": [joined, old]}, "new": {"rules": [joined, kept]}}.get)
    value = b'2026Z stdout P {"m":"\\tann@example.com bob@e\n2026Z stdout F .example"}'
    made = {}
    for name in ("old", "new"):
        version = versions.of(name)
        assert isinstance(version, MaskVersion)
        assert version.records == records("kubernetes")
        made[name] = version.mask.value(value)
    assert made["old"] == b'2026Z stdout P {"m":"\\# bob@e\n2026Z stdout F .example"}'
    assert made["new"] == b'2026Z stdout P {"m":"\\t# #\n2026Z stdout F "}'


CANARY = "Jose\u0301.Canary@mask.example"


@st.composite
def escaped(draw: st.DrawFn, text: str) -> str:
    """Draw a spelling of a text in a string of JSON."""
    spellings = (lambda each: json.dumps(each, ensure_ascii=False)[1:-1], "\\u{:04x}".format, "\\u{:04X}".format)
    chosen = ((each, draw(st.integers(0, 2))) for each in text)
    return "".join(spellings[way](ord(each) if way else each) for each, way in chosen)


@st.composite
def lines(draw: st.DrawFn) -> tuple[str, str, int]:
    """Draw a line with the canary: its format, the line, and how deep the canary is in strings."""
    form: Literal["NFC", "NFD"] = draw(st.sampled_from(("NFC", "NFD")))
    canary = unicodedata.normalize(form, draw(st.sampled_from([CANARY, CANARY.upper(), CANARY.lower()])))
    around = st.text(st.sampled_from(" \t\n\"\\{}[]:,<>'"), max_size=4)
    at = draw(st.integers(0, len(canary)))
    canary = canary[:at] + draw(st.sampled_from(["", "", "\x1b[1;31m"])) + canary[at:]
    text, depth = draw(around) + " " + canary + " " + draw(around), draw(st.integers(1, 3))
    for _ in range(depth):
        text = f'{{"a":1,"m":"{draw(escaped(text))}","n":[true,"x"]}}'
    name = draw(st.sampled_from(["json", "kubernetes", "docker"]))
    if name == "json":
        return name, text, depth
    cut = draw(st.integers(0, len(text)))
    if name == "kubernetes":
        return name, f"2026Z stdout P {text[:cut]}\n2026Z stdout F {text[cut:]}", depth
    parts = [json.dumps(each, ensure_ascii=False) for each in (text[:cut], text[cut:] + "\n")]
    return name, "\n".join(f'{{"log":{part},"stream":"stdout","time":"1"}}' for part in parts), depth


def messages(name: str, line: str, depth: int) -> list[str]:
    """Return what readers can see of a line: joined, and each string of JSON in a string of JSON."""
    if name != "json":
        line = re.sub(f"(?m){java(records(name).joint or '')}", "", line)
    seen = [line]
    text = line.split(" ", 3)[3] if name == "kubernetes" else line
    if name == "docker":
        text = json.loads(text)["log"]
    for _ in range(depth):
        text = json.loads(text)["m"]
        seen.append(text)
    return seen


def java(pattern: str) -> str:
    return pattern.replace("*+", "*").replace("?+", "?").replace("++", "+")


@hypothesis_settings(max_examples=300, deadline=None)
@given(lines())
def test_no_reader_can_bring_a_masked_text_back(spark: SparkSession, drawn: tuple[str, str, int]) -> None:
    name, line, depth = drawn
    mask = Mask(spark, settings(EMAIL).resolved(), None if name == "json" else records(name))
    made = mask.value(line.encode()).decode()
    assert made.count("\n") == line.count("\n")
    for written in messages(name, made, depth):
        seen = re.sub(SEQUENCES, "", written)
        assert "canary" not in unicodedata.normalize("NFC", seen).lower(), made
    assert re.search(r'[ "]#[ "]', seen), made  # in quotes, if the text is a list in JSON of its own
