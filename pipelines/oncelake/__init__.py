"""oncelake: application logs to counts people can trust, exactly once.

```python
from oncelake import Lakehouse

with Lakehouse.open("conf/local.yaml", ["source.path=/var/log/myapp", "lake.root=/tmp/lake"]) as lake:
    lake.run(once=True)
    assert lake.prove().holds
```
"""

from typing import TYPE_CHECKING, Any

from oncelake.common.errors import (
    ConfigError,
    LockedError,
    OncelakeError,
    ReceiptError,
    ReplayError,
    SourceError,
    StageError,
    StateError,
    TargetError,
)
from oncelake.common.version import __version__

if TYPE_CHECKING:
    from oncelake.engine.settings import Settings
    from oncelake.lakehouse import Lakehouse

__all__ = [
    "ConfigError",
    "Lakehouse",
    "LockedError",
    "OncelakeError",
    "ReceiptError",
    "ReplayError",
    "Settings",
    "SourceError",
    "StageError",
    "StateError",
    "TargetError",
    "__version__",
]


def __getattr__(name: str) -> Any:
    """Import what needs Spark when it is asked for: the base installation has none, and a command says so itself."""
    if name == "Lakehouse":
        from oncelake.lakehouse import Lakehouse  # noqa: PLC0415

        return Lakehouse
    if name == "Settings":
        from oncelake.engine.settings import Settings  # noqa: PLC0415

        return Settings
    raise AttributeError(f"module 'oncelake' has no attribute {name!r}")
