"""What happens on a worker of a cluster: it says what it is, takes the cargo, and fits groups."""

import logging
import pickle
import platform
import shutil
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from recbench.campaign.cluster.cargo import Cargo, Unfit
from recbench.campaign.executors import opened, settle_in
from recbench.campaign.slots import Throttle
from recbench.campaign.worker import Outcome, Worker
from recbench.environment import describe, free_memory, held_memory, total_memory
from recbench.errors import RecbenchError

_ALONE = threading.Lock()
"""Held by whoever fits: a worker with several threads gives all of them to one group."""

SHARE = 0.9
"""Of a worker's limit, what it may take: from 95 % on Dask kills it."""


@dataclass(frozen=True)
class Greeting:
    """What a worker is."""

    machine: str
    store: str
    """The folder that the workers of one machine keep what they are sent in."""
    environment: dict[str, Any]
    has_cargo: bool


@dataclass(frozen=True)
class Room:
    """What a worker has for fits, with the data in memory."""

    memory: int
    """By its own limit, whatever others on its machine hold meanwhile."""
    free: int
    """On its machine, whatever the worker's own limit is."""
    disk: int
    """Where large inverses are kept."""


@dataclass(frozen=True)
class Terms:
    """How a worker is to fit a group."""

    topic: str
    """Where it says how far it is."""
    number: int
    """Of this worker among those of its machine."""
    threads: int | None
    """None: as many as the worker was started with."""


def greet(cargo: Cargo, packages: tuple[str, ...] = ()) -> Greeting:
    """Say what this worker is, and has of some packages, before it is told anything."""
    store = common_store()
    environment = describe(packages=packages)
    return Greeting(platform.node(), str(store), environment, cargo.find(store) is not None)


def take(cargo: Cargo, start: int, piece: bytes) -> None:
    """Keep a piece of the cargo for all workers of this machine."""
    cargo.take(common_store(), start, piece)


def open_up(cargo: Cargo) -> Room:
    """Bring the data into memory, and say what is left for fits."""
    with _ALONE:
        try:
            _opened(cargo).split  # noqa: B018 - made once, and it takes memory
        except RecbenchError as error:
            raise Unfit(str(error)) from error
        return Room(_allowed(), free_memory(), _free_disk(cargo.scratch))


def fit(cargo: Cargo, job: bytes, terms: Terms) -> tuple[list[Outcome], int]:
    """Fit a group and measure it; the disk that is left afterwards is told as well."""
    here, throttle = this_worker(), Throttle()

    def progress(what: str, done: int, total: int) -> None:
        if throttle.passes(what, done, total):
            here.log_event(terms.topic, ("progress", f"{what} [{here.name}]", done, total))

    def log(text: str) -> None:
        here.log_event(terms.topic, ("log", f"{here.name}: {text}"))

    with _ALONE, _logged(log):
        worker = _opened(cargo)
        settle_in(worker, terms.number, progress)
        threads = terms.threads or here.state.nthreads
        memory = min(free_memory(), _allowed())
        worker.context = replace(worker.context, threads=threads, memory=memory)
        outcomes = worker.work(pickle.loads(job))  # noqa: S301 - as in `opened`
        return outcomes, _free_disk(cargo.scratch)


def forget(cargo: Cargo) -> None:
    """Remove what this machine was sent."""
    cargo.place(common_store()).unlink(missing_ok=True)


def this_worker() -> Any:
    """Dask's own of the worker that runs this."""
    from distributed import get_worker

    return get_worker()


def common_store() -> Path:
    """Dask gives every worker a folder of its own, in one that all of a machine have."""
    return Path(this_worker().local_directory).parent


def _opened(cargo: Cargo) -> Worker:
    cargo.check_plugins()
    plugins, store = [path for path, _ in cargo.plugins], common_store()
    try:
        return opened(cargo.digest, plugins, lambda: cargo.read(store))
    except (ImportError, AttributeError) as error:
        raise Unfit(f"something that models come from is not installed ({error})") from error


def _allowed() -> int:
    """Bytes that Dask lets a fit of this worker have."""
    limit = this_worker().memory_manager.memory_limit
    return max(0, int(SHARE * limit) - held_memory()) if limit else total_memory()


def _free_disk(scratch: Path | None) -> int:
    """Bytes free where large inverses are kept; none if there can be no such folder."""
    if scratch is None:
        return 0
    try:
        scratch.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(scratch).free
    except OSError:
        return 0


@contextmanager
def _logged(log: Callable[[str], None]) -> Iterator[None]:
    """Pass on what is warned of: nobody looks at a worker's own log while it fits."""
    passing = _Passing(log)
    logging.getLogger().addHandler(passing)
    try:
        with warnings.catch_warnings():
            warnings.showwarning = lambda message, kind, *_: log(f"{kind.__name__}: {message}")
            yield
    finally:
        logging.getLogger().removeHandler(passing)


class _Passing(logging.Handler):
    """Passes on what the thread of a fit logs; other threads are Dask's."""

    def __init__(self, log: Callable[[str], None]) -> None:
        super().__init__(logging.WARNING)
        self._log, self._thread = log, threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Pass on one line."""
        if record.thread == self._thread:
            self._log(f"{record.levelname.lower()}: {record.getMessage()}")
