"""The watch reads the lake only if something is new, and serves only this machine."""

import http.client
import json
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pytest

from oncelake.cli.report import LivePage, check_place, write_page
from oncelake.common.errors import ConfigError
from oncelake.common.lake import Lake
from oncelake.engine.chain import chain_of
from oncelake.engine.conf_file import shipped_conf
from oncelake.engine.configuration import configured
from oncelake.exactly_once.lease import NAME, writer
from oncelake.lakehouse import Lakehouse
from oncelake.observe.report.facts import Facts, ProofFacts
from oncelake.observe.report.period import Period
from oncelake.observe.report.serve import serving
from oncelake.observe.report.versions import masked, settings_summary
from oncelake.observe.report.watch import LOOK_REST, PROOF_REST, Heads, Watch
from tests.support.made_facts import FACTS


@dataclass
class Looked:
    """A fake lake; reading it takes 2 s and a proof 10 s of a clock that only they advance."""

    version: int = 0
    idle: bool = False
    now: float = 0
    shown: list[Facts] = field(default_factory=list)
    proofs: int = 0

    def heads(self) -> Heads:
        return Heads({"t": self.version}, "" if self.idle else None)

    def look(self, proof: ProofFacts) -> Facts:
        self.now += 2
        return replace(FACTS, proof=proof, at_ms=self.version)

    def prove(self) -> ProofFacts:
        self.now += 10
        self.proofs += 1
        return ProofFacts("made", at_ms=self.version)

    def watch(self, *, proving: bool = True) -> Watch:
        prove = self.prove if proving else None
        return Watch(self.heads, self.look, prove, self.shown.append, lambda: self.now)


def test_the_watch_reads_the_lake_only_if_something_is_new() -> None:
    lake = Looked()
    watch = lake.watch(proving=False)
    for _ in range(3):
        watch.step()
    assert len(lake.shown) == 1
    lake.version = 1
    watch.step()
    assert len(lake.shown) == 1  # it rests
    lake.now += 2 * LOOK_REST
    watch.step()
    watch.step()
    assert [facts.at_ms for facts in lake.shown] == [0, 1]
    assert {facts.proof.made for facts in lake.shown} == {"left out"}


def test_an_outdated_proof_is_marked_and_repeated_when_due() -> None:
    lake = Looked()
    watch = lake.watch()
    watch.step()
    lake.version = 1
    lake.now += 2 * LOOK_REST
    watch.step()
    assert [(facts.at_ms, facts.proof.at_ms, facts.proof.behind) for facts in lake.shown] == [
        (0, 0, False),
        (1, 0, True),
    ]
    lake.now += 10 * PROOF_REST
    watch.step()
    watch.step()
    last = lake.shown[-1]
    assert (len(lake.shown), lake.proofs, last.proof.at_ms, last.proof.behind) == (3, 2, 1, False)


def test_a_finished_run_is_proven_at_once() -> None:
    lake = Looked()
    watch = lake.watch()
    watch.step()
    lake.version, lake.idle = 1, True
    watch.step()
    watch.step()
    assert [(facts.at_ms, facts.proof.at_ms, facts.proof.behind) for facts in lake.shown] == [
        (0, 0, False),
        (1, 1, False),
    ]


def ask(url: str, path: str, host: str | None = None) -> tuple[int, str]:
    place = url.removeprefix("http://").rstrip("/")
    connection = http.client.HTTPConnection(place, timeout=10)
    connection.request("GET", path, headers={"Host": host or place})
    answer = connection.getresponse()
    return answer.status, answer.read().decode()


def test_the_page_and_its_updates_are_served() -> None:
    with serving(0) as (shown, url):
        assert "Reading the lake" in ask(url, "/")[1]
        assert ask(url, "/update?after=0") == (204, "")
        shown.put(FACTS)
        assert 'data-live-number="1"' in ask(url, "/")[1]
        assert ask(url, "/update?after=1") == (204, "")
        shown.put(replace(FACTS, proof=ProofFacts("left out")))
        status, said = ask(url, "/update?after=1")
        news = json.loads(said)
        assert (status, news["number"]) == (200, 2)
        assert "the proof was skipped" in news["parts"]["head"]
        assert set(news["figures"]) >= {"lines", "seconds"}
        assert ask(url, "/etc/passwd")[0] == 404


def test_an_unknown_page_is_refused() -> None:
    with serving(0) as (shown, url):
        shown.put(FACTS)
        port = url.rstrip("/").rpartition(":")[2]
        assert ask(url, "/", f"localhost:{port}")[0] == 200
        for host in ("evil.example", f"evil.example:{port}", "127.0.0.1", f"127.0.0.1:{int(port) - 1}"):
            status, said = ask(url, "/", host)
            assert (status, "lines" in said) == (403, False)


def test_a_port_in_use_is_a_one_line_error() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"--port {port} of 127.0.0.1 cannot be used: Address already in use"):
            serving(port).__enter__()


def test_a_page_is_written_atomically(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    write_page(file, "old")
    with pytest.raises(UnicodeEncodeError):
        write_page(file, "half \ud800")
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert file.read_text() == "old"
    with file.open() as reader:
        write_page(file, "new")
        assert reader.read() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["page.html"]
    assert file.read_text() == "new"


def test_a_live_page_is_opened_where_it_is_served_and_its_period_ends_now(capsys: pytest.CaptureFixture[str]) -> None:
    urls: list[str] = []
    periods: list[Period | None] = []

    class FollowedLake:
        def watch_report(self, show: Callable[[Facts], None], **given: Any) -> None:
            assert given["proof"] is False
            show(FACTS)
            connection = http.client.HTTPConnection(urlsplit(urls[0]).netloc)
            connection.request("GET", "/")
            assert b"oncelake" in connection.getresponse().read()
            periods.extend(given["period"]() for _ in range(2))

    live = LivePage(cast(Lakehouse, FollowedLake()), "24h", proof=False, as_json=True, shown=urls.append)
    live.serve(0, threading.Event())
    assert json.loads(capsys.readouterr().out)["url"] == urls[0]
    first, second = periods
    assert first is not None
    assert second is not None
    assert first.until < second.until, "it ends now, at each look"
    assert second.until - second.since == timedelta(days=1)


def test_an_unwritable_path_is_an_error_before_the_lake_is_read(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is a directory; give a file in it"):
        check_place(tmp_path)
    with pytest.raises(ConfigError, match="is not a directory that this process may write to"):
        check_place(tmp_path / "none" / "page.html")


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "r+b")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux is asked who holds a lock")
def test_the_lock_holder_is_shown_without_taking_the_lock(tmp_path: Path) -> None:
    lake = Lake(str(tmp_path), str(tmp_path))
    assert writer(lake) is None
    (tmp_path / NAME).write_text("process 7 on here\nabc\n")
    assert writer(lake) is None
    command = [sys.executable, "-c", HOLD, str(tmp_path / NAME)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        assert writer(lake) == writer(lake) == "process 7 on here"
        holder.communicate("")
    assert writer(lake) is None
    assert writer(Lake("s3a://bucket/lake", "/c")) is None


def test_no_secret_is_among_the_settings_that_a_page_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_SOURCE__KAFKA", '{"sasl.jaas.config": "password=hush1"}')
    monkeypatch.setenv("ONCELAKE_SERVING__PASSWORD", "hush2")
    sets = ["source.kind=kafka", "source.bootstrap_servers=b:9092", "lake.root=s3a://key:hush3@bucket/lake"]
    sets += ["serving.url=mysql+pymysql://user:hush4@db/alog", "spark.conf.spark.hadoop.fs.s3a.secret.key=hush5"]
    settings, parsers = configured(shipped_conf() / "local.yaml", sets)
    summary = settings_summary(chain_of(settings, parsers))
    facts = replace(FACTS, settings=summary, lake=str(settings.lake.root))
    said = json.dumps(masked(facts).to_dict(), ensure_ascii=False)
    assert "hush" not in said
    for shown in ('"lake": "s3a://…@bucket/lake"', "db", "topic alog of Kafka at b:9092"):
        assert shown in said
