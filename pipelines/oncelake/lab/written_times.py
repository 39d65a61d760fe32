"""Find the times that a line writes, the datetime patterns that read them, and whether there is one reading only."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from itertools import pairwise
from zoneinfo import available_timezones

from oncelake.silver.parsing.times import ISO8601
from oncelake.silver.parsing.zones import clear
from oncelake.silver.plain_times import EPOCH, MONTHS, UTC_NAMES, offset_of

# A time is looked for in this many characters of a line.
NEAR = 200
_MONTH = (
    r"(?P<mon>(?i:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:tember)?|"
    r"Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?))"
)
_YEAR = r"(?:19|20)\d\d"
# Names of zones that follow a time: those of the tz database, and those that Java and older systems write.
_ZONE_NAMES = (
    "UTC GMT ACDT ACST ACT ADT AEDT AEST AFT AKDT AKST ALMT AMST AMT AQTT ART AST AWST AZST AZT BDT BNT BOT BRST BRT "
    "BST BTT CAT CCT CDT CEST CET CHOT ChST CLST CLT COT CST CVT DAVT EAT ECT EDT EEST EET EST FJT FKT GALT GFT GST "
    "GYT HADT HAST HDT HKT HOVT HST ICT IDT IOT IRDT IRKT IRST IST JST KGT KRAT KST LHDT LHST MAGT MART MDT MEST MET "
    "MHT MMT MSD MSK MST MUT MVT MYT NCT NDT NFT NOVT NPT NST NZDT NZST OMST PDT PET PETT PGT PHT PKT PMDT PMST PONT "
    "PST PWT PYST PYT SAMT SAST SBT SCT SGT SRT SST TFT TJT TKT TLT TMT TOT TRT TVT ULAT UYST UYT UZT VET VLAT VUT "
    "WAKT WAST WAT WEST WET WIB WIT WITA YAKT YEKT"
)
_NAMES = "|".join(_ZONE_NAMES.split())
_AREAS = "Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Etc|Europe|Indian|Pacific"
_PLACE = rf"(?:{_AREAS})/[A-Z][\w+-]*(?:/[A-Z][\w+-]*)?"
# A zone stands behind the clock, or behind at most one mark and spaces.
_ZONE = (
    r"(?:(?P<gap>[ \t]{0,3}(?:[,;|(\[][ \t]{0,3})?)"
    rf"(?P<zone>(?<=[\d.:])Z|[+-]\d\d(?::?\d\d)?(?![\d:])|(?<=[\s,;|(\[])(?:{_PLACE}|(?:{_NAMES})(?![\w/+-]))))?"
)
_CLOCK = (
    r"(?P<H>\d\d?)(?P<c>[:.])(?P<m>\d\d?)(?:(?P=c)(?P<s>\d\d?)(?:(?P<fs>[.,:])(?P<f>\d{1,9}))?)?"
    r"(?: ?(?P<half>(?i:AM|PM))\b)?(?! ?[AaPp]\.[Mm])"
)
_TIGHT_CLOCK = r"(?P<H>\d\d)(?P<m>\d\d)(?P<s>\d\d)(?:(?P<fs>[.,])(?P<f>\d{1,9}))?"
_JOIN = r"(?P<join>T|[ \t]{1,3}|[-_:|;]|, ?|::| - )"
# A time does not stand in the middle of a word or a number.
_START = r"""(?<![^\s\[({<>|,;"'=])"""  # guard: time-begins-a-word
_END = r"""(?=$|[\s\])}>|;"'&\[]|,(?!\d)|:(?:\s|$))"""
# What stands beside a time, or under a key, and looks like a zone that was not read as one.
_FOREIGN = "MEZ|MESZ|OEZ|OESZ|WEZ|WESZ|HNE|HAE|HNC|HAC|HNR|HAR|HNP"
_LONG_NAME = r"(?:[A-Z][\w.]*\s){1,4}(?:Standard|Daylight|Summer|European|Universal|Mean) Time\b"
_MORE_ZONE = re.compile(
    rf"[\s,;|(\[<\"'/-]{{0,5}}((?:(?:{_NAMES}|{_FOREIGN})\b|{_PLACE}|{_LONG_NAME}|(?:UTC|GMT)[+-]\d)(?:[+-]?\d[\d:]*|/\w+)?"
    rf"|[+-]\d\d(?::?\d\d)?(?=[\s)\]>,;|\"']|$))"
)
_ZONE_BEFORE = re.compile(rf"(?<![\w/.-])((?:{_NAMES}|{_FOREIGN})|{_PLACE})[\]\s,;|)]{{1,3}}\W?$")
_SHORT_OFFSET = re.compile(r"[\s,;|(\[<\"']{1,4}([+-]\d|Z)(?=[\s)\]>,;|\"']|$)")
# A column of offsets or places, or a key of a zone, anywhere in the line.
_ZONE_WORD = re.compile(
    rf"(?<![^\s,;|(\[<\"'=])(?<!\d )([+-](?:0\d|1[0-4]):?[0-5]\d|{_PLACE})(?=[\s,;|)\]>\"']|$)", re.ASCII
)
_ZONE_KEY = re.compile(
    rf"(?:\b|_)(?:tz|time_?zone|zone|utc_?offset)[\"']?\s?[=:]\s?[\"']?"
    rf"((?:{_NAMES}|{_FOREIGN})\b|{_PLACE}|[+-]\d\d?(?::?\d\d)?(?![\w.:])|(?:UTC|GMT)\S*)",
    re.IGNORECASE | re.ASCII,
)

Reading = Mapping[str, str]


@dataclass(frozen=True)
class DateForm:
    """A way to write a date with its time; `readings` say which part of the date each of its groups may be."""

    name: str
    expression: re.Pattern[str]
    readings: tuple[Reading, ...]
    has_month: bool


def _form(name: str, date: str, *readings: str, clock: str = _CLOCK, after: str = "") -> DateForm:
    expression = re.compile(f"{_START}{date}{_JOIN}{clock}{_ZONE}{after}{_END}", re.ASCII)
    parts = tuple({f"n{at}": part for at, part in enumerate(reading, 1)} for reading in readings)
    return DateForm(name, expression, parts, "mon" in expression.groupindex)


_SEP = r"(?P<sep>[-/.])"
FORMS = (
    _form("year first", rf"(?P<n1>{_YEAR})(?P<sep>[-/.:])(?P<n2>\d\d?)(?P=sep)(?P<n3>\d\d?)", "yMd"),
    _form("eight digits", rf"(?P<n1>{_YEAR})(?P<n2>\d\d)(?P<n3>\d\d)", "yMd"),
    _form("eight digits, tight", rf"(?P<n1>{_YEAR})(?P<n2>\d\d)(?P<n3>\d\d)", "yMd", clock=_TIGHT_CLOCK),
    _form("year last", rf"(?P<n1>\d\d?){_SEP}(?P<n2>\d\d?)(?P=sep)(?P<n3>{_YEAR})", "dMy", "Mdy"),
    _form("two digits each", rf"(?P<n1>\d\d){_SEP}(?P<n2>\d\d)(?P=sep)(?P<n3>\d\d)", "yMd", "dMy", "Mdy"),
    _form("six digits", r"(?P<n1>\d\d)(?P<n2>\d\d)(?P<n3>\d\d)", "yMd", "dMy", "Mdy"),
    _form("six digits, tight", r"(?P<n1>\d\d)(?P<n2>\d\d)(?P<n3>\d\d)", "yMd", "dMy", "Mdy", clock=_TIGHT_CLOCK),
    _form("day and month", rf"(?P<n1>\d\d?)(?P<sep>[-/ ]){_MONTH}(?P=sep)(?P<n2>{_YEAR})", "dy"),
    _form("day, month, short year", rf"(?P<n1>\d\d)(?P<sep>[-/ ]){_MONTH}(?P=sep)(?P<n2>\d\d)", "dy", "yd"),
    _form("year and month", rf"(?P<n1>{_YEAR})(?P<sep>[-/ ]){_MONTH}(?P=sep)(?P<n2>\d\d?)", "yd"),
    _form("month and day", rf"{_MONTH}(?P<sep> {{1,2}})(?P<n1>\d\d?),? (?P<n2>{_YEAR})", "dy"),
    _form("month, day, year at the end", rf"{_MONTH} {{1,2}}(?P<n1>\d\d?)", "dy", after=rf" (?P<n2>{_YEAR})"),
    _form("month and day, no year", rf"{_MONTH} {{1,2}}(?P<n1>\d\d?)", "d"),
    _form("two numbers, no year", rf"(?P<n1>\d\d){_SEP}(?P<n2>\d\d)", "Md", "dM"),
)
_NUMERIC_FORMS = tuple(form for form in FORMS if not form.has_month)
_MONTH_STARTS = tuple(month.lower() for month in MONTHS)
_TEN_DIGITS = re.compile(r"1\d{9}", re.ASCII)
# A number that is a time: its pattern, and its unit in seconds.
_EPOCHS = {
    "epoch_seconds": (re.compile(rf"{_START}1\d{{9}}(?:\.\d{{1,9}})?{_END}", re.ASCII), 1.0),
    "epoch_millis": (re.compile(rf"{_START}1\d{{12}}{_END}", re.ASCII), 1e-3),
    "epoch_micros": (re.compile(rf"{_START}1\d{{15}}{_END}", re.ASCII), 1e-6),
    "epoch_nanos": (re.compile(rf"{_START}1\d{{18}}{_END}", re.ASCII), 1e-9),
}
_CLOCK_ALONE = re.compile(rf"{_START}(\d\d):(\d\d):(\d\d)(?:[.,]\d{{1,9}})?{_END}", re.ASCII)
# Unordered numbers are times only if there are this many, over this time: identifiers are closer together.
_MANY, _LONG = 1_000, timedelta(days=30)
# Times come in bursts: in most parts of that time, some are this close together, and far closer than on average.
_BURST, _BURST_PARTS, _BURST_LINES = timedelta(seconds=10), 10, 30
# Digits are padded with zeros if this share begins with one, and vary if there are as many values, in as many lines.
_PADDED, _VARIED, _PADDED_LINES = 0.03, 100, 20
# Winter and summer of one place have two offsets.
_FEW_OFFSETS = 2
_PARTS = frozenset({"n1", "mon", "n2", "n3", "H", "m", "s", "f", "half", "zone"})


class AmbiguousError(Exception):
    """Raised when lines can be read in several ways; the message names the ways."""


@dataclass(frozen=True)
class WrittenTime:
    """A time in a line: where it stands, and its parts.

    Attributes:
        form: the name of its form, or of its kind of number.
        parts: the texts of its parts by their name, and of `join`, `sep`, `c` and `fs` between them.
        spans: where each part stands.
    """

    line: str
    start: int
    end: int
    form: str
    parts: Mapping[str, str]
    spans: Mapping[str, tuple[int, int]]

    @property
    def text(self) -> str:
        """The time as the line has it."""
        return self.line[self.start : self.end]

    @property
    def before(self) -> str:
        """Return the text before it in its line."""
        return self.line[: self.start]

    @property
    def after(self) -> str:
        """Return the text after it in its line."""
        return self.line[self.end :]

    @property
    def is_number(self) -> bool:
        """True if it is a number of seconds or of parts of one."""
        return self.form in _EPOCHS

    @property
    def is_absolute(self) -> bool:
        """True if it is an instant in every zone."""
        return self.is_number or "zone" in self.parts

    @property
    def kind(self) -> tuple[str, ...]:
        """Return its form and the marks between its parts, which all times of a column have in common."""
        between = (re.sub(r"\s+", " ", self.parts.get(name, "")) for name in ("sep", "join", "c"))
        return self.form, *between

    def local(self, reading: Reading, year: int = 2000) -> datetime | None:
        """Return the time as it is written, without its zone; None if there is no such time."""
        if self.is_number:
            return (EPOCH + timedelta(seconds=float(self.text) * _EPOCHS[self.form][1])).replace(tzinfo=None)
        dated = {letter: int(self.parts[name]) for name, letter in reading.items()}
        years = dated.get("y", year)
        month = MONTHS.index(self.parts["mon"][:3].title()) + 1 if "mon" in self.parts else dated["M"]
        hour = int(self.parts["H"])
        try:
            if "half" in self.parts:
                hour = datetime(2000, 1, 1, hour % 12 if 1 <= hour <= 12 else 99).hour
                hour += 12 * (self.parts["half"].upper() == "PM")
            micros = int(self.parts.get("f", "0").ljust(6, "0")[:6])
            minute, second = int(self.parts["m"]), int(self.parts.get("s", 0))
            return datetime(years + 2000 * (years < 100), month, dated["d"], hour, minute, second, micros)
        except ValueError:
            return None

    def instant(self, reading: Reading, year: int = 2000) -> datetime | None:
        """Return its instant, in UTC if it has no zone; None if there is no such time, or its zone has a name."""
        at, zone = self.local(reading, year), self.parts.get("zone", "Z")
        own = UTC if zone in UTC_NAMES else offset_of(zone)
        return None if at is None or own is None else at.replace(tzinfo=own).astimezone(UTC)


def times_in(line: str) -> list[WrittenTime]:
    """Return the times of a line, from its beginning; where two forms overlap, the longest."""
    near = line[:NEAR]
    times = [*_dated(line, near), *_numbers(line, near)]
    times.sort(key=lambda time: (time.start, -time.end))
    out: list[WrittenTime] = []
    for time in times:
        if not out or time.start >= out[-1].end:
            out.append(time)
    return out


def _dated(line: str, near: str) -> Iterator[WrittenTime]:
    small = near.lower()
    has_month = any(name in small for name in _MONTH_STARTS)
    for form in FORMS if has_month else _NUMERIC_FORMS:
        for match in form.expression.finditer(near):
            parts = {name: text for name, text in match.groupdict().items() if text is not None}
            if parts.get("c") == "." and "s" not in parts:
                continue
            spans = {name: match.span(name) for name in sorted(parts.keys() & _PARTS, key=match.start)}
            yield WrittenTime(line, match.start(), match.end(), form.name, parts, spans)


def _numbers(line: str, near: str) -> Iterator[WrittenTime]:
    if _TEN_DIGITS.search(near) is None:
        return
    for name, (expression, _) in _EPOCHS.items():
        for match in expression.finditer(near):
            yield WrittenTime(line, match.start(), match.end(), name, {}, {})


def names_zone(key: str, value: str) -> bool:
    """Return True if the value of a key says a zone, as in `tz=+01:00`."""
    return bool(_ZONE_KEY.match(f"{key}={value}"))


def clocks_in(text: str, *, alone: bool = False) -> list[timedelta]:
    """Return the times of day without a date that a text has, or is if it must be one `alone`."""
    matches = _CLOCK_ALONE.finditer(text[:NEAR])
    parts = [[*map(int, match.groups())] for match in matches if not alone or match[0] == text]
    return [timedelta(hours=hour, minutes=minute, seconds=second) for hour, minute, second in parts]


class TimeColumn:
    """The times that stand at one place of many lines, in one form, and their reading."""

    def __init__(self, times: Sequence[WrittenTime], latest: datetime, *, is_named: bool = False) -> None:
        """Find how the times can be read.

        Args:
            times: the times, in the order of the lines.
            latest: no line can be of a later time.
            is_named: True if the lines say that these are times.

        Raises:
            ValueError: they are no times.
        """
        self.times = times
        self._latest = latest
        self._is_named = is_named
        self._first = times[0]
        self.readings = self._possible()
        if not self.readings:
            raise ValueError("there are no such times")

    @property
    def is_absolute(self) -> bool:
        """True if every time is an instant in every zone."""
        return all(written.is_absolute for written in self.times)

    @property
    def has_year(self) -> bool:
        """True if the times have a year."""
        return self._first.is_number or "y" in self.readings[0].values()

    def check(self) -> None:
        """Raise AmbiguousError if the times can be read in several ways."""
        if len(self.readings) > 1:  # guard: ambiguous-date-refused
            ways = " or ".join(f"{self._letters(reading)} ({self._shown(reading)})" for reading in self.readings)
            raise AmbiguousError(f"a time such as {self._first.text} is {ways}; the lines do not show which")
        self._check_zones()
        if self.counts_units and any({"half", "zone"} & written.parts.keys() for written in self.times):
            raise AmbiguousError(f"the digits after the seconds of {self._first.text} may be a fraction or a number")
        if self._has_column_of_digits():
            raise AmbiguousError(f"in {self._first.text}, the digits after the comma may be a fraction or a column")

    def _check_zones(self) -> None:  # guard: zone-behind-time
        if not self._first.is_number:
            self._check_unread_zones()
        with_zone = {
            written.parts["zone"]: written.text for written in self.times if written.parts.get("zone", "Z") != "Z"
        }
        for zone, text in with_zone.items():
            if not _is_used(zone, self._latest.year):
                reason = "which may be its zone, and means several offsets or none"
                raise AmbiguousError(
                    f"{text} ends in {zone}, {reason if zone[0].isalpha() else 'which may be no offset'}"
                )
        apart = {written.parts["zone"] for written in self.times if written.parts.get("gap")}
        columns = {written.parts["zone"] for written in self.times if written.parts.get("gap", " ").strip(" \t([")}
        short = {zone for zone in apart if len(zone) == len("+02") and not zone[0].isalpha()}
        if max(len(short), len(columns)) > _FEW_OFFSETS or short & columns:
            raise AmbiguousError(f"{self._first.text} ends in a number such as {min(apart)}, which may be no offset")
        if apart and not self.is_absolute:
            raise AmbiguousError(f"only some times are followed by {min(apart)}, which may be their offset or zone")

    def _check_unread_zones(self) -> None:  # guard: unreadable-zone-refused
        """Raise AmbiguousError if a zone stands beside a time that has none."""
        bare = [written for written in self.times if "zone" not in written.parts]
        for time in bare:
            if (more := _MORE_ZONE.match(time.after)) is not None:
                raise AmbiguousError(f"{time.text} is followed by {more[1].strip()}, which may be its zone")
        for pattern, where in (
            (_SHORT_OFFSET.match, "after"), (_ZONE_BEFORE.search, "before"), (_ZONE_WORD.search, "line"),
            (_ZONE_KEY.search, "line"),
        ):  # fmt: skip
            zones = [match[1] for written in bare if (match := pattern(getattr(written, where)[:NEAR])) is not None]
            if 2 * len(zones) > len(self.times):
                raise AmbiguousError(f"{bare[0].text} stands beside {zones[0]}, which may be its zone")

    def _has_column_of_digits(self) -> bool:  # guard: fraction-shown-by-lines
        """Return True if the digits behind a comma, with a comma behind them, may be a column of their own.

        They are a fraction if they are as many in all lines, have zeros in front, take many values, and do not count.
        """
        digits = [
            written.parts["f"]
            for written in self.times
            if written.parts.get("fs") == "," and written.after.startswith(",")
        ]
        if not digits:
            return False
        steps = Counter(int(other) - int(one) for one, other in pairwise(digits))
        is_padded = sum(digit[0] == "0" and bool(digit.strip("0")) for digit in digits) >= _PADDED * len(digits)
        is_varied = 2 * len(set(digits)) >= min(len(digits), 2 * _VARIED) and len(digits) >= _PADDED_LINES
        counts = bool(steps) and 2 * steps.most_common(1)[0][1] >= len(digits)
        return len({len(digit) for digit in digits}) > 1 or not (is_padded and is_varied) or counts

    def instants(self) -> list[datetime | None]:
        """Return the instant of each time, in UTC if it has no zone, by the first reading."""
        year = self._latest.year
        return [written.instant(self.readings[0], year) for written in self.times]

    @cached_property
    def counts_units(self) -> bool:  # guard: unit-digits-no-fraction
        """True if the digits after the seconds count milliseconds without leading zeros, and are no fraction."""
        digits = [written.parts["f"] for written in self.times if "f" in written.parts]
        widths = {len(digit) for digit in digits}
        if len(widths) < 2 or widths <= {3, 6, 9}:
            return False
        is_count = not any(len(digit) > 1 and digit[0] == "0" for digit in digits)
        is_cut = not any(digit[-1] == "0" for digit in digits)
        return is_count and (not is_cut or self._first.parts.get("fs") == ":")

    @property
    def patterns(self) -> list[str]:
        """The datetime patterns that read the times."""
        if self._first.is_number:
            return [self._first.form]
        counts = Counter(self._pattern(written, self.readings[0]) for written in self.times)
        return [form for pattern, _ in counts.most_common() for form in _with_both_days(pattern)]

    @property
    def expression(self) -> str:
        """A Java regular expression for the times, without their fraction if it counts units."""
        if self._first.is_number:
            return self._number
        bodies = Counter(self._body(written) for written in self.times)
        alternatives = "|".join(body for body, _ in bodies.most_common())
        return f"(?:{alternatives})" if len(bodies) > 1 else alternatives

    @property
    def _number(self) -> str:
        digits = {"epoch_seconds": 9, "epoch_millis": 12, "epoch_micros": 15, "epoch_nanos": 18}[self._first.form]
        return rf"1\d{{{digits}}}" + (r"(?:\.\d{1,9})?" if any("." in written.text for written in self.times) else "")

    def _possible(self) -> tuple[Reading, ...]:
        """Return the readings that fit the most times; those that continue at midnight, if some do."""
        if self._first.is_number:
            return ({},) if self._is_plausible() else ()
        readings = next(form.readings for form in FORMS if form.name == self._first.form)
        wrong = {
            at: sum(not self._may_be(written, reading) for written in self.times) for at, reading in enumerate(readings)
        }
        least = min(wrong.values())
        if least * 100 > len(self.times):
            return ()
        best = [reading for at, reading in enumerate(readings) if wrong[at] == least]
        return tuple(self._continued(best) if len(best) > 1 else best)

    def _may_be(self, time: WrittenTime, reading: Reading) -> bool:
        at = time.local(reading)
        return at is not None and at <= self._latest.replace(tzinfo=None) + timedelta(days=1)

    def _is_plausible(self) -> bool:
        """Return True unless numbers lie in the future, or come as identifiers do: one by one, or in any order."""
        numbers = [float(written.text) for written in self.times]
        steps = [other - one for one, other in pairwise(numbers)]
        counts_up = len(steps) > 3 and steps.count(1.0) >= 0.9 * len(steps)
        unit = _EPOCHS[self._first.form][1]
        is_past = max(numbers) * unit <= (self._latest + timedelta(days=1)).timestamp()
        is_ordered = sum(step < 0 for step in steps) <= 0.1 * len(steps)
        is_wide = len(numbers) >= _MANY and (max(numbers) - min(numbers)) * unit >= _LONG.total_seconds()
        return is_past and (self._is_named or (not counts_up and (is_ordered or is_wide)))

    @property
    def is_bursty(self) -> bool:
        """True if many numbers lie as times do: over a long time, and close together now and then in most of it."""
        unit = _EPOCHS[self._first.form][1]
        seconds = sorted({float(written.text) * unit for written in self.times})
        long = seconds[-1] - seconds[0]
        close = [one for one, other in pairwise(seconds) if other - one <= _BURST.total_seconds()]
        parts = {int((at - seconds[0]) / long * _BURST_PARTS) for at in close} if long else set()
        is_long = len(self.times) >= _MANY and long >= _LONG.total_seconds()
        return is_long and len(close) >= _BURST_LINES and 2 * len(parts) > _BURST_PARTS

    def _continued(self, readings: Sequence[Reading]) -> Sequence[Reading]:
        """Return the one reading in which the clock goes on from midnight to the next day, if it is the only one."""
        shown = [reading for reading in readings if self._goes_on(reading)]
        return shown if len(shown) == 1 else readings

    def _goes_on(self, reading: Reading) -> bool:
        """Return True if the date changes, and each change follows within six hours on the day before."""
        times = [at for written in self.times if (at := written.local(reading)) is not None]
        changes = [(one, other) for one, other in pairwise(times) if one.date() != other.date()]
        # guard: monthly-dates-show-no-day
        return bool(changes) and all(timedelta(0) < other - one < timedelta(hours=6) for one, other in changes)

    def _has_short_day(self, name: str) -> bool:
        """Return True for the day behind the name of a month, which has one digit, two, or a space and one."""
        return name == "n1" and self._first.form.startswith("month")

    def _width(self, name: str) -> int:
        return 1 if self._has_short_day(name) else min(self._widths.get(name, {2}))

    @cached_property
    def _widths(self) -> Mapping[str, set[int]]:
        """The lengths of each part."""
        out: dict[str, set[int]] = {}
        for written in self.times:
            for name, text in written.parts.items():
                out.setdefault(name, set()).add(len(text))
        return out

    @cached_property
    def _fraction_marks(self) -> str:
        return "".join(sorted({written.parts["fs"] for written in self.times if "fs" in written.parts}))

    @cached_property
    def _behind_the_clock(self) -> Mapping[str, str]:
        """The expressions of a fraction and of a zone."""
        return {name: self._sometimes(name) for name in ("f", "zone")}

    def _pattern(self, time: WrittenTime, reading: Reading) -> str:
        if _is_iso(time):
            return ISO8601
        out, at = "", time.start
        for name, (start, end) in time.spans.items():
            if name != "f" or not self.counts_units:
                between = " " if self._has_short_day(name) else _quoted(time.line[at:start])
                out += between + self._letters_of(name, time, reading)
            at = end
        return out

    def _letters(self, reading: Reading) -> str:
        return self._pattern(self._first, reading)

    def _shown(self, reading: Reading) -> str:
        at = self._first.local(reading)
        form = "%Y-%m-%d" if "y" in reading.values() else "%B %d"
        return f"{at:{form}}" if at is not None else "no date"

    def _letters_of(self, name: str, time: WrittenTime, reading: Reading) -> str:
        text = time.parts[name]
        if name in reading:
            letter = reading[name]
            return letter * (len(text) if letter == "y" else self._width(name))
        if name == "mon":
            return "MMM" if len(text) == 3 else "MMMM"
        if name == "f":
            return "S" * max(self._widths["f"])
        if name == "zone":
            return _zone_letters(text)
        letter = "a" if name == "half" else "h" if name == "H" and "half" in time.parts else name
        return letter if name == "half" else letter * self._width(name)

    def _body(self, time: WrittenTime) -> str:
        """Return the expression of one time; a fraction and a zone stand behind its clock, in every form."""
        out, at = "", time.start
        last = "s" if "s" in time.parts else "m"
        for name, (start, end) in time.spans.items():
            if name not in ("f", "zone"):
                between = " {1,2}" if self._has_short_day(name) else escaped(time.line[at:start])
                out += between + self._expression_of(name, time.parts[name])
            at = end
            if name == last:
                out += "" if self.counts_units else self._behind_the_clock["f"]
            if name == ("half" if "half" in time.parts else last):
                out += self._behind_the_clock["zone"]
        return out

    def _sometimes(self, name: str) -> str:
        """Return the expression of a part that all times have, or some, or none."""
        having = [written for written in self.times if name in written.parts]
        if not having:
            return ""
        before = "gap" if name == "zone" else ""
        texts = sorted(
            {
                escaped(written.parts.get(before, "")) + self._expression_of(name, written.parts[name])
                for written in having
            }
        )
        expression = f"(?:{'|'.join(texts)})" if len(texts) > 1 else texts[0]
        if name == "f":
            expression = f"[{self._fraction_marks}]{expression}"
        return expression if len(having) == len(self.times) else f"(?:{expression})?"

    def _expression_of(self, name: str, text: str) -> str:
        if name == "mon":
            return "[A-Za-z]{3,9}" if len(text) > 3 else "[A-Za-z]{3}"
        if name == "half":
            return "[AaPp][Mm]"
        if name == "zone":
            if "/" in text:
                return r"[A-Z]\w+(?:/[\w+-]+)+"
            return "[A-Za-z]{3,5}" if text[0].isalpha() and text != "Z" else r"(?:Z|[+-]\d\d(?::?\d\d)?)"
        if name == "f":
            widths = self._widths["f"]
            return rf"\d{{{min(widths)}}}" if len(widths) == 1 else r"\d{1,9}"
        return r"\d{4}" if len(text) == 4 else r"\d\d" if self._width(name) == 2 else r"\d{1,2}"


def _is_iso(time: WrittenTime) -> bool:
    parts = time.parts
    if time.form != "year first" or (parts["sep"], parts["c"]) != ("-", ":") or parts["join"] not in ("T", " "):
        return False
    if "s" not in parts or "half" in parts or parts.get("fs") == ":" or parts.get("gap"):
        return False
    return all(len(parts[name]) == 2 for name in ("n2", "n3", "H", "m", "s"))


def _is_used(zone: str, year: int) -> bool:
    """Return True for a zone that means one offset, and for an offset that a place of the world can have."""
    if "/" in zone:
        return zone in available_timezones()
    if zone[0].isalpha():
        return any(meaning.first <= year <= meaning.last for meaning in clear("UTC").get(zone, ()))
    offset = offset_of(zone)
    ahead = offset.utcoffset(None) if offset is not None else None
    return (
        ahead is not None and timedelta(hours=-12) <= ahead <= timedelta(hours=14) and not ahead % timedelta(minutes=15)
    )


def _with_both_days(pattern: str) -> list[str]:
    """Return a pattern, and the one in which a day of one digit has a space before it, as syslog writes it."""
    match = re.search(r"(?<=M) (?=d\b)", pattern)
    return [pattern] if match is None else [pattern, f"{pattern[: match.start()]} {pattern[match.start() :]}"]


def _zone_letters(text: str) -> str:
    if text[0].isalpha() and text != "Z":
        return "z"
    return {1: "X", 3: "X", 5: "XX", 6: "XXX"}[len(text)]


def _quoted(text: str) -> str:
    """Write the text between two parts of a datetime pattern: letters and brackets need quotes."""
    return re.sub(r"[A-Za-z\[\]#{}']+", lambda match: "'" + match[0].replace("'", "''") + "'", text)


def escaped(text: str) -> str:
    """Write a text as a Java regular expression that matches it."""
    return re.sub(r"([\\.^$|?*+()\[\]{}])", r"\\\1", text).replace("\t", r"\t")
