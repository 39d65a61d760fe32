"""The lease on a store: one driver at a time, whatever is paused, killed, or gets no answer. With a store in memory."""

import json
import random
import threading
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelake.common.errors import LockedError
from oncelake.exactly_once.store_lease import RENEW, TERM, StoreLease
from tests.support.lease_objects import Objects

LAKE = "s3://bucket/lake"


def lease(objects: Objects, holder: str = "process 1 on one", ahead: float = 0.0) -> StoreLease:
    """Return a lease that is not held yet, of a host whose clock is some seconds ahead."""
    return StoreLease(objects, LAKE, holder, clock=lambda: objects.now + ahead, sleep=objects.sleep)


def acquired(objects: Objects, holder: str = "process 1 on one", *, wait: float = 0.0) -> StoreLease:
    """Return a lease that is held."""
    held = lease(objects, holder)
    held.acquire(wait, pytest.fail)
    return held


def test_a_free_lease_is_held_at_once_and_free_after_a_clean_end() -> None:
    objects = Objects()
    one = acquired(objects)
    one.release()
    other = acquired(objects, "process 2 on two")
    assert (one.term, other.term) == (1, 2)
    assert objects.now == Objects().now, "nobody waited"


def test_a_driver_that_renews_is_left_alone() -> None:
    objects = Objects()
    one = acquired(objects)
    objects.while_waiting = one.renew
    with pytest.raises(LockedError, match=rf"^{LAKE} is being written by process 1 on one; only one process"):
        acquired(objects, "process 2 on two")
    one.check()


def test_the_term_of_a_dead_driver_is_waited_for_and_named_in_one_line() -> None:
    objects, said = Objects(), list[str]()
    acquired(objects)
    objects.now += RENEW
    other = lease(objects, "process 2 on two", ahead=-3600.0)
    other.acquire(0.0, said.append)
    assert TERM < objects.now - Objects().now - RENEW <= TERM + 2
    assert len(said) == 1
    assert "process 1 on one holds s3://bucket/lake and does not renew its lease: waiting up to 15 s" in said[0]


def test_a_driver_that_dies_while_another_one_waits_for_it_is_waited_for_to_its_end() -> None:
    objects = Objects()
    one, dead_at = acquired(objects), Objects().now + 4

    def renew() -> None:
        if objects.now < dead_at:
            one.renew()

    objects.while_waiting = renew
    lease(objects, "process 2 on two").acquire(10.0, lambda _: None)
    assert objects.now - Objects().now < 2 * TERM


def test_a_holder_that_was_paused_ends_if_another_one_has_it() -> None:
    objects = Objects()
    one = acquired(objects)
    other = lease(objects, "process 2 on two")
    other.acquire(0.0, lambda _: None)
    for _ in range(2):
        with pytest.raises(LockedError, match=r"no longer holds s3://bucket/lake: .* process 2 on two has it now"):
            one.check()
    one.release()
    other.check()
    other.renew()


def test_a_holder_that_was_paused_goes_on_if_nobody_else_has_it() -> None:
    objects = Objects()
    one = acquired(objects)
    objects.now += 10 * TERM
    one.check()
    objects.while_waiting = one.renew
    with pytest.raises(LockedError):
        acquired(objects, "process 2 on two")


def test_a_check_asks_the_store_only_if_a_renewal_is_late() -> None:
    objects = Objects()
    one = acquired(objects)
    before = objects.requests
    objects.now += RENEW
    one.check()
    assert objects.requests == before
    objects.now += RENEW
    one.check()
    assert objects.requests > before


def test_a_store_that_does_not_answer_stops_the_holder_only_after_its_term(monkeypatch: pytest.MonkeyPatch) -> None:
    objects = Objects()
    one = acquired(objects)
    monkeypatch.setattr(objects, "put", _away)
    objects.now += TERM - 1
    one.check()
    objects.now += 2
    with pytest.raises(OSError, match="away"):
        one.check()


def _away(*_: object) -> bool:
    raise OSError("the store is away")


def test_a_renewal_whose_answer_got_lost_is_its_own() -> None:
    objects = Objects()
    one = acquired(objects)
    objects.loses = lambda number: number == 2
    with pytest.raises(OSError, match="lost"):
        one.renew()
    one.renew()
    one.check()
    one.release()
    assert acquired(objects, "process 2 on two").term == 2


def test_a_number_that_was_removed_is_not_the_lease() -> None:
    objects = Objects()
    one = acquired(objects)
    late = lease(objects, "process 2 on two")
    newest = objects.newest

    def paused_before_its_put(number: int, text: str) -> bool:
        if json.loads(text)["holder"] == late.holder and number == 2:
            for _ in range(3):
                one.renew()
            objects.remove_before(4)
        return Objects.put(objects, number, text)

    objects.put = paused_before_its_put  # type: ignore[method-assign]
    objects.sleep(0)
    objects.while_waiting = lambda: one.renew() if newest() > 1 else None
    with pytest.raises(LockedError):
        late.acquire(0.0, lambda _: None)
    one.check()


def test_the_lease_is_renewed_in_the_block_and_free_after_it() -> None:
    objects = Objects()
    with lease(objects).held(0.0, pytest.fail):
        assert json.loads(objects.texts[1])["free"] is False
    assert json.loads(objects.texts[2])["free"] is True


class World(Objects):
    """Drivers that go on one at a time, each up to its next request; chance says which, and what happens to it."""

    def __init__(self, chance: random.Random, drivers: int) -> None:
        super().__init__()
        self.chance = chance
        self.delayed = list[tuple[int, str]]()  # puts that have no effect yet
        self.works = list[tuple[int, int]]()  # the term and the driver of each work, in their order
        self.turns = [threading.Semaphore(0) for _ in range(drivers)]
        self.back = threading.Semaphore(0)
        self.ended = set[int]()
        self.failures = list[BaseException]()

    def play(self, most: int) -> None:
        """Let the drivers go on until all have ended, or for a number of turns."""
        threads = [
            threading.Thread(target=self._drive, args=(number,), daemon=True) for number in range(len(self.turns))
        ]
        for thread in threads:
            thread.start()
        paused, until = -1, 0
        for turn in range(most):
            going = [number for number in range(len(self.turns)) if number not in self.ended]
            if not going:
                break
            if turn > until and self.chance.random() < 0.1:
                paused, until = self.chance.choice(going), turn + self.chance.randrange(60)
            going = [number for number in going if number != paused or turn > until] or going
            self.now += self.chance.choice((0.0, 0.0, 0.05, 0.5, 2.0, 2.0, TERM)) * self.chance.random()
            for put in [put for put in self.delayed if self.chance.random() < 0.2]:
                self.delayed.remove(put)
                self.texts.setdefault(*put)
            self.turns[self.chance.choice(going)].release()
            self.back.acquire()
        if self.failures:
            raise self.failures[0]

    def _drive(self, number: int) -> None:
        self.turns[number].acquire()
        try:
            with suppress(LockedError, OSError):
                for _ in range(3):
                    self._hold(number)
        except BaseException as error:
            self.failures.append(error)
        finally:
            self.ended.add(number)
            self.back.release()

    def _hold(self, number: int) -> None:
        mine: Any = Seen(self, number)
        held = StoreLease(mine, LAKE, str(number), clock=lambda: self.now + 1e6 * number, sleep=mine.sleep)
        held.acquire(self.chance.choice((0.0, 10.0)), lambda _: None)
        for _ in range(self.chance.randrange(6)):
            if self.chance.random() < 0.5:
                held.renew()
                mine.remove_before(max(self.texts))
            else:
                mine.turn()
            held.check()
            self.works.append((held.term, number))
        if self.chance.random() < 0.5:
            held.release()


@dataclass
class Seen:
    """The objects as a driver sees them: before each request, the others may go on."""

    world: World
    number: int

    def turn(self) -> None:
        self.world.back.release()
        self.world.turns[self.number].acquire()

    def sleep(self, seconds: float) -> None:
        until = self.world.now + seconds
        while self.world.now < until:
            self.turn()

    def newest(self) -> int:
        self.turn()
        return self.world.newest()

    def read(self, number: int) -> str | None:
        self.turn()
        return self.world.read(number)

    def put(self, number: int, text: str) -> bool:
        self.turn()
        chance = self.world.chance.random()
        if chance < 0.1:  # it has its effect later, or never
            self.world.delayed.append((number, text))
        done = chance >= 0.1 and self.world.put(number, text)
        if chance < 0.2:
            raise OSError("no answer")
        return done

    def remove_before(self, number: int) -> None:
        self.turn()
        self.world.remove_before(number)


@given(seed=st.integers(0, 2**32), drivers=st.integers(2, 4))
@settings(max_examples=300, deadline=None)
def test_no_two_drivers_work_in_one_term_and_no_earlier_one_after_a_later_one(seed: int, drivers: int) -> None:
    world = World(random.Random(seed), drivers)
    world.play(600)
    terms = [term for term, _ in world.works]
    assert terms == sorted(terms), "a driver worked after another one had taken the lease over"
    assert len({*world.works}) == len({*terms}), "two drivers worked in one term"
