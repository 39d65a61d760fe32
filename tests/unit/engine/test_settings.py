"""A configuration is typed and strict: an error is one line, with the value and the way out."""

import re
import sys
import types
from datetime import timedelta
from pathlib import Path

import pytest

from oncelake.common.errors import ConfigError
from oncelake.common.lake import BRONZE, Table
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured, load
from oncelake.engine.settings import Settings
from oncelake.sources.registry import KINDS

KINDS_LISTED = " or ".join(", ".join(map(repr, KINDS)).rsplit(", ", 1))
MINIMAL = "source: {path: /logs}\nlake: {root: /lake}\n"


@pytest.fixture
def conf(tmp_path: Path) -> Path:
    path = tmp_path / "conf.yaml"
    path.write_text(MINIMAL)
    return path


def message(conf: Path, *sets: str) -> str:
    with pytest.raises(ConfigError) as caught:
        load(conf, sets)
    assert "\n" not in str(caught.value)
    assert caught.value.exit_code == 2
    return str(caught.value)


def test_a_lake_on_s3_has_its_checkpoints_in_the_users_state(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_STATE_HOME", raising=False)
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)

    def at(root: str) -> str:
        lake = load(conf, [f"lake.root={root}"]).places()
        assert lake.per_host
        return lake.checkpoints

    one = at("s3://bucket/logs/lake 1/")
    assert re.fullmatch(r"/home/somebody/.local/state/oncelake/bucket-logs-lake-1-[0-9a-f]{8}", one)
    assert at("s3a://bucket/logs/lake 1") == one, "the same lake"
    assert at("s3a://key:secret@bucket/logs/lake 1") == one, "a key is no part of a name"
    assert at("s3://bucket/logs/lake-1") != one
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    assert at("s3://bucket/logs/lake 1") != one, "the same name on another store"
    monkeypatch.setenv("XDG_STATE_HOME", "/var/lib")
    assert at("s3://bucket/lake").startswith("/var/lib/oncelake/bucket-lake-")


def test_checkpoints_are_on_the_store_without_a_home_and_on_databricks(
    conf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "18.0")
    assert load(conf, ["lake.root=s3://bucket/lake"]).places().checkpoints == "s3://bucket/lake/_checkpoints"
    monkeypatch.delenv("DATABRICKS_RUNTIME_VERSION")
    monkeypatch.delenv("XDG_STATE_HOME")
    monkeypatch.setattr("os.path.expanduser", lambda text: text)
    assert load(conf, ["lake.root=s3://bucket/lake"]).places().checkpoints == "s3://bucket/lake/_checkpoints"


def test_places_are_below_the_root(conf: Path) -> None:
    lake = load(conf).places()
    assert lake.checkpoint("gold.error_log") == "/lake/_checkpoints/gold/error_log"
    assert load(conf, ["checkpoints=s3a://b/c/"]).places().checkpoint("bronze") == "s3a://b/c/bronze"


def test_a_flag_overrides_the_environment_which_overrides_the_file(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf.write_text(MINIMAL + "run: {trigger: 1 minute, lock_wait: 1 second}\n")
    monkeypatch.setenv("ONCELAKE_RUN__TRIGGER", "2 minutes")
    monkeypatch.setenv("ONCELAKE_RUN__LOCK_WAIT", "2 seconds")
    settings = load(conf, ["run.trigger=500 milliseconds"])
    assert settings.run.trigger == timedelta(milliseconds=500)
    assert settings.run.lock_wait == timedelta(seconds=2)


def test_the_zone_of_a_source_is_that_of_its_format(conf: Path) -> None:
    conf.write_text(
        "sources:\n  till: {path: /till, format: java, zone: Asia/Tokyo}\n"
        "  pods: {path: /pods, format: kubernetes, inside: java, zone: Europe/Paris}\n"
        "  web: {path: /web, format: java}\nlake: {root: /lake}\n"
    )
    _, parsers = configured(conf, [])
    inside = parsers["pods"].declared.inside
    assert inside is not None
    assert [parsers[name].declared.zone for name in ("till", "web")] == ["Asia/Tokyo", "UTC"]
    assert [source.zone for source in inside.loaded.values()] == ["Europe/Paris"]
    assert [name for name, parser in parsers.items() if parser.declared.assumes_utc] == ["web"]


def test_kafka_options_may_be_nested_or_dotted_and_lose_their_prefix_once_only(conf: Path) -> None:
    conf.write_text(
        "source:\n  kind: kafka\n  bootstrap_servers: h:1\n"
        "  kafka: {security.protocol: SSL, ssl: {truststore.location: /t}, enable.idempotence: true}\n"
        "lake: {root: /lake}\n"
    )
    settings = load(conf, ["source.kafka.client.id=7"])
    assert settings.by_name["access_log"].kafka == {
        "security.protocol": "SSL",
        "ssl.truststore.location": "/t",
        "enable.idempotence": "true",
        "client.id": "7",
    }


@pytest.mark.parametrize(
    ("sets", "expected"),
    [
        (["lake.rot=/x"], "lake.rot: there is no such setting; did you mean lake.root?"),
        (["sorce.path=/x"], "sorce: there is no such setting; did you mean source?"),
        (
            ["sources.web.pth=/x", "sources.web.path=/y"],
            "sources.web.pth: there is no such setting; did you mean",
        ),
        (["gold.a.evry=1 minute"], "gold.a.evry: there is no such setting; did you mean gold.a.every?"),
        (["lake.schemas.bronz=x"], "lake.schemas.bronz: there is no such setting; did you mean lake.schemas.bronze?"),
        (["source.kind=socket"], f"source.kind: Input should be {KINDS_LISTED}, not 'socket'"),
        (["source.max_offsets_per_batch=many"], "not 'many'"),
        (["source.max_bytes_per_batch=0"], "greater than 0"),
        (["run.trigger=5s"], "run.trigger: expected a duration: a number, a space, and milliseconds, seconds"),
        (["run.trigger=99999999999999999999 days"], "run.trigger: expected a duration"),
        (["silver="], "silver: expected a mapping of keys and values; write its keys below it, or remove it"),
        (["silver.earliest=2020-01-01"], "expected a time with its zone, such as 1970-01-01T00:00:00Z, not"),
        (["serving.tables=error_log"], "serving.tables: expected a list, such as [one, two], not 'error_log'"),
        (["serving.tables=[error_log]"], "serving.tables is set, but neither serving.url nor serving.sink"),
        (["spark.driver_memory=2gb"], "spark.driver_memory: expected a number and m or g, such as 2g, not '2gb'"),
        (["source.kind=kafka"], "source.bootstrap_servers is required"),
        (["source.topic=a,b"], "source.topic"),
        (["source.group_id=lag"], "source.group_id is a Kafka consumer group; remove it, or set source.kind"),
        (["metrics.port=0"], "metrics.port"),
        (["metrics.port=65536"], "metrics.port"),
        (["run.trigger=soon"], "run.trigger"),
        (["lake.root="], "lake.root"),
        (["spark.conf={spark.sql.ansi.enabled: true}"], "spark.sql.ansi.enabled cannot be set"),
        (["spark.driver_memory=lots"], "spark.driver_memory"),
        (["gold={'a\"b': {every: 1 minute, measures: {n: count}}}"], 'a"b'),
        (["gold.Error={every: 1 minute, measures: {n: count}}"], "'Error' is not a valid name"),
        (["gold.t={every: 1 minute, measures: {n: mode(x)}}"], "gold.t.measures.n"),
        (["lake.root=/logs/lake"], "lake.root /logs/lake is inside source.path /logs"),
        (["checkpoints=file:///logs"], "checkpoints /logs is inside source.path /logs"),
        (["spark.conf={spark.sql.files.ignoreMissingFiles: true}"], "ignoreMissingFiles cannot be set"),
        (["nonsense"], "expected dotted.key=value"),
        (["a..b=1"], "expected dotted.key=value"),
        (["source=1", "source.path=2"], "another --set already gives a value"),
    ],
)
def test_a_wrong_setting_is_a_one_line_error(conf: Path, sets: list[str], expected: str) -> None:
    assert expected in message(conf, *sets)


@pytest.mark.parametrize(
    ("key", "why"),
    [("isolation.level", "aborted"), ("kafka.auto.offset.reset", "earliest"), ("bootstrap.servers", "source.")],
)
def test_a_kafka_option_that_would_break_the_guarantee_is_refused(conf: Path, key: str, why: str) -> None:
    assert why in message(conf, f"source.kafka={{{key}: x}}")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "expected a mapping of settings"),
        ("[1, 2]", "not [1, 2]"),
        ("a: [", "is not valid YAML"),
        ("a: b: c", "is not valid YAML"),
    ],
)
def test_a_file_that_is_not_a_mapping_is_refused(conf: Path, text: str, expected: str) -> None:
    conf.write_text(text)
    assert expected in message(conf)


def test_a_key_that_stands_twice_is_refused(conf: Path) -> None:
    conf.write_text("lake: {root: /a}\nsource: &own\n  path: /x\n  path: /y\n")
    assert message(conf).endswith("the key path stands in line 3 and again in line 4; keep one")
    conf.write_text("lake: {root: /a}\nsource: {path: /x}\n")
    assert "--set gold.a: the key by stands in line 1" in message(conf, "gold.a={by: {}, every: 1 day, by: {}}")
    conf.write_text("a: &a {path: /x}\nsource:\n  <<: *a\n  path: /y\n")
    assert "a: there is no such setting" in message(conf)


def test_the_error_of_a_missing_file_names_the_searched_places(tmp_path: Path) -> None:
    assert f"there is no configuration file {tmp_path / 'none.yaml'}" in message(tmp_path / "none.yaml")


GIVEN = ["source.path=/var/log/myapp", "lake.root=/data/lake"]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Change to an empty directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.usefixtures("elsewhere")
@pytest.mark.parametrize(
    ("environment", "sets"),
    [
        ({}, GIVEN),
        ({"ONCELAKE_SOURCE__PATH": "/var/log/myapp", "ONCELAKE_LAKE__ROOT": "/data/lake"}, []),
        ({"ONCELAKE_LAKE__CATALOG": "main", "ONCELAKE_CHECKPOINTS": "/c"}, ["source.path=/var/log/myapp"]),
        ({}, ["source.kind=kafka", "source.bootstrap_servers=broker1:9092", "lake.root=/data/lake"]),
        ({}, ["sources={a: {path: /var/log/a}, b: {path: /var/log/b}}", "lake.root=/data/lake"]),
    ],
)
def test_no_file_is_needed_if_source_and_lake_are_given(
    environment: dict[str, str], sets: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for key, value in environment.items():
        monkeypatch.setenv(key, value)
    settings = load(None, sets)
    assert list(settings.gold) == ["error_log", "log_volume"]
    assert {source.format for source in settings.by_name.values()} == {"default"}


@pytest.mark.parametrize("sets", [[], GIVEN[:1], GIVEN[1:]])
def test_without_a_file_source_and_lake_must_be_given(elsewhere: Path, sets: list[str]) -> None:
    with pytest.raises(ConfigError) as raised:
        load(None, sets)
    said = str(raised.value)
    assert said.startswith(f"there is no configuration: no conf/local.yaml in {elsewhere}, and no source and lake")
    assert "oncelake init DIR" in said
    assert "ONCELAKE_CONF" in said


def test_without_a_file_a_wrong_setting_is_named_as_ever(elsewhere: Path) -> None:
    assert elsewhere.is_dir()
    with pytest.raises(ConfigError, match=r"^local.yaml with environment and --set: gold.error_log.every: "):
        load(None, [*GIVEN, "gold.error_log={every: never}"])


def test_the_file_of_the_working_directory_is_read_if_none_is_named(elsewhere: Path) -> None:
    (elsewhere / "conf").mkdir()
    (elsewhere / "conf/local.yaml").write_text(MINIMAL)
    assert load(None).gold == {}
    assert load(shipped_conf() / "local.yaml").gold


@pytest.mark.parametrize(
    ("name", "value"),
    [("ONCELAKE_SERVING__TABLES", "[error_log]"), ("ONCELAKE_LAKE", "/x"), ("ONCELAKE_SOURCE__KAFKA", '{"a": 1,}')],
)
def test_a_variable_that_is_not_json_is_named_without_its_value(
    conf: Path, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv("ONCELAKE_SERVING__PASSWORD", "canary")
    monkeypatch.setenv(name, value)
    said = message(conf)
    assert said.startswith(f"environment variable {name}: its value is not JSON; write a list as")
    assert value not in said


def test_a_misspelt_environment_variable_is_named(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_SORCE__PATH", "/x")
    assert "ONCELAKE_SORCE__PATH: there is no such setting" in message(conf)
    assert message(conf).endswith("; did you mean source?")
    monkeypatch.delenv("ONCELAKE_SORCE__PATH")
    monkeypatch.setenv("ONCELAKE_SOURCE__PTH", "/x")
    assert "source.pth: there is no such setting" in message(conf)


@pytest.mark.parametrize(
    "broken", ["source.kind=nonsense", "source.kafka.isolation.level=x", "source.pth=x", "lake.root="]
)
def test_no_error_shows_a_kafka_secret(conf: Path, broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_SOURCE__KAFKA", '{"sasl.jaas.config": "user password=canary-4711"}')
    assert "canary" not in message(conf, "source.kind=kafka", broken)


@pytest.mark.parametrize(
    "text",
    [
        "password: *canary",
        "url: !canary",
        'url: "canary',
        "url: a: canary",
        "- [canary",
        "url: canary\x00",
        "\t- canary",
    ],
)
def test_an_invalid_yaml_file_is_not_quoted(conf: Path, text: str) -> None:
    conf.write_text(f"serving:\n  {text}", encoding="utf-8")
    said = message(conf)
    assert "is not valid YAML" in said
    assert "canary" not in said


def test_no_error_shows_a_secret_of_spark(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "canary" not in message(conf, "spark.conf.spark.hadoop.fs.s3a.secret.key=[canary]")
    for broken in ('"canary"', "[canary", '{"spark.master": "canary"}', '{"a": ["canary"]}'):
        monkeypatch.setenv("ONCELAKE_SPARK__CONF", broken)
        assert "canary" not in message(conf)
    monkeypatch.setenv("ONCELAKE_SPARK__CONF", '{"spark.hadoop.fs.s3a.secret.key": "canary"}')
    assert "canary" not in repr(load(conf, []))


def test_settings_do_not_show_a_kafka_secret(conf: Path) -> None:
    settings = load(conf, ["source.kind=kafka", "source.bootstrap_servers=h:1", "source.kafka.sasl.jaas.config=canary"])
    assert isinstance(settings, Settings)
    assert "canary" not in repr(settings) + str(settings)


SERVING = "gold:\n  error_log: {every: 1 minute, measures: {log_count: count}}\n"


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("serving.url=nonsense-secret-word", "serving.url: is not a SQLAlchemy URL"),
        ("serving.url=oracle://u:secret-word@h/d", "serving.url: names oracle; accepted: mysql"),
        ("serving.mode=both", "serving.mode: Input should be 'idempotent' or 'transactional', not 'both'"),
        ("serving.wait=soon", "serving.wait"),
        ("serving.tables=[nothing]", "serving.tables names 'nothing', which is not a gold table; declared: error_log"),
    ],
)
def test_an_error_of_serving_settings_shows_no_secret(conf: Path, flag: str, said: str) -> None:
    conf.write_text(f"{conf.read_text()}{SERVING}", encoding="utf-8")
    with pytest.raises(ConfigError) as error:
        load(conf, ["serving.url=sqlite:////tmp/x.db", flag])
    assert said in str(error.value)
    assert "secret-word" not in str(error.value)


def test_a_password_comes_from_the_environment_and_is_not_shown(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf.write_text(f"{conf.read_text()}{SERVING}", encoding="utf-8")
    monkeypatch.setenv("ONCELAKE_SERVING__PASSWORD", "secret-word")
    settings = load(conf, ["serving.url=mysql://u@h/d"])
    assert settings.serving.address().password == "secret-word"
    assert "secret-word" not in repr(settings) + str(settings.serving.address())


def test_a_secret_scope_is_read_only_on_databricks(conf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conf.write_text(f"{conf.read_text()}{SERVING}", encoding="utf-8")
    settings = load(conf, ["serving.url={{secrets/alog/url}}"])
    with pytest.raises(ConfigError, match="this is not a Databricks cluster"):
        settings.serving.address()

    class Secrets:
        @staticmethod
        def get(scope: str, key: str) -> str:
            return f"mysql://u:{scope}-{key}@h/d"

    class Utilities:
        secrets = Secrets()

        def __init__(self, session: object) -> None:
            del session

    module = types.ModuleType("pyspark.dbutils")
    module.DBUtils = Utilities  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "pyspark.dbutils", module)
    assert settings.serving.address().password == "alog-url"


@pytest.mark.parametrize(
    ("lake", "said"),
    [
        ("{}", "lake.root is a directory for the tables, lake.catalog a catalog: neither is set; set one"),
        ("{root: x, catalog: main}", "both are set; set one"),
        ("{root: x, schemas: {gold: counts}}", "lake.schemas names schemas of a catalog"),
        ("{catalog: main}", "checkpoints is required with lake.catalog"),
        ("{catalog: 'a`b'}", "lake.catalog"),
        ("{catalog: a.b}", "lake.catalog"),
        ("{catalog: main, schemas: {bronze: 'x; DROP'}}", "lake.schemas.bronze"),
    ],
)
def test_an_invalid_catalog_is_refused(tmp_path: Path, lake: str, said: str) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(f"source: {{path: logs}}\nlake: {lake}\n")
    with pytest.raises(ConfigError) as error:
        load(conf)
    assert said in str(error.value)


def test_a_catalogs_tables_have_quoted_names_and_the_rest_is_beside_the_checkpoints(tmp_path: Path) -> None:
    conf = tmp_path / "conf.yaml"
    conf.write_text(
        "source: {path: logs}\nlake: {catalog: my-cat, schemas: {gold: dev_gold, quality: dev_quality}}\n"
        "checkpoints: /Volumes/a/b/c\n"
    )
    lake = load(conf).places()
    assert lake.at(BRONZE) == "`my-cat`.`bronze`.`access_log`"
    assert lake.at(Table("gold", "error_log")) == "`my-cat`.`dev_gold`.`error_log`"
    assert lake.at(Table("quality", "results")) == "`my-cat`.`dev_quality`.`results`"
    assert (lake.root, lake.checkpoint("gold.error_log")) == ("/Volumes/a/b/c", "/Volumes/a/b/c/gold/error_log")


@pytest.mark.parametrize("turned", [False, True])
def test_an_option_may_be_a_prefix_of_another(conf: Path, turned: bool) -> None:
    sets = ["spark.conf.spark.speculation=true", "spark.conf.spark.speculation.interval=1s", "source.kafka.a.b=1"]
    settings = load(conf, sets[::-1] if turned else sets)
    assert settings.spark.conf == {"spark.speculation": "true", "spark.speculation.interval": "1s"}
    assert settings.by_name["access_log"].kafka == {"a.b": "1"}


def test_a_section_may_be_given_only_once(conf: Path) -> None:
    assert "another --set already gives a value to a part of this key" in message(conf, "run=x", "run.trigger=1 second")


def test_a_catalog_flag_replaces_the_root_of_the_file(conf: Path) -> None:
    lake = load(conf, ["lake.catalog=main", "checkpoints=/Volumes/main/a/b"]).places()
    assert lake.at(BRONZE) == "`main`.`bronze`.`access_log`"
    conf.write_text("source: {path: /logs}\nlake: {catalog: main, schemas: {gold: counts}}\ncheckpoints: /c\n")
    assert load(conf, ["lake.root=/lake"]).places().at(BRONZE) == "/lake/bronze/access_log"
    assert "both are set" in message(conf, "lake.root=/lake", "lake.catalog=main")
