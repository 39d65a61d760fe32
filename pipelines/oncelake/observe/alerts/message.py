"""The messages of an alert, in the form of each kind of receiver."""

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from email.message import EmailMessage
from hashlib import sha256
from typing import Any, Literal

from oncelake.common.version import __version__
from oncelake.common.wording import printable

Status = Literal["alert", "end", "test"]
_TITLES: Mapping[Status, str] = {"alert": "alert", "end": "alert ended", "test": "test of alert"}
# A longer text is cut: PagerDuty refuses a summary of more than 1,024 characters.
LONGEST = 500


@dataclass(frozen=True)
class Message:
    """One message.

    Attributes:
        key: the same for each attempt, and for the first message of an alert and its end message.
        alert: the alert's name.
        status: whether the condition holds, has ended, or this is a test.
        condition: the condition as configured.
        text: what was found.
        window: the start of the window in UTC, or of the time in which the condition holds.
        lake: the lake's root or catalog.
        at: when the condition was checked, in UTC.
    """

    key: str
    alert: str
    status: Status
    condition: str
    text: str
    window: str
    lake: str
    at: str

    @property
    def title(self) -> str:
        """Return the message's first line, without anything from the data."""
        return f"oncelake {_TITLES[self.status]}: {self.alert}"

    @property
    def facts(self) -> list[tuple[str, str]]:
        """Return the message's other lines, each with its name."""
        return [
            ("found", printable(self.text, LONGEST)),
            ("condition", self.condition),
            ("window", self.window),
            ("lake", self.lake),
            ("key", self.key),
        ]

    def to_dict(self) -> dict[str, str]:
        """Return the message as a dict for JSON."""
        return asdict(self)


def slack(message: Message, _: str) -> dict[str, Any]:
    """Return the message for an incoming webhook of Slack; no text can mention a channel or hide a link."""
    lines = "\n".join(f"*{name}*: {_slack_text(text)}" for name, text in message.facts)
    return {"text": f"*{message.title}*\n{lines}", "unfurl_links": False, "unfurl_media": False}


def _slack_text(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def teams(message: Message, _: str) -> dict[str, Any]:
    """Return the message for a workflow of Teams that posts an adaptive card."""
    card = {
        "$schema": "http://adaptivecards.io/schemas/adaptive-card.json",
        "type": "AdaptiveCard",
        "version": "1.4",
        "body": [
            {"type": "TextBlock", "size": "Medium", "weight": "Bolder", "wrap": True, "text": message.title},
            {
                "type": "FactSet",
                "facts": [{"title": name, "value": _markdown_text(text)} for name, text in message.facts],
            },
        ],
    }
    attached = {"contentType": "application/vnd.microsoft.card.adaptive", "contentUrl": None, "content": card}
    return {"type": "message", "attachments": [attached]}


def _markdown_text(text: str) -> str:
    return "".join(f"\\{mark}" if mark in "\\`*_[]<>" else mark for mark in text)


def pagerduty(message: Message, routing_key: str) -> dict[str, Any]:
    """Return the message as an event of PagerDuty's Events API v2; the end message resolves the incident."""
    event = {"routing_key": routing_key, "dedup_key": message.key}
    if message.status == "end":
        return {**event, "event_action": "resolve"}
    payload = {
        "summary": f"{message.title}: {printable(message.text, LONGEST)}",
        "source": message.lake[:LONGEST],
        "severity": "info" if message.status == "test" else "critical",
        "timestamp": message.at,
        "component": "oncelake",
        "custom_details": message.to_dict(),
    }
    return {**event, "event_action": "trigger", "client": f"oncelake {__version__}", "payload": payload}


def webhook(message: Message, _: str) -> dict[str, Any]:
    """Return the message with all its fields."""
    return message.to_dict()


# The forms of messages that are posted, by the kind of the receiver; the second argument is PagerDuty's routing key.
FORMS: Mapping[str, Callable[[Message, str], dict[str, Any]]] = {
    "slack": slack,
    "teams": teams,
    "pagerduty": pagerduty,
    "webhook": webhook,
}


def mail(message: Message, sender: str, recipients: tuple[str, ...]) -> EmailMessage:
    """Return the message as an e-mail; its ID follows from the key, and the end message answers the first one."""
    letter = EmailMessage()
    letter["Subject"] = message.title
    letter["From"] = sender
    letter["To"] = ", ".join(recipients)
    letter["Date"] = datetime.fromisoformat(message.at)
    letter["Message-ID"] = _mail_id(message.key, message.status)
    if message.status == "end":
        letter["In-Reply-To"] = letter["References"] = _mail_id(message.key, "alert")
    letter["Auto-Submitted"] = "auto-generated"
    letter.set_content("\n".join(f"{name}: {text}" for name, text in message.facts))
    return letter


def _mail_id(key: str, status: Status) -> str:
    return f"<{sha256(key.encode()).hexdigest()[:32]}.{status}@oncelake>"
