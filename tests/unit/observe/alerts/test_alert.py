"""An alert is sent at least once, always with one key per window, whatever dies; nothing old and nothing twice."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pytest

from oncelake.common.errors import DeliveryError, LockedError
from oncelake.engine.alerts import AlertSettings
from oncelake.observe.alerts import state
from oncelake.observe.alerts.alert import MOST, Alert
from oncelake.observe.alerts.look import Holding, Look, Window
from oncelake.observe.alerts.message import Message
from oncelake.observe.alerts.state import AlertState, directory, read_state
from tests.support.memory import MemoryFiles

MINUTE = 60_000
BEGAN = 1_000_000 * MINUTE
RECEIVER = {"kind": "webhook", "url": "http://127.0.0.1:9/"}


class Killed(BaseException):
    """The process dies."""


@dataclass
class Gold(Look):
    """A gold table of one measure a minute, and the other things that an alert looks at."""

    limit: float = 100.0
    falling: bool = False
    length_ms: int = MINUTE
    may_fall: bool = False
    values: dict[int, float] = field(default_factory=dict)
    version: int = 0
    up_to_date: bool = True
    refused: list[Window] = field(default_factory=list)
    held: Holding | None = None
    looks: int = 0

    def count(self, minute: int, value: float) -> None:
        """Commit a value for the minute that begins so long after the beginning."""
        self.values[BEGAN + minute * MINUTE] = value
        self.version += 1

    def settled(self) -> bool:
        return self.up_to_date

    def head(self) -> tuple[str, int] | None:
        return ("table", self.version) if self.version else None

    def newest(self, version: int) -> int | None:
        return max(self.values, default=None)

    def windows(self, version: int, after_ms: int, until_ms: int | None, most: int) -> list[Window]:
        self.looks += 1
        windows = [
            Window(start, start + MINUTE, f"log_count is {value:g}")
            for start, value in sorted(self.values.items())
            if (value < self.limit if self.falling else value > self.limit)
            and start + MINUTE > after_ms
            and (until_ms is None or start + MINUTE <= until_ms)
        ]
        return windows[:most]

    def spans(self, after_ms: int, until_ms: int) -> tuple[list[Window], int]:
        until = until_ms - until_ms % (5 * MINUTE)
        return [window for window in self.refused if after_ms <= window.start_ms < until_ms], until

    def holding(self, now_ms: int) -> Holding | None:
        return self.held


class CrashingFiles(MemoryFiles):
    """Files whose next write kills the process, before or after it."""

    def __init__(self) -> None:
        super().__init__()
        self.writes = 0
        self.dies_before: int | None = None
        self.dies_after: int | None = None

    def write(self, path: str, text: str) -> None:
        self.writes += 1
        if self.writes == self.dies_before:
            raise Killed
        super().write(path, text)
        if self.writes == self.dies_after:
            raise Killed


@dataclass
class Place:
    """One alert, its lake and its receiver."""

    when: str = "error_log.log_count > 100"
    since: datetime | None = None
    gold: Gold = field(default_factory=Gold)
    files: CrashingFiles = field(default_factory=CrashingFiles)
    got: list[Message] = field(default_factory=list)
    now: int = BEGAN
    fails: Callable[[Message], None] = lambda _: None
    alone: Callable[[], AbstractContextManager[object]] = nullcontext

    def alert(self) -> Alert:
        """Return the alert of a new process."""
        settings = AlertSettings.model_validate({"when": self.when, "to": RECEIVER, "since": self.since})
        return Alert(
            "spike", settings, "/lake", "/lake", self.files, self.gold, self.receive, self.alone, lambda: self.now
        )

    def receive(self, message: Message) -> None:
        self.fails(message)
        self.got.append(message)

    def round(self) -> AlertState:
        return self.alert().round()

    def keys(self, status: str = "alert") -> list[str]:
        return [message.key for message in self.got if message.status == status]

    @property
    def state(self) -> AlertState:
        stored = read_state(self.files, directory("/lake", "spike"))
        assert stored is not None
        return stored


def spike() -> Place:
    """Return an alert that has been looked at, then a window past the limit."""
    place = Place()
    place.round()
    place.gold.count(0, 150)
    return place


def test_a_window_past_the_limit_sends_one_message() -> None:
    place = spike()
    for _ in range(3):
        place.round()
    (message,) = place.got
    assert message.status == "alert"
    assert message.text == "log_count is 150"
    assert message.window == "1971-11-26T10:40:00Z to 1971-11-26T10:41:00Z"
    assert message.condition == "error_log.log_count > 100"


def test_a_share_of_a_window_alerts_when_the_window_is_over() -> None:
    place = Place(gold=Gold(may_fall=True))
    place.round()
    place.gold.count(0, 150)  # the first line of the window is an error
    place.round()
    assert place.got == []
    place.gold.count(0, 50)
    place.now += 3 * MINUTE
    place.round()
    assert place.got == [], "the share of the whole window is within the limit"
    place.gold.count(3, 150)
    place.now += 3 * MINUTE
    place.round()
    assert [message.status for message in place.got] == ["alert", "end"]


def test_a_window_within_the_limit_sends_nothing() -> None:
    place = Place()
    place.gold.count(0, 100)
    place.round()
    assert place.got == []


@pytest.mark.parametrize("step", range(1, 5))
@pytest.mark.parametrize("before", [True, False])
def test_a_kill_at_any_write_sends_at_least_once_with_one_key(step: int, before: bool) -> None:
    place = Place()
    place.gold.count(0, 1)
    place.round()
    place.gold.count(0, 150)
    place.files.writes = 0
    place.files.dies_before, place.files.dies_after = (step, None) if before else (None, step)
    for _ in range(3):  # the window ends, too
        try:
            place.round()
        except Killed:
            place.files.dies_before = place.files.dies_after = None
        place.now += 2 * MINUTE
    assert place.files.writes >= step
    for _ in range(3):
        place.round()
    assert len(set(place.keys())) == len(set(place.keys("end"))) == 1
    assert set(place.keys()) == set(place.keys("end"))
    assert len(place.got) <= 3
    assert (place.got[0].status, place.got[-1].status) == ("alert", "end")


def test_a_kill_before_the_send_loses_no_message() -> None:
    place = spike()

    def dies(_: Message) -> None:
        raise Killed

    place.fails = dies
    with pytest.raises(Killed):
        place.round()
    assert place.state.unsent == 1
    place.fails = lambda _: None
    place.round()
    assert len(place.got) == 1


def test_a_kill_between_send_and_record_sends_the_same_message_again() -> None:
    place = spike()
    place.files.dies_before = place.files.writes + 2  # the first write is what is due, the second one what is sent
    with pytest.raises(Killed):
        place.round()
    assert len(place.got) == 1
    place.files.dies_before = None
    place.round()
    first, second = place.got
    assert (first.key, first.text, first.window) == (second.key, second.text, second.window)
    place.round()
    assert len(place.got) == 2


def test_a_message_is_recorded_as_sent_only_after_it_was_accepted() -> None:
    place = spike()

    def check(_: Message) -> None:
        assert place.state.entries[0].sent_ms is None

    place.fails = check
    place.round()
    assert place.state.entries[0].sent_ms == place.now


def test_what_is_due_is_kept_before_it_is_sent() -> None:
    place = Place("backlog of silver > 5")
    place.gold.held = Holding(True, "the backlog of silver is 9 rows")

    def dies(_: Message) -> None:
        raise Killed

    place.fails = dies
    with pytest.raises(Killed):
        place.round()
    key = place.state.entries[0].key
    place.now += 7 * MINUTE
    place.fails = lambda _: None
    place.round()
    assert place.keys() == [key]


def test_a_start_goes_on_at_the_recorded_version() -> None:
    place = spike()
    place.round()
    looks = place.gold.looks
    place.round()
    assert place.gold.looks == looks
    assert place.state.version == place.gold.version
    place.gold.count(1, 1)
    place.round()
    assert place.gold.looks == looks + 1


def test_the_key_does_not_depend_on_when_or_how_often_it_is_looked_at() -> None:
    first, second = spike(), spike()
    second.now += 12_345
    second.gold.count(0, 170)
    first.round()
    second.round()
    assert first.keys() == second.keys()
    assert first.keys() == ["spike/1971-11-26T10:40:00Z/2ea403652df8496e"]


def test_keys_of_windows_conditions_names_and_lakes_differ() -> None:
    place = spike()
    place.gold.count(1, 150)
    place.round()
    other = Place("error_log.log_count > 99", now=BEGAN)
    other.round()
    other.gold.count(0, 150)
    other.round()
    assert len({*place.keys(), *other.keys()}) == 3


def test_a_late_line_that_raises_an_old_window_past_the_limit_alerts_for_it() -> None:
    place = Place()
    place.round()
    for minute in range(30):
        place.gold.count(minute, 50)
    place.now += 31 * MINUTE
    place.round()
    assert place.got == []
    place.gold.count(3, 101)
    place.round()
    assert [message.window for message in place.got if message.status == "alert"] == [
        "1971-11-26T10:43:00Z to 1971-11-26T10:44:00Z"
    ]
    place.gold.count(4, 51)
    place.round()
    assert len(place.keys()) == 1


def test_a_table_that_is_built_again_alerts_nothing_again() -> None:
    place = spike()
    place.round()
    values, place.gold.values = place.gold.values, {}
    place.gold.version += 1
    place.round()
    place.gold.values, place.gold.version = values, place.gold.version + 5
    place.now += 10 * MINUTE
    place.round()
    place.gold.version += 1
    place.round()
    assert len(place.keys()) == 1


def test_the_past_of_a_lake_sends_nothing() -> None:
    place = Place()
    for minute in range(-5_000, 0):
        place.gold.values[BEGAN + minute * MINUTE] = 500
    place.gold.count(0, 500)
    place.round()
    place.round()
    assert [message.window for message in place.got] == ["1971-11-26T10:40:00Z to 1971-11-26T10:41:00Z"]


def test_since_takes_earlier_windows_in_rounds_of_a_limited_number() -> None:
    place = Place(since=datetime.fromtimestamp((BEGAN - 100 * MINUTE) / 1000, UTC), gold=Gold(up_to_date=False))
    for minute in range(-200, 0):
        place.gold.count(minute, 500)
    sent = []
    for _ in range(60):
        before = len(place.got)
        place.round()
        sent.append(len(place.got) - before)
    assert max(sent) == MOST
    assert len(place.keys()) == len(set(place.keys())) == 100
    assert place.keys("end") == sorted(place.keys("end"))
    assert len(place.keys("end")) == 98  # the last two are not over while lines wait


def test_a_changed_since_looks_again_and_repeats_nothing() -> None:
    place = spike()
    place.round()
    place.gold.values[BEGAN - 3 * MINUTE] = 500
    place.since = datetime.fromtimestamp((BEGAN - 10 * MINUTE) / 1000, UTC)
    place.round()
    assert [message.window[:16] for message in place.got if message.status == "alert"] == [
        "1971-11-26T10:40",
        "1971-11-26T10:37",
    ]


def test_an_end_message_follows_when_the_window_is_over_and_everything_is_counted() -> None:
    place = spike()
    place.round()
    place.now += 2 * MINUTE - 1
    place.round()
    assert place.keys("end") == []
    place.now += 1
    place.gold.up_to_date = False  # the next window may be in what waits
    place.round()
    assert place.keys("end") == []
    place.gold.up_to_date = True
    place.round()
    assert place.keys("end") == place.keys()
    assert place.got[-1].text == "the window is over. It began with: log_count is 150"
    place.round()
    assert len(place.got) == 2
    assert place.state.entries == ()


def test_a_later_window_ends_an_alert_while_lines_wait() -> None:
    place = spike()
    place.gold.up_to_date = False
    place.round()
    place.now += 60 * MINUTE
    place.gold.count(1, 1)
    place.round()
    assert place.keys("end") == []
    place.gold.count(2, 1)
    place.round()
    assert place.keys("end") == place.keys()


def test_a_line_with_a_time_to_come_ends_nothing_early() -> None:
    place = spike()
    place.gold.up_to_date = False
    place.gold.count(60, 1)
    place.round()
    assert place.keys("end") == []
    place.now += 2 * MINUTE
    place.round()
    assert place.keys("end") == place.keys()


def test_a_window_that_no_longer_meets_the_condition_ends_its_alert() -> None:
    place = spike()
    place.round()
    place.gold.count(0, 90)
    place.round()
    assert place.got[-1].text.startswith("the condition no longer holds in this window")
    place.gold.count(0, 190)
    place.round()
    assert len(place.got) == 2  # one message for a window, and its end


def test_too_few_lines_are_found_when_the_window_is_over() -> None:
    place = Place("error_log.log_count < 100", gold=Gold(falling=True))
    place.round()
    place.gold.count(0, 3)
    place.round()
    place.now += 2 * MINUTE - 1
    place.round()
    assert place.got == []
    place.now += 1
    place.round()
    assert len(place.keys()) == 1
    looks = place.gold.looks
    place.now += 20 * MINUTE
    place.round()
    place.round()
    assert place.keys("end") == place.keys()
    assert place.gold.looks == looks  # no window is left to finish
    place.gold.up_to_date = False
    place.gold.count(21, 3)
    place.round()
    assert len(place.keys()) == 1


def test_a_line_that_comes_back_within_the_limit_does_not_end_a_finished_window_early() -> None:
    place = Place("error_log.log_count < 100", gold=Gold(falling=True))
    place.round()
    place.gold.count(0, 3)
    place.now += 2 * MINUTE
    place.round()
    place.gold.up_to_date = False
    place.gold.count(1, 300)
    place.round()
    assert place.keys("end") == []


def test_a_condition_without_windows_alerts_once_and_ends_once() -> None:
    place = Place("freshness of silver > 10 minutes")
    place.round()
    place.gold.held = Holding(True, "the last commit of silver was 11 min ago")
    for _ in range(3):
        place.now += MINUTE
        place.round()
    place.gold.held = None  # its source does not answer
    place.round()
    assert len(place.got) == 1
    place.gold.held = Holding(False, "the last commit of silver was 2 s ago")
    place.round()
    assert place.keys("end") == place.keys()
    place.gold.held = Holding(True, "again")
    place.now += MINUTE
    place.round()
    assert len(set(place.keys())) == 2


def test_refused_lines_alert_once_and_before_their_time_is_over() -> None:
    place = Place("refused > 5%")
    place.round()
    place.now += MINUTE
    place.gold.refused.append(Window(BEGAN, BEGAN + 5 * MINUTE, "40 % of 10 lines are refused so far"))
    place.round()
    assert [message.text for message in place.got] == ["40 % of 10 lines are refused so far"]
    for _ in range(4):
        place.now += MINUTE
        place.round()
    assert len(place.got) == 1
    place.now += 5 * MINUTE
    place.round()
    assert place.keys("end") == place.keys()
    assert len(place.got) == 2


def test_refused_lines_that_are_few_in_the_end_end_the_alert_when_their_time_is_over() -> None:
    place = Place("refused > 5%")
    place.round()
    place.now += MINUTE
    place.gold.refused.append(Window(BEGAN, BEGAN + 5 * MINUTE, "40 % of 10 lines are refused so far"))
    place.round()
    place.gold.refused.clear()
    place.now += MINUTE
    place.round()
    assert place.keys("end") == [], "it may rise again"
    place.now += 3 * MINUTE
    place.round()
    assert place.keys("end") == place.keys()
    assert place.got[-1].text.startswith("the condition no longer holds in this window. It began with: 40 % of 10")
    place.now += MINUTE
    place.round()
    assert len(place.got) == 2


def test_many_times_of_refused_lines_are_all_sent() -> None:
    place = Place("refused > 5%")
    place.round()
    for number in range(50):
        start = BEGAN + number * 5 * MINUTE
        place.gold.refused.append(Window(start, start + 5 * MINUTE, "too many"))
    place.now += 60 * 5 * MINUTE
    for _ in range(20):
        place.round()
    assert len(place.keys()) == len(set(place.keys())) == len(place.keys("end")) == 50


def test_a_receiver_that_is_away_delays_messages_and_loses_none() -> None:
    place = spike()

    def away(_: Message) -> None:
        raise DeliveryError("webhook receiver of spike: Connection refused")

    place.fails = away
    for minute in range(1, 40):
        place.gold.count(minute, 200)
        place.now += MINUTE
        after = place.round()
    assert after.failed == "webhook receiver of spike: Connection refused"
    assert after.unsent <= 2 * MOST
    assert place.got == []
    place.fails = lambda _: None
    for _ in range(20):
        after = place.round()
    assert after.failed == ""
    assert len(place.keys()) == len(set(place.keys())) == 40


def test_a_message_that_is_refused_does_not_hold_up_the_others() -> None:
    place = spike()
    place.gold.count(1, 150)
    place.gold.count(2, 150)

    def refuse(message: Message) -> None:
        if "10:41" in message.window[:16]:
            raise DeliveryError("webhook receiver of spike: it answers 400 Bad Request", refused=True)

    place.fails = refuse
    after = place.round()
    assert [message.window[:16] for message in place.got if message.status == "alert"] == [
        "1971-11-26T10:40",
        "1971-11-26T10:42",
    ]
    assert after.unsent >= 1
    assert "400" in after.failed
    place.fails = lambda _: None
    place.round()
    assert len(place.keys()) == 3


def test_no_message_is_begun_after_the_time_is_up() -> None:
    place = spike()
    after = place.alert().round(-1.0)
    assert place.got == []
    assert after.unsent == 1


def test_a_changed_condition_ends_the_old_one_and_begins_now() -> None:
    place = spike()
    place.round()
    place.when = "error_log.log_count > 120"
    place.now += 5 * MINUTE
    place.round()
    assert place.got[-1].text.startswith("the condition was changed")
    assert place.keys("end") == place.keys()
    place.gold.count(5, 130)
    place.round()
    assert len(set(place.keys())) == 2


def test_forgotten_windows_are_no_longer_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state, "MEMORY", 30)
    place = Place(gold=Gold(up_to_date=False), since=datetime.fromtimestamp(0, UTC))
    place.round()
    place.now += 200 * MINUTE
    for minute in range(90):
        place.gold.count(minute, 500)
    for _ in range(30):
        place.round()
    assert len(place.keys()) == len(set(place.keys())) == 90
    assert len(place.state.done) == 30
    place.gold.count(91, 1)
    place.round()
    assert len(place.keys()) == 90


def test_another_process_on_the_same_alert_is_left_alone() -> None:
    place = spike()

    def locked() -> AbstractContextManager[object]:
        raise LockedError("the alert is being written by process 1")

    place.alone = locked
    with pytest.raises(LockedError):
        place.round()
    assert place.got == []


def test_a_test_message_changes_no_state() -> None:
    place = spike()
    place.round()
    before = place.files.texts.copy()
    message = place.alert().test()
    assert place.got[-1] == message
    assert message.status == "test"
    assert place.files.texts == before


YEARS = 4 * 365 * 24 * 60 * MINUTE


def refusing(minute: int) -> Window:
    return Window(BEGAN + minute * MINUTE, BEGAN + (minute + 5) * MINUTE, "half of the lines are refused")


@pytest.mark.parametrize("ahead", [YEARS, 60 * MINUTE])
def test_a_clock_that_is_set_back_hides_no_refused_lines(ahead: int) -> None:
    place = Place("refused > 10% in 5 minutes")
    place.round()
    place.now += ahead
    place.gold.refused = [Window(place.now, place.now + 5 * MINUTE, "half of the lines are refused")]
    place.now += 5 * MINUTE
    place.round()
    place.now = BEGAN + 20 * MINUTE
    place.round()
    assert place.got[-1].text.startswith("the clock was set back. It began with: ")
    assert place.keys("end") == place.keys()
    place.gold.refused.append(refusing(20))
    place.now += 5 * MINUTE
    place.round()
    place.round()
    assert len(place.keys()) == 2


def test_an_alert_that_began_with_a_clock_that_was_ahead_sees_what_comes_after_it_is_right() -> None:
    for when, gold in (("error_log.log_count > 100", Gold()), ("refused > 10% in 5 minutes", Gold())):
        place = Place(when, gold=gold, now=BEGAN + YEARS)
        place.round()
        place.now = BEGAN
        place.round()
        place.gold.count(0, 150)
        place.gold.refused = [refusing(0)]
        place.now += 5 * MINUTE
        place.round()
        assert len(place.keys()) == 1


def test_a_window_is_not_too_low_before_it_is_over_after_a_clock_was_set_back() -> None:
    place = Place("error_log.log_count < 100", gold=Gold(falling=True))
    place.gold.count(-10, 500)
    place.round()
    place.now += YEARS
    place.gold.count(-9, 500)
    place.round()
    place.now = BEGAN
    place.gold.count(0, 3)
    place.round()
    assert place.got == []
    place.now += 2 * MINUTE
    place.round()
    assert len(place.keys()) == 1
