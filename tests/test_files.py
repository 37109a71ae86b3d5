import os
import subprocess
import sys

import pytest

from recbench.files import atomic_path, clear_leftovers, readable


def test_a_file_appears_whole_or_not_at_all(tmp_path):
    path = tmp_path / "numbers.csv"
    with atomic_path(path) as temporary:
        temporary.write_text("1")
        assert not path.exists()
    assert path.read_text() == "1"

    def fail() -> None:
        with atomic_path(path) as temporary:
            temporary.write_text("half")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "1"
    assert [found.name for found in tmp_path.iterdir()] == ["numbers.csv"]


def test_an_error_names_the_file_that_was_asked_for(tmp_path):
    path = tmp_path / "missing" / "numbers.csv"
    with pytest.raises(OSError, match="numbers") as caught, atomic_path(path) as temporary:
        temporary.write_text("1")
    assert caught.value.filename == str(path)


def test_what_the_dead_left_is_removed_and_what_the_living_write_is_not(tmp_path):
    code = (
        "import os, sys; from pathlib import Path; from recbench.files import atomic_path\n"
        "with atomic_path(Path(sys.argv[1]) / 'lost') as path:\n"
        "    path.write_text('half'); os._exit(9)\n"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert len(list(tmp_path.iterdir())) == 1
    with atomic_path(tmp_path / "mine") as mine:
        mine.write_text("still at it")
        clear_leftovers(tmp_path)
        assert list(tmp_path.iterdir()) == [mine]


def test_a_name_that_is_no_text_can_be_read():
    assert readable("toy-ä.csv") == "toy-ä.csv"
    assert readable(os.fsdecode(b"toy-\xff.csv")) == r"toy-\xff.csv"
