import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from recbench.campaign.processes import _portable
from recbench.errors import DataError, RecbenchError

DEADLY = """
import multiprocessing
import os
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from recbench.models.base import Model
from recbench.registry import MODELS


def die():
    os.kill(os.getpid(), signal.SIGKILL)

{at_import}

@MODELS.register("deadly")
@dataclass(frozen=True)
class Deadly(Model):
    \"\"\"Does not outlive its fit.\"\"\"

    def fit(self, train, ctx):
        {in_fit}
"""
WAYS = {
    "killed": ("", "die()"),
    "killed while it starts": ("if multiprocessing.parent_process(): die()", "pass"),
    "leaves a program that holds its pipe": (
        "", "subprocess.Popen(['sleep', '300'], close_fds=False, stdout=-3, stderr=-3); die()"
    ),
}  # fmt: skip
RUN = ["run", "-d", "synthetic:users=3000,items=60,interactions=30000", "-j", "2"]


def start(folder: Path, text: str, *words: str) -> "subprocess.Popen[str]":
    (folder / "plugin.py").write_text(text)
    (folder / "temporary").mkdir()
    return subprocess.Popen(
        [sys.executable, "-m", "recbench", *RUN, "--plugin", "plugin.py", *words],
        env={**os.environ, "TMPDIR": str(folder / "temporary")}, text=True, cwd=folder,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_a_run_outlives_its_processes_and_says_how_they_ended(folder, way):
    at_import, in_fit = WAYS[way]
    text = DEADLY.format(at_import=at_import, in_fit=in_fit)
    run = start(folder, text, "-m", "deadly", "-m", "popularity", "-m", "ease")
    try:
        printed, told = run.communicate(timeout=60)
    finally:
        os.killpg(run.pid, signal.SIGKILL)  # the program that was left, or all that hangs
    assert run.returncode == 1, told
    assert "its process died (killed by SIGKILL), alone as in company" in told
    if at_import == "":
        assert "ease *" in printed
        assert "popularity *" in printed
    assert "Traceback" not in told
    assert "leaked" not in told
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.slow
def test_an_interrupt_ends_processes_without_a_word_of_theirs(folder):
    text = DEADLY.format(at_import="", in_fit="Path('begun').touch(); time.sleep(300)")
    run = start(folder, text, "-m", "deadly", "-m", "popularity")
    until = time.monotonic() + 60
    while not (folder / "begun").exists():
        assert time.monotonic() < until
        time.sleep(0.05)
    os.killpg(run.pid, signal.SIGINT)  # as a terminal does: all of them hear it
    _, told = run.communicate(timeout=60)
    assert run.returncode == 130
    assert "the same command goes on from there" in told
    assert "Traceback" not in told
    assert list((folder / "temporary").iterdir()) == []


@pytest.mark.slow
def test_processes_are_born_deaf_to_an_interrupt(folder):
    """Else one that comes while they load their libraries ends in a traceback of theirs."""
    mask = "Path(f'{os.getpid()}.mask').write_text(repr(signal.pthread_sigmask(0, [])))"
    at_import = f"if multiprocessing.parent_process(): {mask}"
    run = start(folder, DEADLY.format(at_import=at_import, in_fit="pass"), "-m", "popularity")
    run.communicate(timeout=60)
    masks = [path.read_text() for path in folder.glob("*.mask")]
    assert masks
    assert all("SIGINT" in mask for mask in masks)


class Odd(Exception):
    """Holds what cannot be sent."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.lock = threading.Lock()


def test_errors_arrive_as_what_they_are_or_as_what_they_say():
    known = pickle.loads(pickle.dumps(_portable(DataError("gone"))))
    assert (type(known), str(known)) == (DataError, "gone")
    assert not hasattr(known, "__notes__")
    try:
        raise ZeroDivisionError("one is none")  # noqa: TRY301
    except ZeroDivisionError as error:
        bug = pickle.loads(pickle.dumps(_portable(error)))
    assert "in test_errors_arrive" in bug.__notes__[0]
    odd = _portable(Odd("1 and 2"))
    assert (type(odd), str(odd)) == (RecbenchError, "Odd: 1 and 2")
