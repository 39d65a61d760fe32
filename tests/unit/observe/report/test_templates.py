"""Messages that differ only in values have one template, whatever their order; long ones cost no more time."""

import random
import time

import pytest

from oncelake.observe.report.templates import LONGEST, grouped, template_of


@pytest.mark.parametrize(
    ("message", "template"),
    [
        ("payment 17 declined: card expired", "payment <n> declined: card expired"),
        ("took 12.5ms, 1,024 rows, 99 %", "took <n>ms, <n> rows, <n> %"),
        ("range 10-20 of [3]", "range <n>-<n> of [<n>]"),
        ("user \"Eve ' x\" not in 'a b'", "user <text> not in <text>"),
        ("can't open it, isn't there", "can't open it, isn't there"),
        ("at 0x7fffe3 of deadbeef01", "at <hex> of <hex>"),
        ("request 123e4567-e89b-12d3-a456-426614174000 failed", "request <id> failed"),
        ("from 10.0.0.7:8080 to 10.0.0.8", "from <ip> to <ip>"),
        ("since 2026-11-20T14:30:05.123Z and 2026-11-20", "since <time> and <time>"),
        ("worker-12 and us-east-1 and order_77x", "worker-<n> and us-east-<n> and <id>"),
        ("first  line\nsecond 12", "first line"),
        ("", ""),
        ("no value here", "no value here"),
    ],
)
def test_values_in_a_message_become_placeholders(message: str, template: str) -> None:
    assert template_of(message) == template


def test_messages_are_counted_by_template_with_the_most_frequent_as_example() -> None:
    groups = grouped(["disk 1 is full", "disk 2 is full", "disk 2 is full", "timeout"])
    assert [(group.template, group.count, group.example) for group in groups] == [
        ("disk <n> is full", 3, "disk 2 is full"),
        ("timeout", 1, "timeout"),
    ]


def test_one_word_that_differs_in_three_messages_is_a_value() -> None:
    names = [f"user {name} was locked out" for name in ("anna", "bert", "carl")]
    assert [group.template for group in grouped(names)] == ["user <*> was locked out"]
    assert len(grouped(names[:2])) == 2, "two kinds of message may differ in one word"
    assert len(grouped(["disk is full", "disk is gone", "disk is slow"])) == 3, "too few words to be one kind"


def test_the_order_of_messages_changes_nothing() -> None:
    messages = [f"user {name} failed {what}" for name in ("a", "b", "c", "d") for what in ("login", "logout", "to pay")]
    messages += [f"user {name} failed login" for name in "aab"]
    expected = grouped(messages)
    for seed in range(5):
        random.Random(seed).shuffle(messages)
        assert grouped(messages) == expected
    assert sum(group.count for group in expected) == len(messages)


@pytest.mark.parametrize("part", ["a", "1", "-", "'", '"', "a1-", "0x", "1.", "deadbeef-", "<n>", " "])
def test_a_message_that_is_hard_to_match_costs_no_time(part: str) -> None:
    began = time.process_time()
    for _ in range(20):
        template_of(part * 100_000)
    assert time.process_time() - began < 2
    assert template_of("x" * LONGEST + " 7") == "x" * LONGEST
