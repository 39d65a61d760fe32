"""The files beside a lake's tables that name the stages that a rebuild empties, and those it has yet to fill."""

import json
from collections.abc import Iterable, Mapping
from typing import Any

from oncelake.engine.chain import Chain
from oncelake.exactly_once.files import Files, files_at

# The file below the lake's root that names the stages of an unfinished rebuild.
MARKER = "_rebuild.json"
# The stages that the last rebuild emptied; removed when it has filled them.
EMPTIED = "_emptied.json"


def unfinished_rebuild(chain: Chain) -> list[str]:
    """Return the names of the chain's stages that an unfinished rebuild empties; none if there is no such rebuild.

    A stage that the chain does not have stops nothing: the chain is a part of the lake's, or the settings have no such
    table any more.
    """
    begun, own = _named_in(chain, MARKER)["stages"], {stage.name for stage in chain.stages}
    return [name for name in begun if name in own]  # guard: rebuild-stops-own-stages


def emptied(chain: Chain) -> list[str]:
    """Return the names of the stages that a rebuild emptied and did not fill to the end."""
    names: list[str] = _named_in(chain, EMPTIED)["stages"]
    return names


def only_source(chain: Chain) -> str | None:
    """Return the one source whose lines an unfinished rebuild makes again; None for all lines, and without one."""
    source: str | None = _named_in(chain, MARKER).get("only", {}).get("source")
    return source


def of_one_source(chain: Chain, source: str) -> Mapping[str, Any] | None:
    """Return what an unfinished rebuild of the lines of a source alone records; None if there is none."""
    only: Mapping[str, Any] = _named_in(chain, MARKER).get("only", {})
    return only if only.get("source") == source else None


def is_checked(chain: Chain) -> bool:
    """Return True unless nobody has checked what the unfinished rebuild would lose."""
    return bool(_named_in(chain, MARKER).get("checked", True))


def mark(
    files: Files, path: str, stages: Iterable[str], only: Mapping[str, Any] | None = None, *, checked: bool = True
) -> None:
    """Write the names of stages to one of the two files.

    Args:
        files: the files of the lake.
        path: the file.
        stages: the names.
        only: what a rebuild of the lines of one source records; None for all lines.
        checked: False if nobody has checked what the rebuild would lose.
    """
    more = {"only": only} if only is not None else {}
    files.write(path, json.dumps({"stages": [*stages], **more, **({} if checked else {"checked": False})}))


def _named_in(chain: Chain, file: str) -> dict[str, Any]:
    text = files_at(chain.lake.root, chain.spark).read(f"{chain.lake.root}/{file}")
    named: dict[str, Any] = json.loads(text) if text else {"stages": []}
    return named
