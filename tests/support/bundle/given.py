"""Values for the variables of the bundle that have no default in a target."""

from collections.abc import Mapping
from typing import Any

GIVEN: Mapping[str, Mapping[str, Any]] = {
    "dev": {"catalog": "main"},
    "prod": {
        "catalog": "logs-eu",
        "warehouse_id": "0123456789abcdef",
        "source": "{path: /Volumes/logs-eu/raw/app}",
        "service_principal": "6f1c4f4e-5a44-4a8e-a6a5-0d9a86d0a000",
        "operators": "log-operators",
        "readers": "log-readers",
    },
}
