"""Whatever standard output is, a command ends with a sentence or quietly, and never half."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def start(*words: str, out=subprocess.PIPE, before=None, **variables: str):
    return subprocess.run(
        [sys.executable, "-m", "recbench", *words],
        stdout=out, stderr=subprocess.PIPE, preexec_fn=before, text=True,
        env=os.environ | variables,
    )  # fmt: skip


LIST = ("list", "datasets")


def test_a_full_disk_behind_standard_output_is_one_sentence():
    with Path("/dev/full").open("w") as full:
        done = start(*LIST, out=full)
    assert done.returncode == 3
    assert done.stderr == "Error: the system refused to go on: No space left on device\n"


def test_a_reader_that_leaves_is_no_error_to_speak_of():
    source, sink = os.pipe()
    os.close(source)
    done = start(*LIST, out=sink)
    os.close(sink)
    assert (done.returncode, done.stderr) == (1, "")


def test_and_nobody_need_hear_of_it():
    source, sink = os.pipe()
    os.close(source)
    done = start("--help", out=sink, before=lambda: os.close(2))
    os.close(sink)
    assert done.returncode == 1


@pytest.mark.parametrize("number", [0, 1, 2])
def test_closed_streams_are_somewhere(number):
    done = start(*LIST, before=lambda: os.close(number))
    assert done.returncode == 0
    assert "Traceback" not in done.stderr


ONE_DESCRIPTOR_LEFT = """
import os, resource, sys
from recbench.cli import main
os.close(1)
sys.stdout = None
resource.setrlimit(resource.RLIMIT_NOFILE, (3, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
main(["--version"])
"""


def test_a_closed_stream_is_somewhere_with_no_descriptor_to_spare():
    words = [sys.executable, "-c", ONE_DESCRIPTOR_LEFT]
    done = subprocess.run(words, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_terminal_without_unicode_gets_the_same_json():
    words = ("list", "losses", "--json")
    plain, ascii_only = (start(*words, PYTHONIOENCODING=code) for code in ("utf-8", "ascii"))
    assert ascii_only.stdout.isascii()
    assert not plain.stdout.isascii()
    assert json.loads(ascii_only.stdout) == json.loads(plain.stdout)


def test_and_the_same_tables_in_what_it_has():
    done = start("list", "losses", PYTHONIOENCODING="ascii")
    assert done.returncode == 0, done.stderr
    assert "\\u03b1" in done.stdout  # α


def test_a_file_whose_name_is_no_text_is_data_like_others(folder):
    name = os.fsdecode(b"toy-\xff.csv")
    (folder / "toy.csv").rename(name)
    words = ["--data", name, "--user", "u", "--item", "i", "-m", "popularity", "-o", "out"]
    done = start("run", *words)
    assert done.returncode == 0, done.stderr
    assert start("show", "out").returncode == 0
    assert start("report", "out").returncode == 0
    assert r"toy-\xff" in (folder / "out" / "metrics.csv").read_text()
