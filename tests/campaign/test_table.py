"""A log as csv."""

import pandas as pd
import pytest

from recbench.campaign.table import csv_text, table
from toys import ROW, trial


@pytest.mark.parametrize("name", ["=1+1", "+1", "-x", "@sum(a1)", "\tx"])
def test_a_name_that_a_spreadsheet_would_compute_is_marked_as_text(name):
    frame = pd.DataFrame({"model": [name, "ease"], "value": [-1.5, 2.0]})
    first, second = csv_text(frame).splitlines()[1:]
    assert first == f"'{name},-1.5"
    assert second == "ease,2.0"


def test_a_reason_with_codes_for_the_terminal_has_none_any_more():
    frame = pd.DataFrame({"reason": ["\x1b[31mred\x9b", "two\nlines"]})
    assert csv_text(frame) == 'reason\n?[31mred?\n"two\nlines"\n'


def test_numbers_and_what_is_missing_are_as_they_were():
    frame = table([ROW, trial(2, -0.25)], "ndcg@20")
    assert csv_text(frame) == frame.to_csv(index=False)
