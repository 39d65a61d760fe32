"""The settings of serving; its secrets can come from the environment or a Databricks secret scope."""

import re
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, model_validator
from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError
from oncelake.common.models import Duration, Strict, flat
from oncelake.common.wording import shown

if TYPE_CHECKING:
    from sqlalchemy.engine import URL

Mode = Literal["idempotent", "transactional"]
Unheld = Literal["refuse", "stop"]
# The property of a gold table that is served in idempotent mode.
CHANGE_FEED = "delta.enableChangeDataFeed"
_CLASS = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
# The sink that `serving.url` is short for.
SQL = "oncelake.serving.sql:SqlSink"
_REFERENCE = re.compile(r"\{\{secrets/([^/{}]+)/([^/{}]+)\}\}")


def _is_url(value: SecretStr | None) -> SecretStr | None:
    if value is not None and not is_secret_reference(value.get_secret_value()):
        _parsed(value.get_secret_value())
    return value


def _parsed(url: str) -> "URL":
    from oncelake.serving.database import parse_url  # noqa: PLC0415 - SQLAlchemy, which only a served lake needs

    return parse_url(url)


class ServingSettings(Strict):
    """The database, or the sink of your own, that serves gold tables; without one, no table is served."""

    url: Annotated[SecretStr | None, AfterValidator(_is_url)] = Field(
        None, description="a SQLAlchemy URL of MySQL, MariaDB, PostgreSQL or SQLite; may be `{{secrets/scope/key}}`"
    )
    password: SecretStr | None = Field(
        None, description="the URL's password, when it is not in the URL; may be `{{secrets/scope/key}}`"
    )
    sink: str | None = Field(
        None, description="a Python class that gold tables are served into, instead of a database: `module:Class`"
    )
    options: Annotated[dict[str, SecretStr], BeforeValidator(flat)] = Field(
        {}, description="what the class is given, as text; a value may be `{{secrets/scope/key}}`, and none is shown"
    )
    mode: Mode = Field(
        "idempotent",
        description="`idempotent`: follow gold and write its values; `transactional`: follow silver and add counts",
    )
    tables: tuple[str, ...] = Field(("error_log",), description="the gold tables to serve")
    unheld: Unheld = Field(
        "refuse",
        description="a row with a value that the database cannot hold: `refuse` puts it into the table "
        "`oncelake_refused`, and `stop` ends the run",
    )
    wait: Duration | None = Field(
        None,
        ge=timedelta(0),
        description="how long to wait for an unavailable database; unset: forever, or 5 minutes with --once",
    )

    @model_validator(mode="after")
    def _one_sink(self) -> Self:
        if not self.is_set and self.options:
            raise ValueError("serving.options are for a class of your own; set serving.sink, or remove them")
        if not self.is_set and "tables" in self.model_fields_set:
            raise ValueError(
                "serving.tables is set, but neither serving.url nor serving.sink, so nothing would be served; set one, "
                "such as ONCELAKE_SERVING__URL in the environment, or remove serving.tables"
            )
        if self.sink is None:
            return self
        if self.url is not None:
            raise ValueError("serving.url and serving.sink are both set; keep one of them")
        if not is_class_name(self.sink):
            raise ValueError(
                f"serving.sink must be module:Class, such as mypackage.sinks:Redis, not {shown(self.sink)}"
            )
        if self.mode == "transactional":
            raise ValueError("serving.sink gets gold's values, which replace older ones; use serving.mode idempotent")
        return self

    @property
    def is_set(self) -> bool:
        """Return True if tables are served."""
        return self.url is not None or self.sink is not None

    @property
    def served(self) -> tuple[str, ...]:
        """The gold tables that are served; none without a database or a sink."""
        return self.tables if self.is_set else ()

    def sink_class(self) -> tuple[str, dict[str, str]]:
        """Return the name of the sink's class, and its options with their secrets.

        Raises:
            ConfigError: a value names a secret that cannot be read here.
        """
        if self.sink is None:
            return SQL, {"url": self.address().render_as_string(hide_password=False), "mode": self.mode}
        return self.sink, {name: reveal(value.get_secret_value()) for name, value in self.options.items()}

    def address(self) -> "URL":
        """Return the URL with its password.

        Raises:
            ConfigError: the value names a secret that cannot be read here.
        """
        assert self.url is not None
        url = _parsed(reveal(self.url.get_secret_value()))
        if self.password is None or url.get_backend_name() == "sqlite":
            return url
        return url.set(password=reveal(self.password.get_secret_value()))


def is_class_name(text: str) -> bool:
    """Return True if a text has the form `module:Class`."""
    return _CLASS.fullmatch(text) is not None


def is_secret_reference(text: str) -> bool:
    """Return True if a value names a secret in the form of Databricks: {{secrets/scope/key}}."""
    return _REFERENCE.fullmatch(text) is not None


def reveal(text: str) -> str:
    """Return the secret that a value names, or the value itself.

    Raises:
        ConfigError: this is not a Databricks cluster, or the secret cannot be read.
    """
    match = _REFERENCE.fullmatch(text)
    if match is None:
        return text
    try:
        utilities: Any = __import__("pyspark.dbutils", fromlist=["DBUtils"]).DBUtils(SparkSession.getActiveSession())
    except ImportError:
        raise ConfigError(
            f"{text} names a Databricks secret, but this is not a Databricks cluster; use an environment variable"
        ) from None
    try:
        return str(utilities.secrets.get(scope=match[1], key=match[2]))
    except Exception as error:
        raise ConfigError(f"{text} cannot be read: {str(error).splitlines()[0]}") from None
