"""The settings of alerts: a condition each, and the receiver of its messages."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, Self
from urllib.parse import urlsplit

from pydantic import AwareDatetime, Field, SecretStr, TypeAdapter, ValidationError, field_validator, model_validator

from oncelake.common.models import Duration, Strict, later
from oncelake.common.wording import did_you_mean, shown
from oncelake.serving.settings import is_secret_reference, reveal

Subject = Literal["gold", "freshness", "backlog", "refused", "proof"]
OPERATORS = (">=", "<=", ">", "<")
ACCEPTED = (
    "<gold table>.<measure> > 100 (or >=, <, <=), freshness of <stage> > 10 minutes, backlog of <stage> > 100000, "
    "refused > 5% in 5 minutes, proof fails"
)
PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"
_NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
_NUMBER = r"(?P<limit>-?\d+(?:\.\d+)?)"
_GOLD = re.compile(r"(?P<table>[a-z][a-z0-9_]*)\.(?P<column>[a-z][a-z0-9_]*) ?(?P<operator>[^\w\s.-]+) ?(?P<rest>.*)")
_FRESHNESS = re.compile(r"freshness of (?P<stage>[a-z0-9_.]+) ?> ?(?P<limit>\d+(?:\.\d+)? [a-z]+)")
_BACKLOG = re.compile(r"backlog of (?P<stage>[a-z0-9_.]+) ?> ?(?P<limit>\d+)")
_REFUSED = re.compile(r"refused ?> ?(?P<limit>\d+(?:\.\d+)?) ?%(?: in (?P<span>\d+(?:\.\d+)? [a-z]+))?")
_SPAN = timedelta(minutes=5)


@dataclass(frozen=True)
class Condition:
    """What an alert looks for.

    Attributes:
        subject: what is compared.
        limit: the limit: a number, seconds, a count, or a share between 0 and 1.
        operator: how it is compared.
        table, column: the gold table and its measure.
        stage: the stage of a freshness or a backlog.
        span: the seconds over which refused lines are counted.
    """

    subject: Subject
    limit: float = 0.0
    operator: str = ">"
    table: str = ""
    column: str = ""
    stage: str = ""
    span: int = 0


def parse_condition(text: str) -> Condition:
    """Return the condition that a text such as `error_log.log_count > 100` names.

    Raises:
        ValueError: the text has none of the accepted forms.
    """
    text = " ".join(text.split())
    if text == "proof fails":
        return Condition("proof")
    if match := _FRESHNESS.fullmatch(text):
        return Condition("freshness", _seconds(match["limit"]), stage=match["stage"])
    if match := _BACKLOG.fullmatch(text):
        return Condition("backlog", float(match["limit"]), stage=match["stage"])
    if match := _REFUSED.fullmatch(text):
        span = int(_seconds(match["span"])) if match["span"] else int(_SPAN.total_seconds())
        if float(match["limit"]) >= 100 or not 1 <= span <= 86_400:
            raise ValueError("refused takes a share below 100% and a time of 1 second to 1 day")
        return Condition("refused", float(match["limit"]) / 100, span=span)
    if match := _GOLD.fullmatch(text):
        if match["operator"] not in OPERATORS:
            raise ValueError(f"there is no operator {shown(match['operator'])}; use one of {', '.join(OPERATORS)}")
        if not re.fullmatch(_NUMBER, match["rest"]):
            raise ValueError(f"{shown(match['rest'])} is no number to compare with")
        return Condition("gold", float(match["rest"]), match["operator"], table=match["table"], column=match["column"])
    raise ValueError(f"a condition is one of: {ACCEPTED}")


def _seconds(text: str) -> float:
    try:
        duration: timedelta = TypeAdapter(Duration).validate_python(text)
    except (ValidationError, OverflowError):
        raise ValueError(f"{shown(text)} is no duration; write it as 10 minutes or 2 hours") from None
    return duration.total_seconds()


_WEB = ("url", "timeout")
# The keys that each kind of receiver accepts besides `kind`; those it requires, and what they are.
_KEYS: Mapping[str, tuple[str, ...]] = {
    "slack": _WEB,
    "teams": _WEB,
    "webhook": _WEB,
    "pagerduty": ("key", *_WEB),
    "email": ("host", "port", "security", "user", "password", "sender", "recipients", "timeout"),
    "command": ("command", "timeout"),
}
_REQUIRED: Mapping[str, Mapping[str, str]] = {
    "slack": {"url": "the address of the incoming webhook"},
    "teams": {"url": "the address of the workflow"},
    "webhook": {"url": "the address to post to"},
    "pagerduty": {"key": "the routing key of an Events API v2 integration"},
    "email": {"host": "the mail server", "sender": "an address", "recipients": "a list of addresses"},
    "command": {"command": "the program and its arguments, as a list"},
}
_SECRET = ("url", "key", "password")


class ReceiverSettings(Strict):
    """Where an alert's messages go."""

    kind: Literal["slack", "teams", "pagerduty", "webhook", "email", "command"] = Field(
        description="the form of the messages"
    )
    url: SecretStr | None = Field(None, description="webhooks: the address; may be `{{secrets/scope/key}}`")
    key: SecretStr | None = Field(None, description="pagerduty: the routing key; may be `{{secrets/scope/key}}`")
    command: tuple[str, ...] = Field((), description="command: the program and its arguments")
    host: str | None = Field(None, min_length=1, description="email: the mail server")
    port: int | None = Field(None, ge=1, le=65535, description="email: its port; unset: 587, with `tls` 465")
    security: Literal["starttls", "tls", "none"] = Field("starttls", description="email: how the connection is secured")
    user: str | None = Field(None, description="email: the user who signs in")
    password: SecretStr | None = Field(None, description="email: the password; may be `{{secrets/scope/key}}`")
    sender: str | None = Field(None, description="email: the address that the messages are from")
    recipients: tuple[str, ...] = Field((), description="email: the addresses that get the messages")
    timeout: Duration = Field(
        timedelta(seconds=10), gt=timedelta(0), le=timedelta(minutes=1), description="how long one attempt may take"
    )

    @field_validator("url")
    @classmethod
    def _is_url(cls, value: SecretStr | None) -> SecretStr | None:
        if value is not None and not is_secret_reference(value.get_secret_value()):
            _check_url(value.get_secret_value())
        return value

    @field_validator("sender", "recipients")
    @classmethod
    def _is_address(cls, value: Any) -> Any:
        for address in (value,) if isinstance(value, str) else value or ():
            if not re.fullmatch(r"[!-~]+@[!-~]+", address) or set(address) & set(',;<>"'):
                raise ValueError("an address has the form name@host")
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        for name, what in _REQUIRED[self.kind].items():
            if not _is_set(getattr(self, name)):
                where = f"; set it in the environment: ONCELAKE_ALERTS__<NAME>__TO__{name.upper()}"
                raise ValueError(f"{name} is required for kind {self.kind}: {what}{where if name in _SECRET else ''}")
        other = next((name for name in sorted(self.model_fields_set - {"kind", *_KEYS[self.kind]})), None)
        if other is not None:
            raise ValueError(f"{other} is not for kind {self.kind}; its keys are {', '.join(_KEYS[self.kind])}")
        if (self.user is None) != (not _is_set(self.password)):
            raise ValueError(
                "user and password go together; set the password in the environment: "
                "ONCELAKE_ALERTS__<NAME>__TO__PASSWORD"
            )
        if self.password is not None and self.security == "none":
            raise ValueError("a password needs security starttls or tls; otherwise anyone on the way can read it")
        return self

    def secret(self, name: Literal["url", "key", "password"]) -> str:
        """Return the value of a secret; empty if it is not set.

        Raises:
            ConfigError: it names a Databricks secret that cannot be read here.
        """
        value: SecretStr | None = getattr(self, name)
        return reveal(value.get_secret_value()) if value is not None else ""

    def check(self) -> None:
        """Read the secrets once.

        Raises:
            ConfigError: one of them cannot be read here.
        """
        for name in ("url", "key", "password"):
            self.secret(name)


def _is_set(value: object) -> bool:
    return bool(value.get_secret_value().strip() if isinstance(value, SecretStr) else value)


def _check_url(text: str) -> None:
    try:
        parts = urlsplit(text)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and text.isprintable() and " " not in text
        _ = parts.port
    except ValueError:
        fits = False
    if not fits:
        raise ValueError("an address of a webhook has the form https://host/path")


class AlertSettings(Strict):
    """An alert: a condition, and who is told when it holds."""

    when: str = Field(description=f"the condition: {ACCEPTED}")
    to: ReceiverSettings = Field(description="the receiver of the messages")
    since: AwareDatetime | None = later(
        None, description="the first time that counts; unset: when a run first looked at the alert"
    )

    @field_validator("when")
    @classmethod
    def _is_condition(cls, text: str) -> str:
        parse_condition(text)
        return " ".join(text.split())

    @property
    def condition(self) -> Condition:
        """The parsed condition."""
        return parse_condition(self.when)


def check_alert(name: str, alert: AlertSettings, measures: Mapping[str, tuple[str, ...]], stages: list[str]) -> None:
    """Raise ValueError if an alert has no valid name, or its condition names what the configuration does not declare.

    Args:
        name: the alert's name.
        alert: the alert.
        measures: the measures of each gold table.
        stages: the names of all stages.
    """
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"alerts: {shown(name)} is not a valid name: a letter, then up to 39 letters, digits or _, all lower case"
        )
    condition, where = alert.condition, f"alerts.{name}.when"
    if condition.subject == "gold" and condition.table not in measures:
        declared = ", ".join(measures) or "none"
        close = did_you_mean(condition.table, measures)
        raise ValueError(f"{where}: there is no gold table {condition.table}; declared: {declared}{close}")
    if condition.subject == "gold" and condition.column not in measures[condition.table]:
        names = ", ".join(measures[condition.table]) + did_you_mean(condition.column, measures[condition.table])
        raise ValueError(f"{where}: {condition.table} has no measure {condition.column}; its measures are {names}")
    if condition.stage and condition.stage not in stages:
        known = f"the stages are {', '.join(stages)}{did_you_mean(condition.stage, stages)}"
        raise ValueError(f"{where}: there is no stage {condition.stage}; {known}")
