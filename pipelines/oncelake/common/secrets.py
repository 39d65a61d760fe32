"""This is where a secret is fetched from where Databricks keeps it."""

import re
from typing import Any

from pyspark.sql import SparkSession

from oncelake.common.errors import ConfigError

_REFERENCE = re.compile(r"\{\{secrets/([^/{}]+)/([^/{}]+)\}\}")


def is_secret_reference(text: str) -> bool:
    """Tell whether a value names a secret, as Databricks writes it: {{secrets/scope/key}}."""
    return _REFERENCE.fullmatch(text) is not None


def reveal(text: str) -> str:
    """Give the secret that a value names, or the value itself.

    Raises:
        ConfigError: there is no secret scope here, or no such secret in it.
    """
    found = _REFERENCE.fullmatch(text)
    if found is None:
        return text
    try:
        utilities: Any = __import__("pyspark.dbutils", fromlist=["DBUtils"]).DBUtils(SparkSession.getActiveSession())
    except ImportError:
        raise ConfigError(
            f"{text} names a secret of Databricks, and this is no Databricks cluster; give the value by the environment"
        ) from None
    try:
        return str(utilities.secrets.get(scope=found[1], key=found[2]))
    except Exception as error:
        raise ConfigError(f"{text} cannot be read: {str(error).splitlines()[0]}") from None
