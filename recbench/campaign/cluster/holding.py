"""What happens on a worker that holds tiles of an inverse which many workers have together.

What the run asks of it is a task, and there is one at a time. What other workers ask is answered
beside that, by the thread that Dask listens with: tiles go from worker to worker.
"""

import asyncio
import pickle
import platform
import shutil
import threading
from collections import defaultdict
from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from recbench.campaign.cluster.cargo import Cargo, Unfit
from recbench.campaign.cluster.there import common_store, this_worker
from recbench.campaign.slots import Throttle
from recbench.campaign.worker import compute_threads
from recbench.environment import describe, free_memory, held_memory, total_memory
from recbench.linalg.held.holder import Broken, Holder, Taken
from recbench.linalg.held.layout import Layout

HANDLER = "recbench_holder"
AT_ONCE = 32
"""Requests of a worker that are under way: each may wait long, and takes a connection."""
DROPPED = "a worker has dropped its tiles"
SHARE = 0.95
"""Of what Dask lets a worker have before it pauses it."""

_HELD: dict[tuple[str, str], Holder] = {}
"""By address and token, which begins with the name of the run: workers may share a process."""
_TURNS: defaultdict[str, threading.Lock] = defaultdict(threading.Lock)
"""By address: held by whoever computes there, also if Dask would let two."""


@dataclass(frozen=True)
class Attendance:
    """What a worker is, and has."""

    machine: str
    store: str
    environment: dict[str, Any]
    allowed: int
    """Bytes that it may have for tiles, by its own limit."""
    free: int
    """Bytes free on its machine."""


@dataclass(frozen=True)
class Brought:
    """Something that was brought to the machines of a team, and is read from there."""

    token: str
    cargo: Cargo

    def opened(self) -> Any:
        """The thing itself."""
        # Bytes that this program made, as those of groups; the digest says they came in whole.
        return pickle.loads(self.cargo.read(_store(self.token)))  # noqa: S301


@dataclass(frozen=True)
class Berth:
    """One holder's place in a team."""

    run: str
    token: str
    layout: Layout
    addresses: Sequence[str]
    number: int


class Lease:
    """Tiles that are held as long as the run that asked for them wants them, and is there.

    Dask keeps it as an actor: it is never moved or written to disk, and is dropped with the last
    who wants it, also if that is killed. What was brought to the team goes with it.

    A worker has tiles of one run at a time. With tiles of two it would be asked by both to sweep,
    begin with either, and wait for workers that have begun with the other.
    """

    def __init__(self, berth: Berth) -> None:
        worker = this_worker()
        self._label, self._store = (worker.address, berth.token), _store(berth.token)
        with _TURNS[worker.address]:  # whoever had tiles here before has let them go
            if _is_taken(worker.address, berth.run):
                raise Taken(f"worker {worker.address} has tiles of another run")
            worker.handlers[HANDLER] = _answerer(worker.address)
            _HELD[self._label] = Holder(berth.layout, berth.number, _fetcher(worker, berth))

    def __del__(self) -> None:
        """Have nobody wait for what is not here any more."""
        holder = _HELD.pop(getattr(self, "_label", ("", "")), None)
        if holder is not None:
            holder.stop()
            shutil.rmtree(self._store, ignore_errors=True)


async def taken(address: str, run: str) -> bool:
    """Whether another run has tiles there."""
    return _is_taken(address, run)


def _is_taken(address: str, run: str) -> bool:
    return any(at == address and not token.startswith(run) for at, token in list(_HELD))


def attend() -> Attendance:
    """Say what this worker is, and what is free."""
    manager = this_worker().memory_manager
    limit, fraction = manager.memory_limit, manager.memory_pause_fraction or 1.0
    allowed = int(SHARE * fraction * limit) - held_memory() if limit else total_memory()
    return Attendance(
        platform.node(), str(common_store()), describe(), max(0, allowed), free_memory()
    )


def take(token: str, cargo: Cargo, start: int, piece: bytes) -> None:
    """Keep a piece of what is brought to a team for all of its workers on this machine."""
    try:
        _store(token).mkdir(exist_ok=True)
    except OSError as error:
        raise Unfit(f"{_store(token)} cannot be made ({error.strerror})") from error
    cargo.take(_store(token), start, piece)


def forget(token: str, cargo: Cargo) -> None:
    """Remove what was brought to a team."""
    cargo.place(_store(token)).unlink(missing_ok=True)


def _store(token: str) -> Path:
    """A folder of the team: another run may bring the same, and remove it sooner."""
    return common_store() / token


def call(token: str, topic: str, threads: int | None, method: str, *words: Any) -> Any:
    """Have the holder do something; what was brought is given to it as it was sent."""
    worker = this_worker()
    holder = _HELD.get((worker.address, token))
    if holder is None:
        raise Broken(DROPPED)
    throttle, more = Throttle(), dict[str, Any]()

    def progress(done: int, total: int) -> None:
        if throttle.passes(method, done, total):
            worker.log_event(topic, (token, holder.number, done, total))

    if method in ("sweep", "rank"):
        more["progress"] = progress
    given = [word.opened() if isinstance(word, Brought) else word for word in words]
    with _TURNS[worker.address], compute_threads(threads or worker.state.nthreads):
        return getattr(holder, method)(*given, **more)


async def strip(address: str, token: str, words: Sequence[int]) -> Any:
    """Some columns, for the run itself."""
    holder = _HELD.get((address, token))
    if holder is None:
        raise Broken(DROPPED)
    return await asyncio.to_thread(holder.strip, *words)


def _answerer(address: str) -> Any:
    """What answers other workers: with a tile, or nothing if there is none and will be none."""
    from distributed.protocol.serialize import to_serialize

    as_it_is: Any = to_serialize  # distributed has no types

    async def answer(token: str, method: str, words: Sequence[Any]) -> dict[str, Any]:
        holder = _HELD.get((address, token))
        if holder is None:
            return {}
        try:
            if method == "strip":
                return {"tile": as_it_is(await asyncio.to_thread(holder.strip, *words))}
            key, step = words
            coming = asyncio.wrap_future(holder.give(tuple(key), step))
            return {"tile": as_it_is(await asyncio.shield(coming))}  # others wait for the same
        except Broken:
            return {}

    return answer


def _fetcher(worker: Any, berth: Berth) -> Any:
    """How a holder asks the others, by way of Dask's connections between workers."""
    loop, slots = worker.loop.asyncio_loop, asyncio.Semaphore(AT_ONCE)

    async def ask(holder: int, method: str, words: Sequence[Any]) -> Any:
        async with slots:
            asked = getattr(worker.rpc(berth.addresses[holder]), HANDLER)
            answer = await asked(token=berth.token, method=method, words=words)
        if "tile" not in answer:
            raise Broken(DROPPED)
        return answer["tile"]

    def fetch(holder: int, method: str, *words: Any) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(ask(holder, method, words), loop)

    return fetch
