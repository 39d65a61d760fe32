"""Judge the outcome of a command by a second census, in plain Python.

The invariant. When `prove` exits 0, each visible file is one of:

- in bronze: the lines that bronze has of it are its lines, each as often as the file has it. Without `--deep` they may
  differ, if the file still has the size and time that bronze recorded, and it had bronze's lines at that time.
- empty, or without a line. But the directory itself is not empty or missing if bronze has read files in it.
- waiting: bronze has nothing of it. Then a run that starts from exactly this directory exits 0 and reads it.
- lost by consent: a commit of bronze says that `recover --accept-loss` gave it up, with its current lines.

And of each file that no longer exists, bronze has exactly the lines that it had at some moment of a run. A file that
has the lines of a missing one was renamed, and they are counted twice: the first proof after its ingest names both.

After a run that exits 0, bronze has of each file that existed when it started the lines that the file had at some
moment of the run; otherwise the run or the next proof names the file.

A `rebuild` or a `recover` that exits 0 removes no line from bronze without `--accept-loss`; one that refuses changes
nothing. If every visible file is in bronze, unchanged and with its size and time, `prove` exits 0.

The same holds for a committed record of a topic, and for a line of a growing file whose end is written. A record that
was deleted after bronze's first run and before bronze read it is lost, and every proof fails until that loss is
accepted. So is a line that a batch had planned to read, and that no file holds any more.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tests.chaos.bronze import BronzeFiles
from tests.chaos.directory import Content, Listing
from tests.chaos.product import Outcome
from tests.chaos.world import World

Bronze = Mapping[bytes, BronzeFiles]


@dataclass
class Census:
    """The comparison of a directory with bronze.

    Attributes:
        faults: by file, why a proof must not hold.
        waiting: files with which a proof may hold only if the next run reads them.
        settled: whether every visible file is in bronze unchanged.
    """

    faults: dict[bytes, str] = field(default_factory=dict)
    waiting: dict[bytes, Content] = field(default_factory=dict)
    settled: bool = True


@dataclass
class Judge:
    """Checks the invariant over one sequence.

    Attributes:
        had: all contents that each file had at some moment of a run.
        gave_up: the lines that each file had when its loss was accepted, or before.
        broken: how the invariant was broken.
    """

    world: World
    had: dict[bytes, list[Content]] = field(default_factory=dict)
    gave_up: dict[bytes, list[tuple[bytes, ...] | None]] = field(default_factory=dict)
    broken: list[str] = field(default_factory=list)
    _owed: set[bytes] = field(default_factory=set)
    _promised: tuple[Listing, dict[bytes, Content]] | None = None
    _run_said: str = ""
    _accepted: int = 0
    _known: set[bytes] = field(default_factory=set)

    def saw(self, listing: Listing) -> None:
        """Record the directory at a moment of a run."""
        for path, content in listing.files.items():
            contents = self.had.setdefault(path, [])
            if content not in contents:
                contents.append(content)

    def accepts(self, lost: Sequence[bytes]) -> None:
        """Record which files' losses were accepted.

        Args:
            lost: all losses that bronze's commits name, in their order; there are fewer after a rebuild of bronze.
        """
        if len(lost) < self._accepted:
            self.gave_up.clear()
            self._accepted = 0
        for path in lost[self._accepted :]:
            self.gave_up[path] = [content.lines for content in self.had.get(path, [])]
        self._accepted = len(lost)

    def forgot(self) -> None:
        """Record that the checkpoint is gone: the next run may refuse to start, whatever a proof said before."""
        self._promised = None

    def ran(self, seen: list[Listing], outcome: Outcome, bronze: Bronze, *, alone: bool) -> None:
        """Judge a run.

        Args:
            seen: the directory when the run started, and after each change during the run.
            outcome: the run's outcome.
            bronze: what bronze holds afterwards.
            alone: whether nothing changed during the run and it was not killed.
        """
        self._unforeseen("run", outcome)
        self._owed, self._run_said = set(), outcome.said
        if outcome.ok:
            for path in self.world.owed(seen):
                contents = [listing.files[path] for listing in seen if path in listing.files]
                held = bronze.get(path)
                if not any(_same(each, held) or self._unseen(path, each, held) for each in contents):
                    self._owed.add(path)
        if alone and self._promised is not None and self._promised[0] == seen[0]:
            for path, content in self._promised[1].items():
                if not outcome.ok or not _same(content, bronze.get(path)):
                    self._break(f"prove held with {path!r} waiting, and the next run did not read it: {outcome.said}")
        self._promised = None

    def proved(self, outcome: Outcome, listing: Listing, bronze: Bronze, *, deep: bool, sound: bool) -> None:
        """Judge a proof.

        Args:
            outcome: the proof's outcome.
            listing: the directory.
            bronze: what bronze holds.
            deep: whether the proof had to read the files again.
            sound: whether only the source can make the proof fail.
        """
        self._unforeseen("prove", outcome)
        census = self.census(listing, bronze, deep=deep)
        if outcome.ok:
            self._holds(outcome, listing, bronze, census)
        else:
            self._fails(outcome, census, sound=sound)
        self._promised = (listing, census.waiting) if outcome.ok and census.waiting else None
        self._owed, self._run_said, self._known = set(), "", set(bronze)

    def _holds(self, outcome: Outcome, listing: Listing, bronze: Bronze, census: Census) -> None:
        for path, fault in census.faults.items():
            self._break(f"prove holds, and {path!r} {fault}")
        for path in self.world.lost(bronze):
            self._break(f"prove holds, and {path!r} was deleted before bronze could read it")
        for path in self._owed - census.faults.keys() - listing.files.keys():
            if self.world.names(self._run_said, path):  # replaced before the run, and the run said so
                continue
            self._break(f"prove holds, and {path!r}, which was there when the run started, is not in bronze")
        for path in self._owed & census.waiting.keys():
            self._break(f"prove holds, and {path!r} is not in bronze after a run that ended well")
        for path, gone in self._moved(listing, bronze):
            if not (self.world.names(outcome.said, path) and self.world.names(outcome.said, gone)):
                self._break(f"prove holds, and does not name {path!r} and {gone!r}, which has its lines and is gone")

    def _fails(self, outcome: Outcome, census: Census, *, sound: bool) -> None:
        said = f"{self._run_said}\n{outcome.said}"
        for path in self._owed & (census.faults.keys() | census.waiting.keys()):
            if not self.world.names(said, path):
                self._break(f"{path!r} is not in bronze after a run that ended well, and is not named")
        if sound and census.settled:
            self._break("prove does not hold, and every file is in bronze as it is")

    def wrote(self, wrong: Iterable[str]) -> None:
        """Record what is wrong with the rows of the tables."""
        for how in wrong:
            self._break(how)

    def repaired(
        self,
        what: str,
        outcome: Outcome,
        before: Bronze,
        after: Bronze,
        *,
        given_up: Iterable[bytes] | None = (),
    ) -> None:
        """Judge a recovery or a rebuild.

        Args:
            what: the command.
            outcome: its outcome.
            before: what bronze held before.
            after: what bronze holds now.
            given_up: the lines that bronze may lack afterwards; None for any, as losses were accepted.
        """
        self._unforeseen(what, outcome)
        lines = [sum((held.lines for held in bronze.values()), Counter[bytes]()) for bronze in (before, after)]
        if outcome.refused and lines[0] != lines[1]:
            self._break(f"{what} refused, and changed bronze: {outcome.said}")
        if outcome.ok and what == "recover" and lines[0] != lines[1]:
            self._break(f"recover changed bronze's lines: {outcome.said}")
        lost = sorted(lines[0].keys() - lines[1].keys() - set(given_up or ()))
        if outcome.ok and given_up is not None and lost:
            self._break(f"{what} lost lines that nobody gave up, the first {lost[0]!r}: {outcome.said}")

    def census(self, listing: Listing, bronze: Bronze, *, deep: bool) -> Census:
        """Compare a directory with bronze."""
        census = Census()
        if listing.empty and bronze:
            census.faults[b""] = "is empty or away, and bronze has read files in it"
        for path in listing.loops:
            census.faults[path] = "is a link into a directory above it"
        for path, content in listing.files.items():
            self._visible(census, path, content, bronze.get(path), deep=deep)
        for path in bronze.keys() - listing.files.keys():
            if not any(_same(content, bronze[path]) for content in self.had.get(path, [])):
                census.faults[path] = "never had the lines that bronze has of it"
        plain = not listing.strange and any(content.lines for content in listing.files.values())
        census.settled = census.settled and plain and not census.faults and not census.waiting
        return census

    def _visible(self, census: Census, path: bytes, content: Content, held: BronzeFiles | None, *, deep: bool) -> None:
        stamp = (content.size, content.modified)
        if held is None and content.lines is None:
            census.faults[path] = "cannot be read to its end"
        elif held is None and content.lines and content.lines not in self.gave_up.get(path, ()):
            census.waiting[path] = content
        elif held is None:
            census.settled = census.settled and content.size == 0
        elif _same(content, held):
            census.settled = census.settled and held.stamps == {stamp}
        elif deep or not self._unseen(path, content, held):
            lines = len(content.lines or ())
            census.faults[path] = f"has {lines} lines, which are not the {held.lines.total()} in bronze"
        else:
            census.settled = False

    def _moved(self, listing: Listing, bronze: Bronze) -> Iterator[tuple[bytes, bytes]]:
        """Yield each file ingested since the last proof with the lines of a missing file, and the missing one."""
        for path in (bronze.keys() & listing.files.keys()) - self._known:
            for gone in bronze.keys() - listing.files.keys():
                if (
                    bronze[path].lines == bronze[gone].lines and bronze[path].lines.total() > 1
                ):  # more than a blank line
                    yield path, gone

    def _unseen(self, path: bytes, content: Content, held: BronzeFiles | None) -> bool:
        """Return whether only reading the file again can detect its change."""
        if held is None:
            return False
        stamp = (content.size, content.modified)
        then = [each for each in self.had.get(path, []) if (each.size, each.modified) == stamp]
        return held.stamps == {stamp} and any(_same(each, held) for each in then)

    def _unforeseen(self, what: str, outcome: Outcome) -> None:
        if outcome.unforeseen is not None:
            self._break(f"{what} ended by an error that has no words of ours: {outcome.unforeseen}")

    def _break(self, how: str) -> None:
        if how not in self.broken:
            self.broken.append(how)


def _same(content: Content, held: BronzeFiles | None) -> bool:
    """Return whether bronze holds the lines of a content, each once."""
    return content.lines is not None and Counter(content.lines) == (held.lines if held else Counter())
