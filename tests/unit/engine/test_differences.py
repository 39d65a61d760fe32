"""Differences of rules are named by key, in words, without secrets."""

from typing import Any

import pytest

from oncelake.engine.differences import differences, differing_rules, sides

FORMAT = {"time": ["iso8601"], "pattern": "^(?<message>.*)$"}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": 1}, {"a": 2}, ["a: 1 becomes 2"]),
        ({}, {"a": {"b": True, "c": ["x", "y"]}}, ["a: added, b true, c x, y"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2}}, ["a.b: removed; it was 1"]),
        ({"a": {"b": 1, "c": 2}}, {"a": {"c": 2, "b": 1}}, []),
        (
            {"source": {"kafka": {"x": "old"}}},
            {"source": {"kafka": {"x": "new"}}},
            ["source.kafka.x: changed (not shown)"],
        ),
        (
            {"sources": {"x": {"auto_loader": {"clientSecret": "old"}}}},
            {"sources": {"x": {"auto_loader": {"clientSecret": "new"}}}},
            ["sources.x.auto_loader.clientSecret: changed (not shown)"],
        ),
        ({}, {"serving": {"url": "sqlite://", "mode": "m"}}, ["serving: added, url (not shown), mode m"]),
        ({"alerts": {"a": {"to": "old"}}}, {"alerts": {"a": {"to": "new"}}}, ["alerts.a.to: changed (not shown)"]),
    ],
)
def test_each_key_that_differs_is_said_once(before: dict[str, Any], now: dict[str, Any], said: list[str]) -> None:
    assert [str(difference) for difference in differences(before, now)] == said


def test_both_sides_of_a_declaration_name_what_one_of_them_lacks() -> None:
    changed = differences({"where": "x", "every": "1 day"}, {"every": "1 hour"})
    assert sides(changed) == ("every 1 hour, where not set", "every 1 day, where x")


def test_formats_are_compared_source_by_source() -> None:
    zoned = {**FORMAT, "zone": "Europe/Paris"}
    keys = differing_rules([FORMAT, FORMAT, {}], [zoned, {"ahead": "P2D"}], ["web", "app"], ["web"])
    assert [str(key) for key in keys] == ["format.zone: UTC becomes Europe/Paris", "ahead: P1D becomes P2D"]


def test_a_key_of_a_mask_is_not_shown_and_its_change_is() -> None:
    rule = {"name": "email", "pattern": "@", "group": 0, "fields": ["value"], "text": "", "hashed": 16}
    mask = {"rules": [rule], "key_variable": "KEY", "key_id": "one"}
    (changed,) = differing_rules([mask], [{**mask, "key_id": "two"}], [], [])
    assert str(changed) == "mask.key_id: changed (not shown)"
    (added,) = differing_rules([], [mask], [], [])
    assert str(added) == (
        "mask: added, email pattern @, fields value, hashed 16, key_variable (not shown), key_id (not shown)"
    )
