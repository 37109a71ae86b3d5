"""Where groups of trials are worked on: in this process, in others, or on a cluster.

All three (`processes` has those of this machine, `cluster` the others) take a group and give back a
`concurrent.futures.Future` of its outcomes. Only the runner writes results, so it does not matter
where the numbers come from.
"""

import pickle
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from recbench.campaign.slots import Said
from recbench.campaign.tasks import Task
from recbench.campaign.worker import Job, Outcome, Worker
from recbench.errors import UsageError
from recbench.linalg.types import Note, quiet
from recbench.registry import load_plugin

Pending = Future[list[Outcome]]
"""The outcomes of a group; WorkerDied; or Refused, where there is no place for it."""


class WorkerDied(Exception):
    """The process that was at a group is gone; says how it ended, as far as that is known."""


class Executor(Protocol):
    """What the runner asks of a place where work is done."""

    weighs: bool
    """Whether it must be told what a group needs."""

    def takes(self, task: Task, ahead: Sequence[Task], running: int) -> bool:
        """Whether a group may begin now, beside so many; `ahead` has it and those after it."""

    def submit(self, job: Job) -> Pending:
        """Start on a group."""

    def heard(self) -> Iterable[Said]:
        """What workers elsewhere have said of their progress since the last time."""

    def crew(self) -> Sequence[Mapping[str, Any]]:
        """The kinds of machines that groups were sent to, if it was not this one."""

    def close(self, *, wait: bool) -> None:
        """Stop; without waiting, work under way is thrown away."""


class InProcess:
    """Works in this process, one group at a time; submitting is doing."""

    weighs = False

    def __init__(self, worker: Worker) -> None:
        self.worker = worker
        settle_in(worker, 0, worker.context.progress)

    def takes(self, task: Task, ahead: Sequence[Task], running: int) -> bool:
        """One at a time."""
        return running == 0

    def submit(self, job: Job) -> Pending:
        """Do the work before returning."""
        future: Pending = Future()
        future.set_result(self.worker.work(job))
        return future

    def heard(self) -> Iterable[Said]:
        """Nothing: the worker speaks for itself."""
        return ()

    def crew(self) -> Sequence[Mapping[str, Any]]:
        """This machine alone."""
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
        try:
            pickled = pickle.dumps(sent)
        except (pickle.PicklingError, AttributeError, TypeError) as error:
            raise UsageError(
                f"what this run needs cannot be sent to another process: {error}; define classes "
                "at the top of their module, or run without -j and --executor"
            ) from error
        return cls(paths, pickled, uuid.uuid4().hex)

    def open(self) -> Worker:
        """Unpack, once in each process."""
        return opened(self.key, self.plugins, lambda: self.pickled)


_OPENED: dict[str, Worker] = {}


def opened(key: str, plugins: Iterable[str], read: Callable[[], bytes]) -> Worker:
    """A worker that was packed: read once in each process, until another one is."""
    if key not in _OPENED:
        for path in plugins:
            load_plugin(Path(path))
        _OPENED.clear()
        # Only ever bytes this program made: they came through its own pipe or its own cluster.
        _OPENED[key] = pickle.loads(read())  # noqa: S301
    return _OPENED[key]


def work_on(parcel: Parcel, job: bytes) -> list[Outcome]:
    """What happens in another process, which must know the plugins before it meets their models."""
    worker = parcel.open()
    return worker.work(pickle.loads(job))  # noqa: S301 - as in `opened`


def settle_in(worker: Worker, slot: int, progress: Note) -> None:
    """Give a worker its device and a way to say how far it is."""
    device = worker.devices[slot % len(worker.devices)]
    worker.context = replace(worker.context, device=device, progress=progress)
