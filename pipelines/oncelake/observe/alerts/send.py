"""Deliver a message: to a webhook, by e-mail, or to a command. No secret is in an error or on a command line."""

import json
import os
import signal
import smtplib
import ssl
import subprocess
import threading
import urllib.error
import urllib.request
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus
from http.client import HTTPException

from tenacity import Retrying, retry_if_exception, stop_after_attempt, stop_when_event_set
from tenacity.nap import sleep_using_event
from tenacity.stop import stop_any
from tenacity.wait import wait_random_exponential

from oncelake.common.errors import DeliveryError
from oncelake.common.version import __version__
from oncelake.common.wording import duration
from oncelake.engine.alerts import PAGERDUTY, ReceiverSettings
from oncelake.engine.settings import ENV_PREFIX
from oncelake.observe.alerts.message import FORMS, Message, mail

# The attempts to deliver a message before the others of the run go on; later rounds try again.
ATTEMPTS = 3
# The longest pause between two of them, in seconds.
LONGEST_PAUSE = 5.0
# Answers after which the same message may be accepted later.
_LATER = (HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS)


@dataclass(frozen=True)
class Sender:
    """What delivers the messages of one alert.

    Attributes:
        alert: the alert's name.
        to: the receiver.
        ended: an event that ends the attempts when it is set; each message still has one.
        longest_pause: the longest pause between two attempts, in seconds.
    """

    alert: str
    to: ReceiverSettings
    ended: threading.Event = field(default_factory=threading.Event)
    longest_pause: float = LONGEST_PAUSE

    def __call__(self, message: Message) -> None:
        """Deliver a message; try again after longer and longer pauses.

        Raises:
            DeliveryError: it was not delivered, or it is not known whether it was.
            ConfigError: a secret cannot be read here.
        """
        attempts = Retrying(
            retry=retry_if_exception(lambda error: isinstance(error, DeliveryError) and not error.refused),
            stop=stop_any(stop_after_attempt(ATTEMPTS), stop_when_event_set(self.ended)),
            wait=wait_random_exponential(multiplier=0.5, max=self.longest_pause),
            sleep=sleep_using_event(self.ended),
            reraise=True,
        )
        deliver = {"email": self._mail, "command": self._command}.get(self.to.kind, self._post)
        attempts(deliver, message)

    def _failed(self, why: str, *, refused: bool = False) -> DeliveryError:
        return DeliveryError(f"{self.to.kind} receiver of {self.alert}: {why}", refused=refused)

    def _post(self, message: Message) -> None:
        key = self.to.secret("key")
        url = self.to.secret("url") or (PAGERDUTY if self.to.kind == "pagerduty" else "")
        headers = {
            "Content-Type": "application/json",
            "User-Agent": f"oncelake/{__version__}",
            "Idempotency-Key": f"{message.key}/{message.status}",
        }
        try:
            body = json.dumps(FORMS[self.to.kind](message, key)).encode()
            request = urllib.request.Request(url, body, headers)
            with _opener().open(request, timeout=self.to.timeout.total_seconds()) as answer:
                status = answer.status
        except urllib.error.HTTPError as error:
            status = error.code
            error.close()
        except (OSError, HTTPException, ValueError) as error:  # its text can have the address, which is a secret
            raise self._failed(_why(error)) from None
        if not 200 <= status < 300:
            refused = 400 <= status < 500 and status not in _LATER
            raise self._failed(f"it answers {status}{_phrase(status)}", refused=refused)

    def _mail(self, message: Message) -> None:
        to, timeout = self.to, self.to.timeout.total_seconds()
        assert to.host is not None, "validated"
        assert to.sender is not None, "validated"
        secured, password = ssl.create_default_context(), to.secret("password")
        try:
            if to.security == "tls":
                server: smtplib.SMTP = smtplib.SMTP_SSL(to.host, to.port or 465, timeout=timeout, context=secured)
            else:
                server = smtplib.SMTP(to.host, to.port or 587, timeout=timeout)
            with server:
                if to.security == "starttls":
                    server.starttls(context=secured)
                if to.user is not None:
                    server.login(to.user, password)
                server.send_message(mail(message, to.sender, to.recipients))
        except smtplib.SMTPRecipientsRefused as error:
            forever = all(code >= 500 for code, _ in error.recipients.values())
            raise self._failed("it refuses all recipients", refused=forever) from None
        except smtplib.SMTPResponseException as error:  # its text can have the user's name
            refused = error.smtp_code >= 500 and not isinstance(error, smtplib.SMTPAuthenticationError)
            raise self._failed(f"it answers {error.smtp_code}", refused=refused) from None
        except (OSError, smtplib.SMTPException, UnicodeError, ValueError) as error:
            raise self._failed(_why(error)) from None

    def _command(self, message: Message) -> None:
        timeout = self.to.timeout.total_seconds()
        environment = {name: value for name, value in os.environ.items() if not name.upper().startswith(ENV_PREFIX)}
        nothing = subprocess.DEVNULL
        try:
            process = subprocess.Popen(
                self.to.command,
                stdin=subprocess.PIPE,
                stdout=nothing,
                stderr=nothing,
                env=environment,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise self._failed(f"the command cannot be started: {_why(error)}") from None
        try:
            process.communicate(json.dumps(message.to_dict()).encode() + b"\n", timeout)
        except subprocess.TimeoutExpired:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise self._failed(f"the command did not end within {duration(timeout)}") from None
        if process.returncode != 0:
            raise self._failed(f"the command ended with exit code {process.returncode}")


def _opener() -> urllib.request.OpenerDirector:  # guard: redirect-is-no-success
    """Return what posts to a web address. It follows no redirect: Python would drop the message on the way."""
    opener = urllib.request.OpenerDirector()
    for handler in (
        urllib.request.ProxyHandler(),
        urllib.request.UnknownHandler(),
        urllib.request.HTTPHandler(),
        urllib.request.HTTPSHandler(),
        urllib.request.HTTPDefaultErrorHandler(),
        urllib.request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _phrase(status: int) -> str:
    try:
        return f" {HTTPStatus(status).phrase}"
    except ValueError:
        return ""


def _why(error: BaseException) -> str:
    """Return the cause of a failure in words that contain no address."""
    cause = error.reason if isinstance(error, urllib.error.URLError) else error
    if isinstance(cause, TimeoutError):
        return "it does not answer in time"
    if isinstance(cause, ssl.SSLError):
        return f"no secure connection: {cause.reason or type(cause).__name__}"
    if isinstance(cause, OSError) and cause.strerror:
        return cause.strerror
    return f"no connection: {type(cause).__name__}"
