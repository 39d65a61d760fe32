"""oncelake: application logs to counts people can trust, exactly once.

```python
from oncelake import Lakehouse

with Lakehouse.open("conf/local.yaml", ["source.path=/var/log/myapp", "lake.root=/tmp/lake"]) as lake:
    lake.run(once=True)
    assert lake.prove().holds
```
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from oncelake.common.errors import (
    ConfigError,
    GateError,
    LockedError,
    OncelakeError,
    OvertakenError,
    ReceiptError,
    ReplayError,
    SourceError,
    StageError,
    StateError,
    TargetAwayError,
    TargetError,
)
from oncelake.common.version import __version__
from oncelake.serving.sink import Safety, Sink, SinkBatch, SinkColumn, SinkRows, SinkTable

if TYPE_CHECKING:
    from oncelake.engine.settings import Settings
    from oncelake.exactly_once.foreach_batch import ExactlyOnceTable
    from oncelake.lakehouse import Lakehouse

__all__ = [
    "ConfigError",
    "ExactlyOnceTable",
    "GateError",
    "Lakehouse",
    "LockedError",
    "OncelakeError",
    "OvertakenError",
    "ReceiptError",
    "ReplayError",
    "Safety",
    "Settings",
    "Sink",
    "SinkBatch",
    "SinkColumn",
    "SinkRows",
    "SinkTable",
    "SourceError",
    "StageError",
    "StateError",
    "TargetAwayError",
    "TargetError",
    "__version__",
]


_WITH_SPARK = {
    "ExactlyOnceTable": "oncelake.exactly_once.foreach_batch",
    "Lakehouse": "oncelake.lakehouse",
    "Settings": "oncelake.engine.settings",
}


def __getattr__(name: str) -> Any:
    """Import the names that need Spark only on access: the base installation has no Spark, and commands report that."""
    if name in _WITH_SPARK:
        return getattr(import_module(_WITH_SPARK[name]), name)
    raise AttributeError(f"module 'oncelake' has no attribute {name!r}")
