"""Notebooks show text from a log as text, whatever it contains."""

import pandas as pd

from oncelake.lab.plots import plain, table

HOSTILE = "<script>alert(1)</script> <b>bold</b> & more"


def test_text_from_a_log_is_not_layout_in_a_plot() -> None:
    assert plain(HOSTILE) == "&lt;script&gt;alert(1)&lt;/script&gt; &lt;b&gt;bold&lt;/b&gt; &amp; more"


def test_text_from_a_log_is_not_html_in_a_table() -> None:
    page = table(pd.DataFrame({HOSTILE: [HOSTILE]}, index=[HOSTILE])).to_html()
    assert "<script>" not in page
    assert "<b>" not in page
    assert page.count("&lt;script&gt;") == 3


def test_only_marked_cells_have_a_background() -> None:
    frame = pd.DataFrame({"before": ["1", "2"], "after": ["1", "3"]})
    differs = frame["before"] != frame["after"]
    page = table(frame, pd.DataFrame({"before": differs, "after": differs})).to_html()
    marked = page.split("background-color")[0]
    assert all(f"row1_col{column}" in marked and f"row0_col{column}" not in marked for column in (0, 1))
