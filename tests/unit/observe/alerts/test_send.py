"""Each kind of receiver gets its form; a failure is one line without a secret, and what is not accepted is not sent."""

import json
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from oncelake.common.errors import DeliveryError
from oncelake.engine.alerts import ReceiverSettings
from oncelake.observe.alerts.message import FORMS, Message
from oncelake.observe.alerts.send import ATTEMPTS, Sender
from tests.support.house import until
from tests.support.receivers import Mail, Web, mail, web

MESSAGE = Message(
    key="spike/2026-01-31T08:00:00Z/0011223344556677",
    alert="spike",
    status="alert",
    condition="error_log.log_count > 100",
    text="log_count is 143 for level=ERROR",
    window="2026-01-31T08:00:00Z to 2026-01-31T08:01:00Z",
    lake="/data/lake",
    at="2026-01-31T08:00:30Z",
)
END = replace(MESSAGE, status="end")
SECRET = "secret-b7c2"


@pytest.fixture
def server() -> Iterator[Web]:
    with web() as found:
        yield found


@pytest.fixture
def post() -> Iterator[Mail]:
    with mail() as found:
        yield found


def sender(**to: Any) -> Sender:
    return Sender("spike", ReceiverSettings.model_validate(to), longest_pause=0.01)


def mails(server: Mail, **more: Any) -> Sender:
    given = {"host": "127.0.0.1", "port": server.port, "security": "none", "sender": "a@example.org"}
    return sender(kind="email", recipients=["b@example.org", "c@example.org"], **given, **more)


def test_a_webhook_gets_every_field_and_the_key(server: Web) -> None:
    sender(kind="webhook", url=server.url)(MESSAGE)
    sender(kind="webhook", url=server.url)(END)
    assert server.got == [MESSAGE.to_dict(), END.to_dict()]
    assert server.keys == [f"{MESSAGE.key}/alert", f"{MESSAGE.key}/end"]


def test_slack_gets_a_text_that_cannot_mention_a_channel(server: Web) -> None:
    sender(kind="slack", url=server.url)(replace(MESSAGE, text="log_count is 5 for host=<!channel> & <http://x|y>\n@a"))
    (got,) = server.got
    assert got["text"].startswith("*oncelake alert: spike*\n*found*: log_count is 5 for host=&lt;!channel&gt; &amp; ")
    assert "<" not in got["text"]
    assert MESSAGE.key in got["text"]


def test_teams_gets_an_adaptive_card_without_markdown_from_the_data(server: Web) -> None:
    sender(kind="teams", url=server.url)(replace(MESSAGE, text="[here](http://x)"))
    (attached,) = server.got[0]["attachments"]
    card = attached["content"]
    assert server.got[0]["type"] == "message"
    assert attached["contentType"] == "application/vnd.microsoft.card.adaptive"
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    assert card["body"][0]["text"] == "oncelake alert: spike"
    facts = {fact["title"]: fact["value"] for fact in card["body"][1]["facts"]}
    assert facts["found"] == "\\[here\\](http://x)"
    assert facts["key"] == MESSAGE.key


def test_pagerduty_gets_one_incident_that_the_end_message_resolves(server: Web) -> None:
    to = sender(kind="pagerduty", url=server.url, key=SECRET)
    to(MESSAGE)
    to(END)
    begun, ended = server.got
    assert (begun["event_action"], ended["event_action"]) == ("trigger", "resolve")
    assert begun["dedup_key"] == ended["dedup_key"] == MESSAGE.key
    assert begun["routing_key"] == ended["routing_key"] == SECRET
    assert begun["payload"]["summary"] == "oncelake alert: spike: log_count is 143 for level=ERROR"
    assert begun["payload"]["severity"] == "critical"
    assert begun["payload"]["custom_details"] == MESSAGE.to_dict()


@pytest.mark.parametrize("kind", FORMS)
def test_a_long_text_fits_each_form(kind: str) -> None:
    text = json.dumps(FORMS[kind](replace(MESSAGE, text="x" * 3000), ""))
    assert (
        kind == "webhook" or len(FORMS["pagerduty"](replace(MESSAGE, text="x" * 3000), "")["payload"]["summary"]) < 1024
    )
    assert len(text) < 8_000


def test_an_email_has_a_stable_id_and_its_end_answers_it(post: Mail) -> None:
    mails(post)(MESSAGE)
    mails(post)(MESSAGE)
    mails(post)(END)
    first, again, end = post.got
    assert first["Message-ID"] == again["Message-ID"] == end["In-Reply-To"]
    assert end["Message-ID"] != first["Message-ID"]
    assert first["Subject"] == "oncelake alert: spike"
    assert first["To"] == "b@example.org, c@example.org"
    text = first.get_content()
    assert "found: log_count is 143 for level=ERROR" in text
    assert f"key: {MESSAGE.key}" in text


def test_a_text_of_the_data_makes_no_header_of_an_email(post: Mail) -> None:
    mails(post)(replace(MESSAGE, text="a\r\nBcc: all@example.org\r\n.\r\nMAIL FROM:<x>"))
    (got,) = post.got
    assert "Bcc" not in got
    assert "MAIL FROM" in got.get_content()


@pytest.mark.parametrize(("code", "refused"), [(550, True), (450, False)])
def test_an_email_that_nobody_may_get_is_refused(post: Mail, code: int, refused: bool) -> None:
    post.refuses = code
    with pytest.raises(DeliveryError, match="email receiver of spike: it refuses all recipients") as failure:
        mails(post)(MESSAGE)
    assert failure.value.refused is refused


def test_a_mail_server_that_cannot_secure_the_connection_gets_nothing(post: Mail) -> None:
    to = {"host": "127.0.0.1", "port": post.port, "sender": "a@example.org", "recipients": ["b@example.org"]}
    with pytest.raises(DeliveryError, match="email receiver of spike"):
        sender(kind="email", user="u", password=SECRET, **to)(MESSAGE)
    assert post.got == []


def test_a_command_gets_the_message_on_its_input_and_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ONCELAKE_SERVING__PASSWORD", SECRET)
    script = "import json, os, sys; json.dump([sys.stdin.read(), dict(os.environ), sys.argv], open(sys.argv[1], 'w'))"
    sender(kind="command", command=[sys.executable, "-c", script, str(tmp_path / "got")])(MESSAGE)
    text = (tmp_path / "got").read_text()
    given, environment, arguments = json.loads(text)
    assert json.loads(given) == MESSAGE.to_dict()
    assert "PATH" in environment
    assert SECRET not in text
    assert arguments[1:] == [str(tmp_path / "got")]


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["false"], "the command ended with exit code 1"),
        (["./no-such-program"], "the command cannot be started: No such file or directory"),
    ],
)
def test_a_command_that_fails_is_not_sent(command: list[str], said: str) -> None:
    with pytest.raises(DeliveryError, match=said):
        sender(kind="command", command=command)(MESSAGE)


def test_a_command_that_hangs_is_ended_with_its_children(tmp_path: Path) -> None:
    command = f"sleep 61 & echo $! > {tmp_path / 'child'}; wait"
    to = replace(sender(kind="command", command=["sh", "-c", command], timeout="0.3 seconds"))
    to.ended.set()
    with pytest.raises(DeliveryError, match="the command did not end within"):
        to(MESSAGE)
    child = int((tmp_path / "child").read_text())
    until(lambda: not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE, 10)


@pytest.mark.parametrize(
    ("code", "said", "refused", "asked"),
    [
        (400, "it answers 400 Bad Request", True, 1),
        (404, "it answers 404 Not Found", True, 1),
        (302, "it answers 302 Found", False, ATTEMPTS),
        (307, "it answers 307 Temporary Redirect", False, ATTEMPTS),
        (429, "it answers 429 Too Many Requests", False, ATTEMPTS),
        (503, "it answers 503 Service Unavailable", False, ATTEMPTS),
        (599, "it answers 599", False, ATTEMPTS),
    ],
)
def test_an_answer_that_accepts_nothing_is_a_failure(
    server: Web, code: int, said: str, refused: bool, asked: int
) -> None:
    server.answers = [code] * ATTEMPTS
    with pytest.raises(DeliveryError, match=f"^webhook receiver of spike: {said}$") as failure:
        sender(kind="webhook", url=server.url)(MESSAGE)
    assert failure.value.refused is refused
    assert (server.asked, server.got) == (asked, [])


def test_a_failure_that_passes_is_tried_again(server: Web) -> None:
    server.answers = [503, 500]
    sender(kind="webhook", url=server.url)(MESSAGE)
    assert server.asked == 3
    assert len(server.got) == 1


def test_a_run_that_ends_does_not_try_again(server: Web) -> None:
    server.answers = [503] * 3
    to = sender(kind="webhook", url=server.url)
    to.ended.set()
    with pytest.raises(DeliveryError):
        to(MESSAGE)
    assert server.asked == 1


def test_a_slow_receiver_ends_in_time(server: Web) -> None:
    server.slow = 3
    to = sender(kind="webhook", url=server.url, timeout="0.2 seconds")
    to.ended.set()
    began = time.monotonic()
    with pytest.raises(DeliveryError, match="it does not answer in time"):
        to(MESSAGE)
    assert time.monotonic() - began < 2.5


def test_a_receiver_that_is_away_is_one_line_without_its_address() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/{SECRET}"
        with pytest.raises(DeliveryError, match=r"^slack receiver of spike: Connection refused$"):
            sender(kind="slack", url=url)(MESSAGE)


@pytest.mark.parametrize("host", ["nowhere.invalid", f"{SECRET}.invalid", "xn--a." * 60 + "invalid"])
def test_a_host_that_does_not_exist_is_not_named(host: str) -> None:
    with pytest.raises(DeliveryError) as failure:
        sender(kind="teams", url=f"https://{host}/{SECRET}")(MESSAGE)
    assert SECRET not in str(failure.value)
    assert "invalid" not in str(failure.value)
    assert failure.value.__cause__ is None
    assert failure.value.__suppress_context__


def test_nothing_of_a_secret_is_in_a_command_line_or_left_in_the_environment(server: Web) -> None:
    to = sender(kind="webhook", url=server.url)
    server.slow = 0.3
    thread = threading.Thread(target=to, args=(MESSAGE,))
    thread.start()
    seen = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
    thread.join()
    assert SECRET not in str(seen)
    assert SECRET not in repr(to)
    assert SECRET not in str(dict(os.environ))
