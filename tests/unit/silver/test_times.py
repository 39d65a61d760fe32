"""A datetime pattern or zone that cannot work is refused before any line is read."""

import re

import pytest

from oncelake.common.time_zone import checked_zone
from oncelake.silver.parsing.times import checked, names_year, names_zone, signed_year


@pytest.mark.parametrize(
    "pattern",
    [
        "yyyy-MM-dd HH:mm:ss",
        "yyyy-MM-dd'T'HH:mm:ss[.SSS]XXX",
        "MMM d HH:mm:ss",
        "yyyyMMdd-HHmmss",
        "uuuu-DDD HH:mm",
        "d 'o''clock' M yy",
        "epoch_seconds",
        "epoch_millis",
        "iso8601",
    ],
)
def test_a_valid_pattern_is_accepted(pattern: str) -> None:
    assert checked(pattern) == pattern


@pytest.mark.parametrize(
    ("pattern", "said"),
    [
        ("EEE MMM dd HH:mm:ss yyyy", "keep that part of the line outside the time group"),
        ("yyyy QQQ dd MM", "keep that part"),
        ("YYYY-MM-dd", "YYYY; write the year as yyyy and the day as dd"),
        ("%Y-%m-%d", "has %; a pattern has letters, such as yyyy-MM-dd"),
        ("ISO8601", "write iso8601 in small letters"),
        ("yyyy-MM-ddTHH:mm:ss", "T, which is not a datetime pattern letter; quote text like 'T'"),
        ("HH:mm:ss", "has no month and day"),
        ("yyyy-MM-dd HH:mm:ss[XXX]", "optional zone"),
        ("[yyyy-]MM-dd", "optional year"),
        ("yyyy-[MM-dd]", "optional month"),
        ("y-MM-dd", "write the year as yyyy or yy"),
        ("yyyy-MM-dd 'at HH", "never closed"),
        ("yyyy-MM-dd [HH:mm", "never closed"),
    ],
)
def test_a_pattern_that_cannot_work_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        checked(pattern)


def test_year_and_zone_are_found_outside_quotes_only() -> None:
    assert names_year("MMM d yyyy")
    assert not names_year("MMM d 'yyyy'")
    assert names_zone("dd/MMM/yyyy:HH:mm:ss Z")
    assert not names_zone("yyyy-MM-dd'Z'")


@pytest.mark.parametrize(
    ("pattern", "signed", "plain"),
    [
        ("yyyy-MM-dd HH:mm:ss", "+999999999-07-29 17:41:44", "2017-07-29 17:41:44"),
        ("yyyyMMdd-HHmmss", "-999999999-140908", "20170730-140908"),
        ("dd-MM-yyyyHHmmss", "30-07--9999999990908", "30-07-2017140908"),
        ("ddMMyyyy", "3007+999999999", "30072017"),
        ("MMM dd HH:mm:ss yyyy Z", "Dec 04 04:47:44 +999999999 +0200", "Dec 04 04:47:44 2005 +0200"),
        ("MMM dd HH:mm:ss XXX yyyy", "Dec 04 04:47:44 +02:00 -999999999", "Dec 04 04:47:44 +02:00 2005"),
        ("HH:mm[:ss[.SSS]] dd.MM.yyyy", "04:47:44.1 04.12.+999999999", "04:47 04.12.2005"),
    ],
)
def test_a_signed_year_is_distinguished_from_other_signs(pattern: str, signed: str, plain: str) -> None:
    assert re.search(signed_year(pattern), signed)
    assert not re.search(signed_year(pattern), plain)


@pytest.mark.parametrize("zone", ["UTC", "Europe/Paris", "+02:00", "-09:30", "+18:00"])
def test_an_existing_zone_is_accepted(zone: str) -> None:
    assert checked_zone(zone) == zone


@pytest.mark.parametrize("zone", ["Mars/Base", "", "+2", "+19:00", "+02:60", "posix/UTC", "../etc/passwd"])
def test_unknown_zone_is_refused(zone: str) -> None:
    with pytest.raises(ValueError, match="must be a time zone such as"):
        checked_zone(zone)
