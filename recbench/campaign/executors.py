"""Where groups of trials are worked on: in this process, in others, or on a Dask cluster.

All three (those of this machine are in `processes`) take a group and give back a
`concurrent.futures.Future` of its outcomes. Only the runner writes results, so it does not matter
where the numbers come from.
"""

import pickle
import queue
import uuid
from collections.abc import Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Protocol

from recbench.campaign.slots import Said, Throttle
from recbench.campaign.worker import Job, Outcome, Worker
from recbench.errors import UsageError
from recbench.linalg.types import Note, quiet
from recbench.registry import load_plugin

Pending = Future[list[Outcome]]
"""The outcomes of a group, or WorkerDied."""
TRIES = 2
"""How often a cluster starts a task again whose worker was lost."""


class WorkerDied(Exception):
    """The process that was at a group is gone; says how it ended, as far as that is known."""


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


class Dask:
    """Works on a Dask cluster; data are sent to each worker once, lost work is done again."""

    def __init__(self, parcel: Parcel, address: str, timeout: str = "20s") -> None:
        try:
            from distributed import Client
        except ImportError:
            raise UsageError(
                "--executor dask needs an extra: pip install 'recbench-suite[dask]'"
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
        future.set_exception(WorkerDied(str(error)))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the waiting thread must hear it
        future.set_exception(error)
