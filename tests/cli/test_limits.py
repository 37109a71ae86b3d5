"""A limit on the addresses of a process: whatever a library does there, a command has an end."""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

LIMIT = 3_000_000_000
PLUGIN = """
import os, signal, sys, time
{what}
"""


def words(folder: Path, what: str, *before: str) -> list[str]:
    """A command that loads a plugin which does this."""
    plugin = folder / "plugin.py"
    plugin.write_text(PLUGIN.format(what=what))
    return [sys.executable, "-m", "recbench", *before, "list", "models", "--plugin", str(plugin)]


def childless() -> None:
    """As some that start programs do, who want to hear of no end."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    limit()


def limit() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (LIMIT, LIMIT))


def run(command: list[str], before=limit) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, preexec_fn=before, timeout=60)


@pytest.mark.parametrize("what", ["os.abort()", "os._exit(127)"])
def test_a_library_that_ends_the_process_is_a_sentence(tmp_path, what):
    done = run(words(tmp_path, what))
    assert done.returncode == 1
    assert done.stderr == (
        "Error: there is not enough memory: a library ended the program, which may have 3,000 MB "
        "of addresses (`ulimit -v`)\n"
    )
    assert run(words(tmp_path, what), before=None).returncode in (-signal.SIGABRT, 127)


def test_all_else_is_as_without_a_limit(tmp_path):
    for command in (
        words(tmp_path, ""), words(tmp_path, "raise ValueError('x')"),
        [sys.executable, "-m", "recbench", "lits"],
        words(tmp_path, "os.kill(os.getpid(), signal.SIGKILL)"),
        words(tmp_path, "os.kill(os.getpid(), signal.SIGTERM)"),
    ):  # fmt: skip
        free, held = run(command, before=None), run(command)
        assert (held.returncode, held.stdout, held.stderr) == (
            free.returncode, free.stdout, free.stderr,
        )  # fmt: skip


def test_an_end_is_heard_of_by_who_was_started_to_hear_of_none(tmp_path):
    assert run([sys.executable, "-m", "recbench", "--version"], before=childless).returncode == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_nobody_is_left_behind(tmp_path, number):
    note = tmp_path / "pid"
    waits = f"open({str(note)!r}, 'w').write(str(os.getpid())); time.sleep(60)"
    with subprocess.Popen(words(tmp_path, waits), preexec_fn=limit) as process:
        until = time.monotonic() + 20
        while not (note.exists() and note.read_text()) and time.monotonic() < until:
            time.sleep(0.01)
        child = int(note.read_text())
        assert child != process.pid
        process.send_signal(number)
        assert process.wait(20) == -number
    until = time.monotonic() + 20
    while Path(f"/proc/{child}").exists() and "Z" not in _state(child):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_an_interrupt_reaches_whoever_works(tmp_path):
    note = tmp_path / "note"
    waits = f"open({str(note)!r}, 'w').write('x'); time.sleep(60)"
    ends = []
    for before in (limit, None):
        note.unlink(missing_ok=True)
        with subprocess.Popen(
            words(tmp_path, waits), preexec_fn=before, stderr=subprocess.PIPE, text=True
        ) as process:
            until = time.monotonic() + 20
            while not (note.exists() and note.read_text()) and time.monotonic() < until:
                time.sleep(0.01)
            process.send_signal(signal.SIGINT)
            _, told = process.communicate(timeout=20)
            ends.append((process.returncode, told))
    assert ends[0] == ends[1]
    assert ends[0][0] != 0


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
