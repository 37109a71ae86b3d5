"""What wrong commands are told: wrong_commands.yaml, which docs/wrong-commands.md shows."""

import importlib.util
import sys
from pathlib import Path

import pytest

from recbench.cli import COMMANDS

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_wrong_commands.py"
spec = importlib.util.spec_from_file_location("make_wrong_commands", SCRIPT)
made = sys.modules["make_wrong_commands"] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(made)

TABLE = made.table()


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """The folder that the commands are typed in."""
    folder = tmp_path_factory.mktemp("world")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setenv("RECBENCH_HOME", str(folder / "home"))
        made.world(folder)
    return folder


@pytest.mark.parametrize("wrong", TABLE, ids=lambda wrong: wrong.typed)
def test_a_wrong_command_is_told_what_to_type_next(wrong, world, monkeypatch):
    monkeypatch.chdir(world)
    monkeypatch.setenv("RECBENCH_HOME", str(world / "home"))
    result = made.typed(wrong.typed)
    assert made.said(result) == wrong.says
    assert result.exit_code == wrong.exit
    assert wrong.next
    assert wrong.next in wrong.says
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_the_table_has_every_command_and_many_mistakes():
    assert len({wrong.typed for wrong in TABLE}) == len(TABLE) >= 75
    assert {wrong.typed.split()[1] for wrong in TABLE} >= {*COMMANDS}
    assert {wrong.exit for wrong in TABLE} == {2, 3}


def test_the_page_is_what_the_table_says():
    assert made.TARGET.read_text(encoding="utf-8") == made.page(), f"run {SCRIPT}"
