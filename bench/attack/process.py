"""Processes of recbench: whole ones, and copies of this one, which is loaded already.

Most of a short command is Python and its libraries being loaded: a copy begins in milliseconds, so
that there can be many. What happens before recbench is loaded and after its last line is not seen
this way, and needs a whole process.
"""

import codecs
import ctypes
import os
import select
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NoReturn

CLONE_NEWNS = 0x20000
UNFLUSHED = 120
"""What Python ends with if its last words cannot be written."""


@dataclass
class Start:
    """How a process begins."""

    words: Sequence[str]
    whole: bool = True
    mounts: list[str] = field(default_factory=list)
    """Lines of a shell that mount disks which nobody else sees."""
    within: str = "."
    """The folder to be in, when they are mounted."""
    environment: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    before: list[Callable[[], None]] = field(default_factory=list)
    """Called in the process when its streams are there."""
    out: int | None = None
    """Where standard output goes: nowhere, if nobody says."""


class Process:
    """A command at work, in a session of its own."""

    def __init__(self, start: Start) -> None:
        """Begin."""
        self.returncode: int | None = None
        self.pieces = list[bytes]()
        self.source, sink = os.pipe()  # no file: a process may be forbidden to write one
        os.set_blocking(self.source, False)
        sys.stdout.flush()
        self.pid = os.fork()
        if not self.pid:
            _be(start, sink)
        os.close(sink)
        self.watch = os.pidfd_open(self.pid)
        while os.getsid(self.pid) != self.pid and not self.wait(0.001):
            pass  # signals to its group would find nobody yet

    def wait(self, timeout: float | None = None) -> bool:
        """Whether it ended in so many seconds."""
        until = None if timeout is None else time.monotonic() + timeout
        listening = [self.watch, self.source]
        while self.returncode is None:
            left = None if until is None else max(0.0, until - time.monotonic())
            ready = select.select(listening, [], [], left)[0]
            if self.source in ready and not self._hear():
                listening.remove(self.source)
            if self.watch in ready:
                self.returncode = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
                os.close(self.watch)
            elif not ready:
                return False
        return True

    def _hear(self) -> bool:
        """Whether it said something."""
        with suppress(BlockingIOError):
            self.pieces.append(os.read(self.source, 1 << 16))
            return bool(self.pieces[-1])
        return False

    def end(self) -> None:
        """See that nothing of it and of what it began is left."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        self.wait()

    def said(self) -> str:
        """What it wrote to standard error; to be asked once, when it has ended."""
        while self._hear():
            pass
        os.close(self.source)
        return b"".join(self.pieces).decode("utf-8", "replace")


def _be(start: Start, err: int) -> NoReturn:
    code: Any = 1
    try:
        os.setsid()
        out = os.open(os.devnull, os.O_WRONLY) if start.out is None else start.out
        for number, stream in enumerate((os.open(os.devnull, os.O_RDONLY), out, err)):
            os.dup2(stream, number)
        codecs.lookup(start.environment.get("PYTHONIOENCODING", "utf-8"))  # as Python has by now
        if start.mounts:
            _apart(start.mounts)
            os.chdir(start.within)
        for step in start.before:
            step()
        if start.whole:
            words = [sys.executable, "-m", "recbench", *start.words]
            os.execve(words[0], words, dict(start.environment))
        os.environ.clear()
        os.environ.update(start.environment)
        sys.stdout, sys.stderr = _stream(1, "strict"), _stream(2, "backslashreplace")
        code = _main(start.words)
        for stream in filter(None, (sys.stderr, sys.stdout)):
            try:
                stream.flush()
            except OSError:
                code = UNFLUSHED
    except BaseException:  # noqa: BLE001 - what escapes is what Python would print
        with suppress(BaseException):
            traceback.print_exc()
            sys.stderr.flush()
    finally:
        os._exit(code if isinstance(code, int) else int(code is not None))


def _apart(mounts: Sequence[str]) -> None:
    """Mount what no other process sees; Python has no word for that before 3.12."""
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "no mounts of its own")
    lines = ["mount --make-rprivate /", *mounts]
    subprocess.run(["sh", "-ec", "; ".join(lines)], check=True, stdout=subprocess.DEVNULL)


def _stream(number: int, errors: str) -> Any:
    """A standard stream as Python would begin with it; None if it is closed."""
    try:
        encoding = os.environ.get("PYTHONIOENCODING") or "utf-8"
        return open(number, "w", closefd=False, encoding=encoding, errors=errors)
    except OSError:
        return None


def _main(words: Sequence[str]) -> Any:
    from recbench.cli import main

    try:
        main([*words], prog_name="recbench")
    except SystemExit as end:
        return end.code
    return 0
