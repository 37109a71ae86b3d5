"""The campaign files of papers' tables name what there is."""

from pathlib import Path

import pytest

FILES = sorted((Path(__file__).resolve().parents[1] / "scripts" / "tables").glob("*.yaml"))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_table_can_be_planned(path, recbench):
    small = "synthetic:users=60,items=30,interactions=900"
    result = recbench("run", "-c", str(path), "-d", small, "--dry-run", "-o", "out")
    assert result.exit_code == 0, result.output
    assert "out of range" not in result.output
    assert " trials in " in result.output
