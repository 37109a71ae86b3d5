"""Where groups of trials are worked on: in this process, in others, or on a Dask cluster.

All three take a group and give back a `concurrent.futures.Future` of its outcomes. Only the
runner writes results, so it does not matter where the numbers come from.
"""

import os
import pickle
import queue
import shutil
import tempfile
import threading
import uuid
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, Protocol

from recbench.campaign.slots import Listener, Said, Slot, Throttle
from recbench.campaign.worker import Job, Outcome, Worker
from recbench.errors import RecbenchError, UsageError
from recbench.linalg.types import Note, quiet
from recbench.registry import load_plugin

Pending = Future[list[Outcome]]
TRIES = 2
"""How often a cluster starts a task again whose worker was lost."""


class Executor(Protocol):
    """What the runner asks of a place where work is done."""

    slots: int
    """How many groups may be under way at once."""

    def submit(self, job: Job) -> Pending:
        """Start on a group."""

    def heard(self) -> Iterable[Said]:
        """What workers elsewhere have said of their progress since the last time."""

    def close(self, *, wait: bool) -> None:
        """Stop; without waiting, work under way is thrown away."""


class InProcess:
    """Works in this process, one group at a time; submitting is doing."""

    slots = 1

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        settle_in(worker, 0, worker.context.progress)

    def submit(self, job: Job) -> Pending:
        """Do the work before returning."""
        future: Pending = Future()
        future.set_result(self.worker.work(job))
        return future

    def heard(self) -> Iterable[Said]:
        """Nothing: the worker speaks for itself."""
        return ()

    def close(self, *, wait: bool) -> None:
        """Nothing to stop."""


@dataclass(frozen=True)
class Parcel:
    """A worker as it is sent to another process: plugins first, for its models may be theirs."""

    plugins: tuple[str, ...]
    pickled: bytes
    key: str

    @classmethod
    def of(cls, worker: Worker, plugins: Sequence[Path] = ()) -> "Parcel":
        """Pack a worker, without whom it tells of its progress: that depends on where it goes."""
        sent = replace(worker, context=replace(worker.context, progress=quiet))
        paths = tuple(str(path.resolve()) for path in plugins)
        return cls(paths, pickle.dumps(sent), uuid.uuid4().hex)

    def open(self) -> Worker:
        """Unpack, once in each process."""
        if self.key not in _OPENED:
            for path in self.plugins:
                load_plugin(Path(path))
            _OPENED.clear()
            # Only ever bytes this program made: they came through its own pipe or its own cluster.
            _OPENED[self.key] = pickle.loads(self.pickled)  # noqa: S301
        return _OPENED[self.key]


_OPENED: dict[str, Worker] = {}


def work_on(parcel: Parcel, job: bytes) -> list[Outcome]:
    """What happens in another process, which must know the plugins before it meets their models."""
    worker = parcel.open()
    return worker.work(pickle.loads(job))  # noqa: S301 - as in `Parcel.open`


def settle_in(worker: Worker, slot: int, progress: Note) -> None:
    """Give a worker its device and a way to say how far it is."""
    device = worker.devices[slot % len(worker.devices)]
    worker.context = replace(worker.context, device=device, progress=progress)


def _start(parcel: Parcel, folder: Path) -> None:
    threading.Thread(target=_follow, args=[folder.parent], daemon=True).start()
    with suppress(OSError):  # where memory ends, this process goes first, and the run can tell
        Path("/proc/self/oom_score_adj").write_text("500", encoding="ascii")
    slot = Slot.take(folder)
    settle_in(parcel.open(), slot.number, slot)


def _follow(folder: Path) -> None:
    """End when the process that started this one is killed: nobody waits for its work any more."""
    parent = parent_process()
    assert parent is not None
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


@dataclass
class Processes:
    """Works in N processes of this machine; a process that dies takes no other's work along."""

    parcel: Parcel
    slots: int

    def __post_init__(self) -> None:
        """Start the processes."""
        self._folder = tempfile.TemporaryDirectory(prefix="recbench-slots-")
        self._pool = self._make()

    def _make(self) -> ProcessPoolExecutor:
        self._listener = Listener(Path(tempfile.mkdtemp(dir=self._folder.name)))
        start = partial(_start, self.parcel, self._listener.folder)
        with _starting():
            spawn = get_context("spawn")
            return ProcessPoolExecutor(self.slots, mp_context=spawn, initializer=start)

    def heard(self) -> Iterable[Said]:
        """What the processes noted."""
        return self._listener.heard()

    def submit(self, job: Job) -> Pending:
        """Hand a group to a process; a pool that broke is replaced."""
        task = partial(work_on, _bare(self.parcel), pickle.dumps(job))
        try:
            with _starting():
                return self._pool.submit(task)
        except BrokenProcessPool:
            self._pool = self._make()
            return self._pool.submit(task)

    def close(self, *, wait: bool) -> None:
        """Stop the processes."""
        if not wait:
            for process in list((self._pool._processes or {}).values()):
                process.kill()  # shutdown alone would wait for a fit to end
        self._pool.shutdown(wait=wait, cancel_futures=True)
        self._folder.cleanup()


@contextmanager
def _starting() -> Iterator[None]:
    """Say in a sentence that processes cannot be started, for want of /dev/shm or descriptors."""
    try:
        yield
    except OSError as error:
        raise RecbenchError(
            f"processes cannot be started here ({error.strerror or error}; they need shared "
            "memory and some 50 open files); run without -j"
        ) from error


def _bare(parcel: Parcel) -> Parcel:
    """The parcel without its content, for processes that have opened it when they started."""
    return replace(parcel, pickled=b"")


class Dask:
    """Works on a Dask cluster; data are sent to each worker once, lost work is done again."""

    def __init__(self, parcel: Parcel, address: str, timeout: str = "20s") -> None:
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--executor dask needs an extra: pip install 'recbench[dask]'"
            ) from None
        connect: Any = Client  # distributed has no types
        try:
            self._client = connect(address, set_as_default=False, timeout=timeout)
        except (OSError, ValueError) as error:
            raise UsageError(f"no Dask scheduler answers at {address} ({error})") from error
        self.slots = max(1, 2 * len(self._client.scheduler_info()["workers"]))
        self._parcel = self._client.scatter(parcel, broadcast=True, hash=False)
        self._topic, self._said = f"recbench-{parcel.key}", queue.SimpleQueue[Said]()
        self._client.subscribe_topic(self._topic, lambda event: self._said.put(tuple(event[1])))

    def submit(self, job: Job) -> Pending:
        """Hand a group to the cluster."""
        future: Pending = Future()
        remote = self._client.submit(
            _work_there, self._parcel, pickle.dumps(job), self._topic, pure=False, retries=TRIES
        )
        remote.add_done_callback(partial(_settle, future))
        return future

    def heard(self) -> Iterable[Said]:
        """What came in through the scheduler."""
        return [self._said.get() for _ in range(self._said.qsize())]

    def close(self, *, wait: bool) -> None:
        """Leave the cluster; work under way is cancelled."""
        self._client.close()


def _work_there(parcel: Parcel, job: bytes, topic: str) -> list[Outcome]:
    """What happens on a worker of a cluster."""
    from distributed import get_worker

    throttle, there = Throttle(), get_worker()

    def progress(what: str, done: int, total: int) -> None:
        if throttle.passes(what, done, total):
            there.log_event(topic, (f"{what} [{there.name}]", done, total))

    settle_in(parcel.open(), 0, progress)
    return work_on(parcel, job)


def _settle(future: Pending, remote: Any) -> None:
    """Pass the end of a task on the cluster to the future that stands for it here."""
    from distributed.scheduler import KilledWorker

    try:
        future.set_result(remote.result())
    except KilledWorker as error:
        future.set_exception(BrokenProcessPool(str(error)))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the waiting thread must hear it
        future.set_exception(error)
