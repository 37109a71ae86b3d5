"""A small fixed corpus of damaged files; bench/attack makes as many as wanted."""

import importlib
import random

import pytest
import raw

from recbench.data.readers.archive import Limits
from recbench.errors import DataError

LIMITS = Limits(max_bytes=1 << 26, max_line=1 << 16)


def outcome(read, paths, options):
    """'' if the files can be read, else the sentence that says why not."""
    try:
        rows = read(paths, options, LIMITS)
    except DataError as error:
        return str(error)
    return "" if len(rows) else "no rows, and no error"


@pytest.mark.parametrize("name", raw.SAMPLES)
def test_a_damaged_file_is_read_or_refused_in_one_sentence(tmp_path, name):
    sample = raw.SAMPLES[name]
    read = importlib.import_module(f"recbench.data.readers.{sample.reader.replace('-', '_')}").read
    said = []
    for seed in range(15):
        paths = raw.put(sample.damaged(random.Random(seed)), tmp_path)
        said.append(outcome(read, paths, sample.options))
    assert sum(map(bool, said)) > 2
    assert not [text for text in said if "\n" in text or len(text) > 600 or "no rows" in text]
