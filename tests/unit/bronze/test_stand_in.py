"""The bytes of collected rows: a stand-in counts with those that it stands for."""

import pyarrow
import pytest
from pydantic import ValidationError

from oncelake.bronze.settings import SourceSettings
from oncelake.bronze.stand_in import collected_lengths


def test_a_collected_stand_in_has_the_bytes_that_it_stands_for() -> None:
    entries = [None, [{"key": "oncelake.bytes", "value": b"5000000000"}], [{"key": "oncelake.bytes", "value": b"2"}]]
    of_headers = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))
    rows = pyarrow.table({"value": [b"line", b"\0", b"\0"], "headers": pyarrow.array(entries, of_headers)})
    assert collected_lengths(rows).to_pylist() == [4, 4_999_999_999, 1]
    assert collected_lengths(rows.slice(0, 1)).to_pylist() == [4]


@pytest.mark.parametrize("size", ["1023", "2GiB"])
def test_a_bound_below_what_a_stand_in_keeps_or_above_what_fits_into_a_row_is_refused(size: str) -> None:
    with pytest.raises(ValidationError, match="max_line"):
        SourceSettings.model_validate({"path": "logs", "max_line": size})
    assert SourceSettings.model_validate({"path": "logs", "max_line": "1KiB"}).max_line == 1024
