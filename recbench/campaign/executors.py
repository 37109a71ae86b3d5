"""Where groups of trials are worked on: in this process, in others, or on a Dask cluster.

All three take a group and give back a `concurrent.futures.Future` of its outcomes. Only the
runner writes results, so it does not matter where the numbers come from.
"""

import pickle
import uuid
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Protocol

from recbench.campaign.plan import Trial
from recbench.campaign.selection import Leaders
from recbench.campaign.worker import Outcome, Worker
from recbench.errors import UsageError
from recbench.linalg.types import quiet
from recbench.registry import load_plugin

Outcomes = Future[list[Outcome]]
TRIES = 2
"""How often a cluster starts a task again whose worker was lost."""


class Executor(Protocol):
    """What the runner asks of a place where work is done."""

    slots: int
    """How many groups may be under way at once."""

    def submit(self, trials: Sequence[Trial], part: str, leaders: Leaders) -> Outcomes:
        """Start on a group."""

    def close(self, *, wait: bool) -> None:
        """Stop; without waiting, work under way is thrown away."""


class InProcess:
    """Works in this process, one group at a time; submitting is doing."""

    slots = 1

    def __init__(self, worker: Worker) -> None:
        self.worker = worker

    def submit(self, trials: Sequence[Trial], part: str, leaders: Leaders) -> Outcomes:
        """Do the work before returning."""
        future: Outcomes = Future()
        future.set_result(self.worker.work(trials, part, leaders))
        return future

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
        """Pack a worker; there it will report no progress."""
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


def work_on(parcel: Parcel, trials: bytes, part: str, leaders: Leaders) -> list[Outcome]:
    """What happens in another process, which must know the plugins before it meets their models."""
    worker = parcel.open()
    return worker.work(pickle.loads(trials), part, leaders)  # noqa: S301 - as in `Parcel.open`


def _start(parcel: Parcel) -> None:
    parcel.open()


@dataclass
class Processes:
    """Works in N processes of this machine; a process that dies takes no other's work along."""

    parcel: Parcel
    slots: int

    def __post_init__(self) -> None:
        """Start the processes."""
        self._pool = self._make()

    def _make(self) -> ProcessPoolExecutor:
        start = partial(_start, self.parcel)
        return ProcessPoolExecutor(self.slots, mp_context=get_context("spawn"), initializer=start)

    def submit(self, trials: Sequence[Trial], part: str, leaders: Leaders) -> Outcomes:
        """Hand a group to a process; a pool that broke is replaced."""
        task = partial(work_on, _bare(self.parcel), pickle.dumps(trials), part, leaders)
        try:
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

    def submit(self, trials: Sequence[Trial], part: str, leaders: Leaders) -> Outcomes:
        """Hand a group to the cluster."""
        future: Outcomes = Future()
        remote = self._client.submit(
            work_on, self._parcel, pickle.dumps(trials), part, leaders, pure=False, retries=TRIES
        )
        remote.add_done_callback(partial(_settle, future))
        return future

    def close(self, *, wait: bool) -> None:
        """Leave the cluster; work under way is cancelled."""
        self._client.close()


def _settle(future: Outcomes, remote: Any) -> None:
    """Pass the end of a task on the cluster to the future that stands for it here."""
    from distributed.scheduler import KilledWorker

    try:
        future.set_result(remote.result())
    except KilledWorker as error:
        future.set_exception(BrokenProcessPool(str(error)))
    except BaseException as error:  # noqa: BLE001 - whatever it was, the waiting thread must hear it
        future.set_exception(error)
