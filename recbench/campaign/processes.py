"""Processes of this machine, each of which works on one group after the other.

A process has a pipe of its own, and a thread here waits at its other end. So one that is killed,
at whatever moment, also while it starts, loses the group it was at and disturbs nothing else.

The pool of `concurrent.futures` stops all its processes when one dies. Up to Python 3.11 that may
never end: what a process is told when it starts goes through a pipe whose far end the parent holds
too, so nobody notices that the reader is gone.
"""

import os
import pickle
import queue
import shutil
import signal
import tempfile
import threading
import traceback
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context, parent_process, resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import SpawnProcess
from pathlib import Path
from typing import Any

from recbench.campaign.executors import Parcel, Pending, WorkerDied, settle_in, work_on
from recbench.campaign.slots import Listener, Said, Slot
from recbench.campaign.tasks import Task
from recbench.campaign.worker import Job, Outcome
from recbench.errors import RecbenchError

SPAWN = get_context("spawn")
LOOK = 0.5
"""Seconds between looks at whether a silent process is alive: the pipe of one that died may be held
open by programs that it had started."""
LEAVE = 5.0
"""Seconds for a process to end by itself."""


@dataclass
class _Seat:
    """The place of one process at a time."""

    number: int
    process: SpawnProcess | None = None
    pipe: "Connection[Any, Any] | None" = None

    def ask(self, message: bytes) -> bytes:
        """Send something and wait for the answer."""
        assert self.process is not None
        assert self.pipe is not None
        with suppress(EOFError, OSError):
            self.pipe.send_bytes(message)
            while self.process.is_alive() or self.pipe.poll():
                if self.pipe.poll(LOOK):
                    return self.pipe.recv_bytes()
        raise WorkerDied(self.clear())

    def clear(self) -> str:
        """Have the process ended, if it did not, and say how it did."""
        process, pipe = self.process, self.pipe
        self.process = self.pipe = None
        if process is None or process.pid is None or pipe is None:
            return ""
        with suppress(OSError):
            pipe.send_bytes(b"")
        process.join(LEAVE)
        with suppress(ProcessLookupError):  # programs that it has started, and not waited for
            os.killpg(process.pid, signal.SIGKILL)
        process.kill()
        process.join()
        pipe.close()
        code = process.exitcode or 0
        names = {number.value: number.name for number in signal.Signals}
        return f"killed by {names.get(-code, -code)}" if code < 0 else f"exit code {code}"


@dataclass
class Processes:
    """Works in N processes of this machine; a process that dies takes no other's work along."""

    parcel: Parcel
    slots: int
    _closed: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)
    """Held while a process is started, so that none is when all are being ended."""
    weighs = False

    def __post_init__(self) -> None:
        """Make room; processes are started when there is work for them."""
        self._folder = tempfile.TemporaryDirectory(prefix="recbench-slots-")
        self._listener = Listener(Path(self._folder.name))
        self._seats = [_Seat(number) for number in range(self.slots)]
        self._free = queue.LifoQueue[_Seat]()  # few of them are started for little work
        for seat in reversed(self._seats):
            self._free.put(seat)
        self._threads = ThreadPoolExecutor(self.slots)

    def takes(self, task: Task, ahead: Sequence[Task], running: int) -> bool:
        """As many as there are processes."""
        return running < self.slots

    def heard(self) -> Iterable[Said]:
        """What the processes noted."""
        return self._listener.heard()

    def crew(self) -> Sequence[Mapping[str, Any]]:
        """This machine alone."""
        return ()

    def submit(self, job: Job) -> Pending:
        """Hand a group to a process that has none."""
        return self._threads.submit(self._have_done, pickle.dumps(job))

    def _have_done(self, job: bytes) -> list[Outcome]:
        seat = self._free.get()
        try:
            if seat.process is None:
                self._start(seat)
                seat.ask(pickle.dumps(self.parcel))
            answer = seat.ask(job)
        finally:
            self._free.put(seat)
        outcomes, error = pickle.loads(answer)  # noqa: S301 - bytes of our own process
        if error is not None:
            raise error
        return list(outcomes)

    def _start(self, seat: _Seat) -> None:
        with self._lock:
            if self._closed:
                raise WorkerDied("the run has ended")
            try:
                seat.pipe, theirs = SPAWN.Pipe()
                args = theirs, Path(self._folder.name), seat.number
                process = SPAWN.Process(target=_serve, args=args)
                # It inherits what this thread blocks: Ctrl-C is for the runner alone. The tracker,
                # which the first start would start, unblocks it.
                resource_tracker.ensure_running()
                signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
                process.start()
            except OSError as error:
                raise RecbenchError(
                    f"a process cannot be started ({error.strerror}); try fewer --jobs"
                ) from error
            theirs.close()  # or nobody would notice that the process is gone
            seat.process = process

    def close(self, *, wait: bool) -> None:
        """Stop the processes; without waiting, in the middle of their work."""
        with self._lock:
            self._closed = True
            running = [] if wait else [seat.process for seat in self._seats]
            for process in running:
                if process is not None:
                    process.kill()
        self._threads.shutdown(cancel_futures=True)
        for seat in self._seats:
            seat.clear()
        self._folder.cleanup()


def _serve(pipe: "Connection[Any, Any]", folder: Path, number: int) -> None:
    """What a process does: first it is told what there is to know, then one job after the other."""
    os.setpgid(0, 0)  # so that what it starts can be ended with it
    follower = threading.Thread(target=_follow, args=[folder], daemon=True)
    follower.start()
    with suppress(OSError):  # where memory ends, this process goes first, and the run can tell
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    slot, parcel = Slot(folder, number), None
    try:
        while message := pipe.recv_bytes():
            if parcel is None:
                parcel = pickle.loads(message)  # noqa: S301 - as in `Processes`
                pipe.send_bytes(b"ready")
            else:
                pipe.send_bytes(_answer(parcel, message, slot))
    except (EOFError, OSError):  # the run was killed
        follower.join()


def _answer(parcel: Parcel, job: bytes, slot: Slot) -> bytes:
    """The outcomes of a job, or what kept it from having any."""
    try:
        settle_in(parcel.open(), slot.number, slot)
        return pickle.dumps((work_on(parcel, job), None))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the run must hear it
        return pickle.dumps((None, _portable(error)))


def _portable(error: BaseException) -> BaseException:
    """An error as it can be sent, with what its traceback was."""
    if not isinstance(error, RecbenchError):
        error.add_note(traceback.format_exc())
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 - made here
    except Exception:  # noqa: BLE001 - an error of somebody else's may be anything
        return RecbenchError(f"{type(error).__name__}: {error}")
    return error


def _follow(folder: Path) -> None:
    """End when the process that started this one is killed: nobody waits for its work any more."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os.killpg(0, signal.SIGKILL)
