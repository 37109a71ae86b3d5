"""What the system, libraries and plugins raise, as sentences."""

import errno
import sys

import click
import pyarrow as pa
import pytest

from recbench.cli import known_error
from recbench.errors import DataError, UsageError


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (DataError("no data"), "no data"),
        (SystemExit(0), "a plugin, or what it imports, ended the program (sys.exit(0))"),
        (MemoryError("of 9 GB"), "there is not enough memory (of 9 GB)"),
        (pa.ArrowMemoryError("of 9 GB"), "there is not enough memory (of 9 GB)"),
        (
            RuntimeError("can't start new thread"),
            "there is not enough memory (can't start new thread)",
        ),
        (ImportError("failed to map"), "a library cannot be loaded (failed to map)"),
        (GeneratorExit("x"), "a plugin, or what it imports, raised GeneratorExit: x"),
    ],
)
def test_what_is_known_is_a_sentence(error, says):
    assert str(known_error(error)) == says


@pytest.mark.parametrize("error", [KeyError("x"), click.UsageError("x"), ValueError("x")])
def test_what_is_not_is_none(error):
    assert known_error(error) is None


def test_a_name_that_cannot_be_written_is_named():
    with pytest.raises(UnicodeEncodeError) as caught:
        "toy-\udcff".encode()
    known = known_error(caught.value)
    assert isinstance(known, UsageError)
    assert str(known) == r"'toy-\udcff' is not UTF-8; give it another name"


def test_what_the_system_refuses_is_one_sentence(recbench, monkeypatch):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device", "x.parquet")

    monkeypatch.setattr("recbench.cli.common.print_json", full)
    monkeypatch.setitem(sys.modules, "recbench.cli.list", None)
    monkeypatch.delitem(sys.modules, "recbench.cli.list")
    result = recbench("list", "metrics", "--json")
    assert result.exit_code == 3
    assert result.stderr.startswith(
        "Error: the system refused to go on: No space left on device (x.parquet)"
    )
