"""Own data with a column of times, through the command line."""

import json

import numpy as np
import pytest


@pytest.fixture
def timed(folder):
    """A file of purchases with dates, not in order of time."""
    rng = np.random.default_rng(0)
    lines = []
    for user in range(40):
        items = rng.choice(20, size=8, replace=False)
        days = np.sort(rng.integers(1, 28, size=8))
        lines += [
            f"u{user},i{item},2024-03-{day:02}" for item, day in zip(items, days, strict=True)
        ]
    rng.shuffle(lines)
    path = folder / "purchases.csv"
    path.write_text("who,what,when\n" + "\n".join(lines) + "\n")
    return ["--data", str(path), "--user", "who", "--item", "what", "--time", "when"]


@pytest.mark.parametrize("split", ["last", "temporal", "temporal[test=2024-03-20]"])
def test_own_data_are_split_by_their_times(split, timed, recbench, folder):
    result = recbench(
        "run", *timed, "--split", split, "-m", "popularity", "-m", "ease", "-o", "out", "--json"
    )
    assert result.exit_code == 0, result.output
    rows = json.loads(result.stdout)[-1]["rows"]
    assert {row["model"] for row in rows} == {"ease", "popularity"}
    header = json.loads((folder / "out" / "manifest.json").read_text())
    assert split.split("[")[0] in json.dumps(header)
    again = recbench(
        "run", *timed, "--split", split, "-m", "popularity", "-m", "ease", "-o", "out", "--json"
    )
    assert "2 finished trials found, 0 to run" in again.stderr


def test_without_times_nothing_is_split_by_time(timed, recbench):
    result = recbench("run", *timed[:-2], "--split", "last", "-m", "popularity")
    assert result.exit_code == 2
    assert "--time" in result.stderr
    assert "last[by=file]" in result.stderr
