"""Draft a log format from the lines of a sample: where the time is, where the level is, and what follows.

A draft that reads a line wrongly is worse than none. So each part must stand at one place of the lines, as a whole
word, and have one reading. Otherwise there is no draft, and the reason is named.
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from statistics import mode
from typing import Any

import yaml

from oncelake.bronze.records import BYTE_ORDER_MARK, OWN_RECORD
from oncelake.common.ansi import SEQUENCES
from oncelake.common.wording import listed, printable, share
from oncelake.lab.level_words import CORE, LETTERS, NUMBERS, LevelWord, level_in, level_word, level_words_in, meanings
from oncelake.lab.written_times import AmbiguousError, TimeColumn, WrittenTime, clocks_in, escaped, names_zone, times_in
from oncelake.silver.parsing.format import LogFormat, is_path
from oncelake.silver.plain_reader import PlainReader, json_object, json_text, logfmt_pairs, python_pattern
from oncelake.silver.plain_times import NeedsSparkError

# A draft is made from this many lines.
MOST_LINES = 2_000
# A time belongs to a format if this share of the lines has it at the same place.
_MOST = 0.8
# A time that begins a line may be rarer: what follows it is then one record. It begins at least this share.
_STARTS = 0.02
# A word is a level if this share of the lines has one at the same place, among the first words after the time.
_SURE, _WORDS = 0.95, 8
# Several known levels at one place of this share of the lines are levels: the other words there are unknown ones.
_HALF = 0.5
# One name in all lines is a level only among fewer words: further on it may be a part of the message.
_NEAR = 4
# A larger share of lines of another kind, or with levels at changing places, forbids a draft.
_OTHERS, _SCATTERED = 0.05, 0.3
# How far a local time may be from the same instant in UTC, and how exactly they agree.
_FARTHEST, _SAME = timedelta(hours=14), timedelta(seconds=2)
_QUARTER = timedelta(minutes=15)
_UNIT = r'\[[^\]\n]*\]|<[^>\n]*>|\([^)\n]*\)|"[^"\n]*"'
_PLAIN = r'[^\s|;,\[\](){}<>"]+'
# The words after a time, and those before it, which hang together where no space is between them.
_TOKEN = re.compile(rf"{_UNIT}|{_PLAIN}")
_RUN = re.compile(rf'(?:{_UNIT}|[^\s\[(<"])+')
_LABEL = re.compile(r"\W+|.*[=:|>]")
_NO_WORD = re.compile(r"\W*(?:(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)[a-z]*\W+)?")
_OWN_RECORD = python_pattern(OWN_RECORD)
# Lines that are only probably records of their own: what stands before the time of a request, and lines without a date.
_REQUEST = re.compile(r"\S+ \S+ \S+ \[")
_PROBABLY_OWN = re.compile(
    r"\[?\d\d:\d\d:\d\d[.,]\d{3}\b|[\[<]?(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE)[\]>]?:"
)
_DIRECTIVE = re.compile(r"#(?!#)")
# The priority of syslog stands before a time or a version; other numbers in such brackets do not.
_PRIORITY = re.compile(r"<(\d{1,3})>(?:\d{1,2} )?")
# A letter of logcat, and one of klog.
_TAG = re.compile(r"([VDIWEF])/[\w.$-]+")
_KLOG = re.compile(r"([IWEF])(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])")
_CHANNEL = re.compile(r"[A-Za-z][\w-]*\.$")
_SLASH = re.compile(r"/[^\s\]:()]+")
# This many letters at one place show that they are levels; the word of a letter in a line of logcat.
_ENOUGH_LETTERS, _PLACE_OF_LOGCAT = 3, 2
_MNEMONIC = re.compile(r"%[A-Z][A-Z0-9_]*-(?:[A-Z0-9_]+-)?([0-7])-[A-Z0-9_]+")
# A quote that is closed before a mark is no part of the message; one behind the mark is.
_LEAD = re.compile(r"\s*(?:\"(?=[,;|\s]))?[\])}>:|,;\s-]*")
_FOLLOWS = re.compile(
    r"\s|Caused by|Suppressed|Traceback|During handling|The above exception|\.\.\. \d+ more|[)}\]]|at |goroutine "
    r"|[\w.$]+(?:Error|Exception|Throwable|Warning|Interrupt|Exit)\b"
)
_TIME_KEYS = (
    *("time", "timestamp", "@timestamp", "ts", "datetime", "@t", "t", "_time", "eventtime", "date", "$date"),
    *("asctime", "__realtime_timestamp", "logged_at", "at", "when"),
    # numbers of seconds, or of parts of one
    *("epoch", "epochsecond", "unixtime", "unix_time", "timemillis", "time_ms", "timestamp_ms", "ts_ms", "epoch_ms"),
    *("timestampms", "timeunixnano", "time_ns", "timestamp_ns", "ts_ns", "event_time", "log_time", "logtime"),
)
# The key before a number in a line of text.
_KEY_BEFORE = re.compile(r"""(?:^|[\s\[({<|,;])["']?([\w@$.]+)["']?\s?[=:]\s?["']?$""")
# A number with a fraction is the time of a line if it stands among this many words.
_FIRST_WORDS = 3
_DURATION = re.compile(r"dur|took|elapsed|latency|uptime|age$", re.IGNORECASE)
_CEF = re.compile(r"(?:CEF|LEEF):\d")
_LEVEL_KEYS = ("level", "severity", "lvl", "log.level", "loglevel", "levelname", "log_level", "@l", "priority", "s")
# What the journal of systemd and GELF have beside their severities.
_JOURNAL = frozenset({"__REALTIME_TIMESTAMP", "SYSLOG_IDENTIFIER", "_HOSTNAME", "_PID"})
_GELF = frozenset({"version", "host", "short_message"})
_MESSAGE_KEYS = ("message", "msg", "@message", "@m", "@mt", "text", "body", "short_message", "log", "event", "message_")
ASSUMED_ZONE = "UTC"
NO_ZONE = "the times have no zone and are read as UTC"
NO_YEAR = "the times have no year: each is put into the last year in which it is not later than its file"
NO_LEVEL = "no level was found: every line counts as INFO"
# Colours, also as a JSON line writes them.
_COLOURS = re.compile(rf"{SEQUENCES}|\\u001[bB]\[[0-?]*+[ -/]*+[@-~]")


class NoDraftError(Exception):
    """Raised when the lines do not show how to read them; the message says why."""


@dataclass(frozen=True)
class Draft:
    """A drafted log format.

    Attributes:
        text: the format as YAML, with comments.
        assumptions: what the lines do not show, and what the draft assumes instead.
        doubts: what may be read otherwise, for a person to look at.
    """

    text: str
    assumptions: Sequence[str]
    doubts: Sequence[str] = ()

    @property
    def log_format(self) -> LogFormat:
        """The format."""
        return LogFormat.model_validate(yaml.safe_load(self.text))


def draft_format(lines: Sequence[str], modified: datetime | None = None) -> Draft:
    """Return a log format, to be tried and edited.

    Args:
        lines: the lines of a sample.
        modified: when their file was written; no line is of a later time. Now if not given.

    Raises:
        NoDraftError: no time is found, or the lines can be read in several ways.
    """
    whole = [line.rstrip("\r").removeprefix(BYTE_ORDER_MARK) for line in lines if line.strip()][:MOST_LINES]
    latest = modified or datetime.now(UTC)
    try:
        visible = [_COLOURS.sub("", line) for line in whole]
        drafted = _of_objects(visible, latest) or _of_pairs(visible, latest) or _OfText(visible, latest).drafted()
    except AmbiguousError as error:
        raise NoDraftError(str(error)) from None
    if visible != whole:
        drafted = replace(drafted, declared={**drafted.declared, "strip_ansi": True})
    return drafted.checked(visible, modified)


@dataclass(frozen=True)
class _Drafted:
    """A format as it is declared, the times that it must read, and what it assumes."""

    declared: Mapping[str, Any]
    column: TimeColumn
    has_level: bool
    doubts: Sequence[str] = ()

    def checked(self, lines: Sequence[str], modified: datetime | None) -> Draft:
        """Return the draft, if it reads the times as they were found.

        Raises:
            NoDraftError: it does not.
        """
        assumptions = []
        if not self.column.is_absolute:
            assumptions.append(NO_ZONE)
        if not self.column.has_year:
            assumptions.append(NO_YEAR)
        if not self.has_level:
            assumptions.append(NO_LEVEL)
        declared = dict(self.declared)
        if not self.column.is_absolute:
            declared["zone"] = ASSUMED_ZONE
        text = yaml.safe_dump(declared, sort_keys=False, allow_unicode=True, width=10_000)
        zone = f"zone: {ASSUMED_ZONE}\n"
        about_zone = "an assumption: the times have no zone. Write that of the machine that wrote them: Europe/Paris"
        text = text.replace(zone, f"{zone.rstrip()}                # {about_zone}\n")
        notes = "".join(f"# {note[0].upper()}{note[1:]}.\n" for note in assumptions if note != NO_ZONE)
        draft = Draft(
            f"# {printable(lines[0], 100)}\n{notes}{text}", assumptions, () if self.has_level else self.doubts
        )
        self._check(draft, lines, modified)
        return draft

    def _check(self, draft: Draft, lines: Sequence[str], modified: datetime | None) -> None:
        try:
            reader = PlainReader(draft.log_format, modified)
            read = reader.lines("\n".join(lines))
        except NeedsSparkError as error:
            raise NoDraftError(f"{error} is not read here") from None
        except ValueError as error:
            raise NoDraftError(f"the draft is not accepted: {error}") from None
        good = [line for line in read if line.log_time is not None]
        if len(good) < _MOST * len(self.column.times):
            raise NoDraftError(f"a draft reads only {share(len(good), len(read))} of the lines")
        times = {time.line: at for time, at in zip(self.column.times, self.column.instants(), strict=True)}
        for line in good:
            at = times.get(line.text.split("\n", 1)[0].rstrip("\r"))
            second = timedelta(seconds=1)
            if (
                self.column.has_year
                and at is not None
                and line.log_time is not None
                and abs(at - line.log_time) >= second
            ):
                raise NoDraftError(f"the time of the line {printable(line.text, 100)} has several readings")


class _OfText:
    """Drafts a format with a pattern."""

    def __init__(self, lines: Sequence[str], latest: datetime) -> None:
        self._lines = [line for line in lines if not _DIRECTIVE.match(line)]
        self._latest = latest
        self._times = [times_in(line) for line in self._lines]
        self._doubts: list[str] = []

    def drafted(self) -> _Drafted:
        if sum(bool(_CEF.match(line)) for line in self._lines) > _SCATTERED * len(self._lines):
            raise NoDraftError("the lines are of CEF or LEEF, where several keys such as rt and start are times")
        if sum(line.lstrip().startswith("{") for line in self._lines) > 0.2 * len(self._lines):
            raise NoDraftError("lines begin as JSON objects, but are no whole objects")
        column = self._column()
        column.check()
        starts = self._starts_of(column)
        is_record = self._is_record(column, starts)
        records = self._records(starts) if is_record else [time.line for time in column.times]
        rests = [record[time.end :] for record, time in zip(records, column.times, strict=True)]
        befores = [time.before for time in column.times]
        prefix, rest, level = self._around(befores, rests)
        fraction = r"[.,:](?<fraction>\d{1,9})" if column.counts_units else ""
        time = column.expression
        pattern = _numbered(rf"^{prefix}(?<time>{time}){fraction}{rest}(?<message>.*)$")
        declared: dict[str, Any] = {"pattern": pattern, **_time(column)}
        declared |= level.declared if level is not None else {"default_level": "INFO"}
        if is_record:
            declared["record"] = {"starts": re.sub(r"\(\?<\w+>", "(?:", _numbered(f"^{prefix}{time}"))}
        return _Drafted(declared, column, level is not None, self._doubts)

    def _column(self) -> TimeColumn:
        """Return the times of the lines.

        Raises:
            NoDraftError: the lines have none at one place.
            AmbiguousError: two columns of times differ, and neither is that of the line.
        """
        places: dict[tuple[object, ...], list[WrittenTime]] = {}
        for times in self._times:
            seen = set()
            for time in times:
                key = (*time.kind, len(_RUN.findall(time.before)))
                if key not in seen:
                    places.setdefault(key, []).append(time)
                    seen.add(key)
        columns = []
        for times in places.values():
            is_first = all(_NO_WORD.fullmatch(time.before) or _is_level_alone(time.before) for time in times)
            if len(times) >= _MOST * len(self._lines) or (is_first and len(times) >= _STARTS * len(self._lines)):
                try:
                    columns.append(TimeColumn(times, self._latest))
                except ValueError:
                    continue
        chosen = _chosen(columns) if columns else None
        if chosen is None or (chosen.times[0].is_number and not self._is_time(chosen, columns)):
            raise NoDraftError(self._why_no_time())
        return chosen

    def _is_time(self, column: TimeColumn, columns: Sequence[TimeColumn]) -> bool:
        """Return True if numbers stand where a line has its time; beside a local time, they have been compared."""
        if any(not other.times[0].is_number for other in columns):
            return True
        clocks = [(time, clocks_in(time.line)) for time in column.times]
        return _is_at_the_place_of_a_time(column) and not _contradict(clocks)

    def _why_no_time(self) -> str:
        times = [line_times[0] for line_times in self._times if line_times]
        if sum(bool(clocks_in(line)) for line in self._lines) > _MOST * len(self._lines) / 2 and all(
            time.is_number for time in times
        ):
            return "the lines have a time of day, but no date"
        if times and all(time.is_number for time in times):
            return f"numbers such as {times[0].text} may be times, but nothing shows that they are"
        if times:
            return f"times such as {times[0].text} do not stand at one place of the lines"
        return "no time was found in the lines"

    def _starts_of(self, column: TimeColumn) -> list[int]:
        """Return the numbers of the lines that the times are of."""
        remaining, out = iter(column.times), []
        time = next(remaining, None)
        for number, line_times in enumerate(self._times):
            if time is not None and any(line_time is time for line_time in line_times):
                out.append(number)
                time = next(remaining, None)
        return out

    def _is_record(self, column: TimeColumn, starts: Sequence[int]) -> bool:
        """Return True if lines without a time belong to the line above them.

        Raises:
            NoDraftError: many of them are lines of another kind.
        """
        has_time = set(starts)
        others = [number for number in range(len(self._lines)) if number not in has_time]
        if not others:
            return False
        foreign = [other for other in others if self._times[other] and _NO_WORD.fullmatch(self._times[other][0].before)]
        if len(foreign) > _OTHERS * len(self._lines):
            example = printable(self._lines[foreign[0]], 80)
            # guard: lines-of-one-kind
            raise NoDraftError(f"there are lines of two kinds; one of the other kind: {example}")
        alone = sum(not time.after.strip() for time in column.times)
        following = sum(
            bool(_FOLLOWS.match(line)) or _is_level_first(line) for line in map(self._lines.__getitem__, others)
        )
        if not foreign and (2 * alone >= len(starts) or 2 * following >= len(others)):
            return True
        if 2 * len(starts) < len(self._lines):
            raise NoDraftError(f"only {share(len(starts), len(self._lines))} of the lines begin with a time")
        return False

    def _records(self, starts: Sequence[int]) -> list[str]:
        ends = [*starts[1:], len(self._lines)]
        return ["\n".join(self._lines[one:other]) for one, other in zip(starts, ends, strict=True)]

    def _around(self, befores: Sequence[str], rests: Sequence[str]) -> tuple[str, str, "_Level | None"]:
        """Return expressions for what stands before the time, and after it up to the message; and the level.

        Raises:
            NoDraftError: there are levels, but not at one place.
        """
        is_priority = sum(bool(_PRIORITY.fullmatch(text)) for text in befores) >= _SURE * len(befores)
        unknown = list[str]()
        before, after = (
            _level_in(befores, _RUN, [_by_priority] if is_priority else [], self._doubts, unknown),
            _level_in(rests, _TOKEN, [_by_mnemonic, *_LETTER_PLACES], self._doubts, unknown),
        )
        if before is not None and (after is None or before.rank >= after.rank):
            prefix = before.expression(befores, _RUN) + _between(
                [text[end:] for text, end in before.ends(befores)], _RUN
            )
            return prefix, _lead(rests), before
        prefix = _between(befores, _RUN)
        if after is not None:
            ends = [rest[end:] for rest, end in after.ends(rests)]
            tail, ends = _tail(ends)
            return prefix, f"{after.expression(rests, _TOKEN)}{tail}{_lead(ends)}", after
        if unknown:
            raise NoDraftError(unknown[0])  # guard: unknown-level-refused
        scattered = [words for rest in rests if (words := level_words_in(rest))]
        if len(scattered) > _SCATTERED * len(rests):
            names = listed(sorted({word for words in scattered for word in words}))
            # guard: levels-at-one-place
            raise NoDraftError(f"{names} look like levels, but do not stand at one place of the lines")
        return prefix, _lead(rests), None


@dataclass(frozen=True)
class _Level:
    """Where a level stands: in which word, and what its names mean.

    Attributes:
        word: the number of its word.
        find: finds it in that word.
        rank: how sure it is: a known name is surer than a single letter.
        group: its expression.
        declared: the keys of the format.
    """

    word: int
    find: Callable[[str], LevelWord | None]
    rank: int
    group: str
    declared: Mapping[str, Any]
    tokens: re.Pattern[str]

    def _spans(self, text: str) -> tuple[int, int, int] | None:
        """Return where the word of the level starts, and where the level in it starts and ends."""
        token = _nth(self.tokens, text, self.word)
        level = self.find(token[0]) if token is not None else None
        if token is None or level is None:
            return None
        return token.start(), token.start() + level.start, token.start() + level.end

    def ends(self, texts: Sequence[str]) -> Iterator[tuple[str, int]]:
        """Yield the texts that have the level, each with where it ends."""
        for text in texts:
            if (span := self._spans(text)) is not None:
                yield text, span[2]

    def expression(self, texts: Sequence[str], tokens: re.Pattern[str]) -> str:
        """Return an expression for what stands before the level, and for the level."""
        spans = [(text, span) for text in texts if (span := self._spans(text)) is not None]
        heads, marks = [text[: span[0]] for text, span in spans], [text[span[0] : span[1]] for text, span in spans]
        if any(_CHANNEL.search(mark) for mark in marks):
            before = _separator([_CHANNEL.sub("", mark) for mark in marks]) + r"(?:(?<field>[\w-]+)\.)?"
        else:
            before = _separator(marks)
        return f"{_between(heads, tokens, self.word)}{before}(?<level>{self.group})"


def _by_priority(token: str) -> LevelWord | None:
    level = level_in(_PRIORITY.match(token))
    return level if level is not None and int(level.text) <= 191 else None


def _by_mnemonic(token: str) -> LevelWord | None:
    return level_in(_MNEMONIC.match(token))


def _by_tag(token: str) -> LevelWord | None:
    return level_in(_TAG.fullmatch(token))


def _by_klog(token: str) -> LevelWord | None:
    return level_in(_KLOG.fullmatch(token))


_LETTER_PLACES = (_by_tag, _by_klog)


def _level_in(
    texts: Sequence[str],
    tokens: re.Pattern[str],
    others: Sequence[Callable[[str], LevelWord | None]],
    doubts: list[str],
    unknown: list[str],
) -> _Level | None:
    """Return the level that most texts have in the same word; a name before a single letter.

    Args:
        texts: the texts.
        tokens: finds their words.
        others: find a level that is no word of its own.
        doubts: gets letters that may be levels.
        unknown: gets the reason if some words at one place are levels, and others are unknown.
    """
    levels: list[_Level] = []
    words = [[match[0] for match, _ in zip(tokens.finditer(text), range(_WORDS), strict=False)] for text in texts]
    for at in range(_WORDS):
        here = [row[at] for row in words if len(row) > at]
        if len(here) < _SURE * len(texts):
            break
        for by in others:
            if sum(by(word) is not None for word in here) >= _SURE * len(here):
                levels.append(_special(at, by, tokens))
        named = [level for word in here if (level := level_word(word)) is not None]
        names = {known.text.upper() for known in named}
        sure = names & CORE  # guard: level-word-of-message
        if len(named) < _SURE * len(here):
            if len(named) >= _HALF * len(here) and len(sure) > 1:
                strange = Counter(word.strip("[](){}<>:,;|") for word in here if level_word(word) is None)
                words_there = listed(word for word, _ in strange.most_common(3))
                unknown.append(f"{listed(sorted(sure))} are levels, but {words_there} in their place is none")
            continue
        if sure and (len(names) > 1 or at < _NEAR):
            levels.append(_Level(at, level_word, 2, "[A-Za-z]+[0-9]?", meanings(names), tokens))
        elif names <= LETTERS.keys() and (_are_levels(names) or _is_logcat(words, at)):
            levels.append(_Level(at, level_word, 1, "[A-Za-z]", meanings(set(LETTERS)), tokens))
        elif names <= LETTERS.keys():
            doubts.append(f"{listed(sorted(names))} at one place of the lines may be levels, but nothing shows it")
    return max(levels, key=lambda candidate: candidate.rank, default=None)


def _special(at: int, by: Callable[[str], LevelWord | None], tokens: re.Pattern[str]) -> _Level:
    if by in _LETTER_PLACES:
        return _Level(at, by, 1, "[A-Z]", meanings(set(LETTERS)), tokens)
    return _Level(at, by, 3, r"\d{1,3}", {"level_is": "priority"}, tokens)


def _are_levels(letters: set[str]) -> bool:  # guard: two-letters-no-levels
    """Return True if letters are levels: E and I may be ways out and in, T and F true and false."""
    return len(letters) >= _ENOUGH_LETTERS and {"I", "W"} <= letters


def _is_logcat(words: Sequence[Sequence[str]], at: int) -> bool:
    """Return True if letters stand behind two numbers and before a tag with a colon, as in Android's log."""
    behind = [word for word in words if len(word) > at + 1]
    return at == _PLACE_OF_LOGCAT and all(
        row[0].isdigit() and row[1].isdigit() and (":" in "".join(row[at + 1 :])) for row in behind
    )


def _tail(texts: Sequence[str]) -> tuple[str, list[str]]:
    """Return an expression for a name behind a level and a slash, and the texts behind it."""
    matches = [_SLASH.match(text) for text in texts]
    if not all(matches):
        return "", [*texts]
    return r"/(?<field>[^\s\]:()]+)", [text[match.end() :] for text, match in zip(texts, matches, strict=True) if match]


def _nth(tokens: re.Pattern[str], text: str, number: int) -> re.Match[str] | None:
    return next((match for at, match in enumerate(tokens.finditer(text)) if at == number), None)


def _is_level_alone(before: str) -> bool:
    words = re.findall(r"\w+", before)
    return len(words) == 1 and (level_word(words[0]) is not None or bool(_PRIORITY.fullmatch(before.strip())))


def _is_level_first(line: str) -> bool:
    word = line.split(maxsplit=1)[0] if line.split() else ""
    level = level_word(word)
    return level is not None and level.text.upper() in CORE


def looks_like_record(line: str) -> bool:
    """Return True if a line may be a record of its own: it begins with a time or a level, or has the key of a time."""
    if _OWN_RECORD.match(line):
        return True
    visible = _COLOURS.sub("", line)
    times = [*times_in(visible)]
    first = times[0].before if times else ""
    is_timed = bool(times) and bool(_NO_WORD.fullmatch(first) or _is_level_alone(first) or _REQUEST.fullmatch(first))
    values = json_object(visible) if visible.startswith("{") else None
    has_keys = values is not None and any(key.lower() in _TIME_KEYS for key in values)
    return is_timed or has_keys or bool(_PROBABLY_OWN.match(visible))


def _between(texts: Sequence[str], tokens: re.Pattern[str], count: int | None = None) -> str:
    """Return an expression for texts of the same number of words; each word becomes a field."""
    cut = [_cut(text, tokens) for text in texts]
    length = mode(len(parts) for parts in cut) if count is None else 2 * count + 1
    same = [parts for parts in cut if len(parts) == length]
    return "".join(
        _separator([parts[at] for parts in same]) if at % 2 == 0 else _word([parts[at] for parts in same], tokens)
        for at in range(length)
    )


def _cut(text: str, tokens: re.Pattern[str]) -> list[str]:
    """Return what is between the words of a text, and the words, in turn."""
    out, at = [], 0
    for match in tokens.finditer(text):
        out += [text[at : match.start()], match[0]]
        at = match.end()
    return [*out, text[at:]]


def _separator(texts: Sequence[str]) -> str:
    if not any(text.strip() for text in texts):
        return "" if not any(texts) else r"\s+" if all(texts) else r"\s*"
    forms = Counter(re.sub(r"\s+", " ", text) for text in texts)
    expressions = [escaped(form).replace(" ", r"\s+") for form, _ in forms.most_common()]
    return expressions[0] if len(expressions) == 1 else f"(?:{'|'.join(sorted(expressions, key=len, reverse=True))})"


def _word(texts: Sequence[str], tokens: re.Pattern[str]) -> str:
    """Return an expression for a word: a mark or a label as it is, any other one as a field."""
    is_label = len(set(texts)) == 1 and _LABEL.fullmatch(texts[0])
    if is_label and (tokens is _TOKEN or texts[0] != "-"):
        return escaped(texts[0])
    for opens, closes in ("[]", "<>", "()", '""'):
        if tokens is _TOKEN and all(text.startswith(opens) and text.endswith(closes) for text in texts):
            return rf"\{opens}(?<field>[^\{closes}]*)\{closes}"
    if tokens is _RUN:
        return r"(?<field>\S+)"
    is_plain = all(re.fullmatch(_PLAIN, text) for text in texts)
    return f"(?<field>{_PLAIN})" if is_plain else f"(?<field>{_UNIT}|{_PLAIN})"


def _lead(texts: Sequence[str]) -> str:
    """Return an expression for the marks and spaces that stand before every message."""
    leads = [match[0] for text in texts if text and (match := _LEAD.match(text))]
    common = re.sub(r"\s+", " ", _common([lead.lstrip() for lead in leads])).rstrip(" ")
    if not common:
        return r"\s*"
    spaces = [lead[:1].isspace() for lead in leads]
    before = r"\s+" if all(spaces) else r"\s*" if any(spaces) else ""
    lead = before + escaped(common).replace(" ", r"\s+")
    return rf"{lead}\s*" if all(texts) else rf"(?:{lead})?\s*"


def _common(texts: Sequence[str]) -> str:
    """Return the characters with which all texts begin."""
    shortest, longest = min(texts, default=""), max(texts, default="")
    same = (one == other for one, other in zip(shortest, longest, strict=False))
    return shortest[: next((at for at, is_same in enumerate(same) if not is_same), min(len(shortest), len(longest)))]


def _numbered(pattern: str) -> str:
    """Return a pattern whose groups `field` are numbered."""
    pieces = pattern.split("(?<field>")
    return pieces[0] + "".join(f"(?<field{at}>{piece}" for at, piece in enumerate(pieces[1:], 1))


def _chosen(columns: Sequence[TimeColumn]) -> TimeColumn:
    """Return the column of the lines' own times: the first one, or the same instant with an offset or a year.

    Raises:
        AmbiguousError: there are only numbers, in several columns.
    """
    in_order = sorted(columns, key=lambda column: (-len(column.times), column.times[0].start))
    written = [column for column in in_order if not column.times[0].is_number]
    if not written:
        if len(in_order) > 1:
            one, other = in_order[0].times[0], in_order[1].times[0]
            raise AmbiguousError(f"a line has two numbers that may be its time, {one.text} and {other.text}")
        return in_order[0]
    first = min(written, key=lambda column: (len(column.times) < _MOST * len(written[0].times), column.times[0].start))
    if first.is_absolute:
        return first
    others = [column for column in in_order if column is not first and not _is_value(column)]
    absolute = [column for column in others if column.is_absolute and _is_same(first, column)]
    dated = [column for column in others if column.has_year and not first.has_year and _is_same(first, column)]
    return next(iter([*absolute, *dated]), first)  # guard: absolute-time-first


def _is_at_the_place_of_a_time(column: TimeColumn) -> bool:  # guard: number-at-time-place
    """Return True if the place of numbers, their key or their spread says that they are times."""
    befores = [time.before for time in column.times]
    keys = {match[1].lower() if (match := _KEY_BEFORE.search(before)) else "" for before in befores}
    is_early = all(len(_RUN.findall(before)) <= _FIRST_WORDS for before in befores)
    return (
        all(_NO_WORD.fullmatch(before) for before in befores)
        or keys <= {*_TIME_KEYS}
        or (is_early and all("." in time.text for time in column.times))
        or column.is_bursty
    )


def _contradict(times: Sequence[tuple[WrittenTime, Sequence[timedelta]]]) -> bool:  # guard: clock-agrees-with-number
    """Return True if clocks beside numbers show other times of day than these; they may be of any zone."""
    compared = [(time.local({}), clocks) for time, clocks in times if clocks]
    close = sum(at is not None and any(_is_clock_of(at, clock) for clock in clocks) for at, clocks in compared)
    return 2 * len(compared) >= len(times) and close < _SURE * len(compared)


def _is_clock_of(at: datetime, clock: timedelta) -> bool:
    apart = timedelta(hours=at.hour, minutes=at.minute, seconds=at.second) - clock
    return abs(apart - round(apart / _QUARTER) * _QUARTER) <= _SAME


def _is_value(column: TimeColumn) -> bool:
    """Return True if a number is the value of a name, as in `total=1514038529000`: it is the message's."""
    return column.times[0].is_number and bool(re.search(r"\w[=:]\s?$", column.times[0].before))


def _is_same(local: TimeColumn, other: TimeColumn) -> bool:  # guard: number-is-same-instant
    """Return True if two columns hold the same instants, one of them in another zone."""
    instants = {id(time.line): (time, at) for time, at in zip(other.times, other.instants(), strict=True)}
    close = compared = 0
    for time in local.times:
        if (pair := instants.get(id(time.line))) is None or pair[1] is None:
            continue
        mine = time.instant(local.readings[0], pair[1].year)
        compared += 1
        if mine is not None and abs(apart := pair[1] - mine) <= _FARTHEST + _SAME:
            nearest = round(apart / _QUARTER) * _QUARTER
            close += abs(apart - nearest) <= _SAME
    return compared > 0 and close >= _SURE * compared


@dataclass(frozen=True)
class _Objects:
    """The values of lines of keys and values, by their key or path."""

    values: Sequence[Mapping[str, str]]

    def often(self) -> list[str]:
        """Return the keys that most lines have."""
        counts = Counter(key for value in self.values for key in value)
        return [key for key, count in counts.items() if count >= _MOST * len(self.values)]

    def of(self, key: str) -> list[str]:
        """Return the values of a key."""
        return [value[key] for value in self.values if key in value]

    def drafted(self, kind: str, latest: datetime) -> _Drafted | None:
        """Return a format with keys for time, level and message; None without a time.

        Raises:
            AmbiguousError: several keys may be the time.
        """
        columns: dict[str, TimeColumn] = {}
        for key in self.often():
            times = [matches[0] for value in self.of(key) if (matches := times_in(value)) and matches[0].text == value]
            if len(times) == len(self.of(key)) and len({time.kind for time in times}) == 1:
                try:
                    columns[key] = TimeColumn(times, latest, is_named=_last_of(key) in _TIME_KEYS)
                except ValueError:
                    continue
                if columns[key].times[0].is_number and not self._is_time(key, columns[key]):
                    del columns[key]
        if not columns:
            return None
        named = [key for name in _TIME_KEYS for key in columns if _last_of(key) == name]
        if not named and len(columns) > 1:
            raise AmbiguousError(f"{listed(columns)} are times; the lines do not show which is the line's")
        key = next((name for name in named if columns[name].is_absolute), named[0] if named else next(iter(columns)))
        columns[key].check()
        if not columns[key].is_absolute:
            self._check_zone()
        level, declared, doubts = self._level(key)
        message = next((path for name in _MESSAGE_KEYS for path in self._all_keys() if _last_of(path) == name), None)
        keys = {"time": key, "level": level or "level", "message": message or self._prose(key, level) or "message"}
        return _Drafted({kind: keys, **_time(columns[key]), **declared}, columns[key], level is not None, doubts)

    def _check_zone(self) -> None:
        """Raise AmbiguousError if a key beside a local time says its zone."""
        zones = (
            (key, value) for pairs in self.values for key, value in pairs.items() if names_zone(_last_of(key), value)
        )
        if (zone := next(zones, None)) is not None:
            raise AmbiguousError(f"the times have no zone, but {zone[0]} is {zone[1]}, which may be their zone")

    def _is_time(self, key: str, column: TimeColumn) -> bool:
        """Return True if the key of numbers means a time, and no clock under another key contradicts them."""
        others = [other for other in self.often() if other != key and not _DURATION.search(_last_of(other))]
        clocks: list[list[timedelta]] = [
            [clock for other in others for clock in clocks_in(value.get(other, ""), alone=True)]
            for value in self.values
            if key in value
        ]
        return _last_of(key) in _TIME_KEYS and not _contradict(list(zip(column.times, clocks, strict=True)))

    def _all_keys(self) -> list[str]:
        return list(dict.fromkeys(key for value in self.values for key in value))

    def _prose(self, *others: str | None) -> str | None:
        """Return the key whose values are mostly several words."""
        return next(
            (
                key
                for key in self.often()
                if key not in others
                and not is_path(key)
                and sum(" " in value for value in self.of(key)) > _MOST * len(self.of(key))
            ),
            None,
        )

    def _level(self, time: str) -> tuple[str | None, Mapping[str, Any], list[str]]:
        """Return the key of the level, what the format says about it, and keys that may be one.

        Raises:
            NoDraftError: a key of levels has others than the known ones.
        """
        named = [key for name in _LEVEL_KEYS for key in self._all_keys() if _last_of(key) == name and key != time]
        doubts = []
        for key in [*named, *(other for other in self.often() if other not in named and other != time)]:
            values = self.of(key)
            missing = {"default_level": "INFO"} if len(values) < len(self.values) else {}
            names = {value.upper() for value in values}
            if names <= set("01234567") and self._has_priority(key):
                return key, {"level_is": "priority", **missing}, []
            if names <= NUMBERS.keys() and _last_of(key) == "level" and {"pid", "hostname"} <= {*self._all_keys()}:
                return key, {"levels": dict(NUMBERS), **missing}, []
            known = [value for value in values if (word := level_word(value)) is not None and word.text == value]
            if len(known) < _SURE * len(values):
                if key in named and _last_of(key) not in ("priority", "s"):
                    strange = next(value for value in values if value not in known)
                    raise NoDraftError(f"{key} has values such as {printable(strange, 40)}, which are no known levels")
                if key in named:
                    doubts.append(f"{key} is not read as a level; its values are such as {printable(values[0], 40)}")
                continue
            names = {value.upper() for value in known}
            is_letter = key in named and names <= LETTERS.keys() | {"D1", "D2", "D3", "D4", "D5"} and "I" in names
            if is_letter and _last_of(key) == "s" and not (_are_levels(names) or "c" in self._all_keys()):
                doubts.append(f"{listed(sorted(names))} under {key} may be levels, but nothing shows it")
            elif is_letter or (names & CORE and (key in named or len(names & CORE) > 1)):
                return key, {**meanings(names), **missing}, []
        return None, {"default_level": "INFO"}, doubts

    def _has_priority(self, key: str) -> bool:
        """Return True if the numbers of a key are severities of syslog: in the journal of systemd, and in GELF."""
        keys = {*self._all_keys()}
        return (_last_of(key) == "priority" and bool(keys & _JOURNAL)) or (key == "level" and keys >= _GELF)


def _last_of(key: str) -> str:
    return (
        re.sub(r"^.*(?:\.|\[')(?=[^.\]]+(?:'\])?$)", "", key).removesuffix("']").lower()
        if key.startswith("$")
        else key.lower()
    )


def _of_objects(lines: Sequence[str], latest: datetime) -> _Drafted | None:
    """Return a format for JSON lines, if most lines are objects and have a time."""
    objects = [dict(_leaves(parsed)) for line in lines if (parsed := json_object(line)) is not None]
    return _of_keys("json", objects, lines, latest)


def _of_pairs(lines: Sequence[str], latest: datetime) -> _Drafted | None:
    """Return a format for lines of key=value pairs, if most lines are such and have a time."""
    pairs = [pairs for line in lines if (pairs := logfmt_pairs(line)) is not None]
    whole = [pair for pair in pairs if len(pair) > 1 and not any("|" in key for key in pair)]
    several = [{key: text for key, text in pair.items() if text is not None} for pair in whole]
    return _of_keys("logfmt", several, lines, latest)


def _of_keys(
    kind: str, objects: Sequence[Mapping[str, str]], lines: Sequence[str], latest: datetime
) -> _Drafted | None:
    if not objects or len(objects) < _MOST * len(lines):
        return None
    draft = _Objects(objects).drafted(kind, latest)
    if draft is None and kind == "json":
        raise NoDraftError("the lines are JSON objects, but none of their keys is a time")
    return draft


def _time(column: TimeColumn) -> dict[str, Any]:
    patterns = column.patterns
    return {"time": patterns if len(patterns) > 1 else patterns[0]}


def _leaves(value: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the values of an object that are no objects or lists, by their key or path as in a log format."""
    for key, inner in value.items():
        below = f"{path or '$'}.{key}" if re.fullmatch(r"\w+", key) else f"{path or '$'}['{key}']"
        if isinstance(inner, dict):
            yield from _leaves(inner, below)
        elif not isinstance(inner, list) and (text := json_text(inner)) is not None:
            yield below if path else key, text
