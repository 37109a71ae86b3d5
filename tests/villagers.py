"""Holders that are threads of this process, and may be lost when a test says so."""

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from recbench.linalg.held.heldtiles import Member
from recbench.linalg.held.holder import Broken, Holder


def chained(future: Future) -> Future:
    """What comes of a future, which may be cancelled without those who wait for the same."""
    mine: Future = Future()

    def pass_on(done: Future) -> None:
        if mine.set_running_or_notify_cancel():
            error = done.exception()
            mine.set_result(done.result()) if error is None else mine.set_exception(error)

    future.add_done_callback(pass_on)
    return mine


class Threads:
    """A team of threads."""

    def __init__(self, layout, before: Callable[[int, str], None]) -> None:
        self.before, self.closed = before, False
        self.holders = [Holder(layout, number, self.fetch) for number in range(layout.holders)]
        self.pool = ThreadPoolExecutor(layout.holders)

    def fetch(self, holder: int, method: str, *words) -> Future:
        try:
            self.before(holder, method)
        except Broken as error:
            gone: Future = Future()
            gone.set_exception(error)
            return gone
        if method == "give":
            return chained(self.holders[holder].give(*words))
        done: Future = Future()
        done.set_result(getattr(self.holders[holder], method)(*words))
        return done

    def bring(self, thing):
        return thing

    def ask(self, method: str, *words, progress=None):
        more = {} if progress is None else {"progress": progress}

        def one(number: int):
            self.before(number, method)
            return getattr(self.holders[number], method)(*words, **more)

        futures = [self.pool.submit(one, number) for number in range(len(self.holders))]
        errors = [future.exception() for future in futures]
        others = [error for error in errors if error and not isinstance(error, Broken)]
        for error in [*others, *filter(None, errors)]:
            raise error
        return [future.result() for future in futures]

    def strips(self, holder: int, *words):
        return lambda: self.holders[holder].strip(*words)

    def close(self) -> None:
        self.closed = True
        for holder in self.holders:
            holder.stop()
        self.pool.shutdown(wait=False)


@dataclass
class Village:
    """Those who may become holders."""

    sizes: list[int]
    """The memory of each."""
    before: Callable[[int, str], None] = lambda number, method: None
    """Called before a holder does anything; to raise Broken is to be lost."""
    said: list[str] = field(default_factory=list)
    teams: list[Threads] = field(default_factory=list)

    def members(self, enough):
        members = [Member(f"worker {i}", size) for i, size in enumerate(self.sizes)]
        self.enough = enough(members)
        return members

    def team(self, members, layout):
        self.teams.append(Threads(layout, self.before))
        return self.teams[-1]

    def announce(self, text: str) -> None:
        self.said.append(text)


ROOMY = 10**9
