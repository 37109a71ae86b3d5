"""Readers of recbench do what all must; each of these breaks one rule."""

import pyarrow as pa
import pytest

from recbench.data.interactions import Interactions
from recbench.data.readers.contract import CONTRACT, check_reader
from recbench.errors import UsageError
from recbench.registry import READERS

LINES = {
    "adjacency": "1 10 11\n2 10 12\n",
    "delimited": "user,item\na,10\nb,11\n",
    "jsonl": '{"user": "a", "item": 1}\n{"user": "b", "item": 2}\n',
}


@pytest.mark.parametrize("name", LINES)
def test_readers_keep_the_contract(name, tmp_path):
    (tmp_path / "rows.txt").write_text(LINES[name])
    options = {} if name == "adjacency" else {"columns": {"user": "user", "item": "item"}}
    results = list(check_reader(READERS.get(name), [tmp_path / "rows.txt"], options))
    assert [f"{one.check}: {one.problem}" for one in results if one.problem] == []
    assert len(results) == len(CONTRACT.rules)


def simple(paths, options, limits=None):
    """What a first reader looks like."""
    rows = [line.split(",") for path in paths for line in path.read_text().splitlines()[1:]]
    users, items = zip(*rows, strict=True)
    return Interactions(pa.table({"user": pa.array(users), "item": pa.array(items)}))


def none(paths, options, limits=None):
    empty = pa.array([], pa.string())
    return Interactions(pa.table({"user": empty, "item": empty}))


def listing(paths, options, limits=None):
    return [line.split(",") for path in paths for line in path.read_text().splitlines()]


def writing(paths, options, limits=None):
    paths[0].write_bytes(paths[0].read_bytes() + b"c,12\n")
    return simple(paths, options)


def strict(paths, options, limits=None):
    if options:
        raise UsageError("no such option")
    return simple(paths, options)


@pytest.mark.parametrize(
    ("read", "check", "says"),
    [
        (none, "Rows of users", "no rows in"),
        (listing, "Rows of users", "returned list, not Interactions"),
        (writing, "The same files", "they give other rows"),
        (strict, "A file that is cut", "a file of 0 bytes raises ValueError"),
        (none, "A file that is not there", "it reads a file that is not there"),
        (simple, "An option", "`no-such-option` is taken without a word"),
    ],
)
def test_what_breaks_a_rule_is_told_which(read, check, says, tmp_path):
    (tmp_path / "rows.txt").write_text(LINES["delimited"])
    failed = {o.check: o.problem for o in check_reader(read, [tmp_path / "rows.txt"]) if o.problem}
    (problem,) = [text for name, text in failed.items() if name.startswith(check)]
    assert says in problem
    assert "An option that it does not know is refused" not in failed or read is not strict
