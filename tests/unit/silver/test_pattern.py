"""The capturing groups of a Java regular expression are numbered as Java numbers them."""

import pytest

from oncelake.silver.parsing.pattern import Groups, groups, whole_line


@pytest.mark.parametrize(
    ("pattern", "count", "names"),
    [
        ("", 0, {}),
        ("(a)(?<b>c)", 2, {"b": 2}),
        ("(?<a>(?<b>x)(y))(?<c>z)", 4, {"a": 1, "b": 2, "c": 4}),
        (r"\((?<a>x)\)", 1, {"a": 1}),
        (r"\\(?<a>x)", 1, {"a": 1}),
        (r"\\\((?<a>x)", 1, {"a": 1}),
        ("(?:a)(?=b)(?!c)(?<=d)(?<!e)(?>f)(?<g>h)", 1, {"g": 1}),
        ("(?i)(?<a>x)(?s-m:y)(?-i:z)(?<b>w)", 2, {"a": 1, "b": 2}),
        ("[(](?<a>x)[)]", 1, {"a": 1}),
        ("[](](?<a>x)", 1, {"a": 1}),
        ("[^](](?<a>x)", 1, {"a": 1}),
        (r"[\](](?<a>x)", 1, {"a": 1}),
        ("[a-z&&[^(]](?<a>x)", 1, {"a": 1}),
        ("[[(]|(](?<a>x)", 1, {"a": 1}),
        (r"\Q(?<no>\E(?<a>x)", 1, {"a": 1}),
        (r"[\Q](\E](?<a>x)", 1, {"a": 1}),
        (r"(?=(x))(?<a>y)", 2, {"a": 2}),
    ],
)
def test_groups_are_counted_by_their_opening_parenthesis(pattern: str, count: int, names: dict[str, int]) -> None:
    assert groups(pattern) == Groups(count, names)


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("(a", "never closed"),
        ("a)(b", "closes nothing (at character 1)"),
        ("[a", "never closed (at character 0)"),
        ("[]", "never closed"),
        ("a\\", "single backslash"),
        (r"a\Qb", r"\Q without its \E (at character 1)"),
        ("(?<a>x)(?<a>y)", "two groups named a"),
        ("(?<log_msg>x)", "has the group log_msg (at character 0); names have letters and digits, a letter first"),
        ("x(?P<a>y)", "has a group in Python's form (at character 1); write (?<name>...), without the P"),
        ("(?<1a>x)", "has the group 1a (at character 0); names have letters and digits, a letter first"),
        ("(?P<a>x)", "has a group in Python's form"),
        ("(?x)(?<a>x) # (", "comments"),
    ],
)
def test_an_invalid_pattern_is_refused_with_its_place(pattern: str, said: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 - the words are compared below
        groups(pattern)
    assert said in str(caught.value)


def test_whole_line_adds_no_group() -> None:
    assert groups(whole_line("(?<a>x)|(y)")) == groups("(?<a>x)|(y)")
