"""What the steps of a run take: seconds, seconds of all processors, and the most memory.

A step inside another one is taken out of it, so steps add up to the whole. Like the seconds of a
fit, those of a step leave out machine code that is made or loaded; seconds of processors do not.
"""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from recbench.environment import lap_peak
from recbench.linalg.clock import CLOCK


@dataclass(frozen=True)
class Spent:
    """What a step took, all the times that it was made."""

    times: int = 0
    seconds: float = 0.0
    processor_seconds: float = 0.0
    """Of all threads of the process."""
    peak_bytes: int = 0
    """The most memory that the process held meanwhile, whoever had asked for it."""

    def __add__(self, other: "Spent") -> "Spent":
        return Spent(
            self.times + other.times,
            self.seconds + other.seconds,
            self.processor_seconds + other.processor_seconds,
            max(self.peak_bytes, other.peak_bytes),
        )


Account = dict[str, Spent]


def added(one: Mapping[str, Spent], other: Mapping[str, Spent]) -> Account:
    """What both took, step by step, in the order first met."""
    names = dict.fromkeys([*one, *other])
    return {name: one.get(name, Spent()) + other.get(name, Spent()) for name in names}


class Steps:
    """Notes what the main thread of this process is at; steps may be inside one another."""

    def __init__(self, *, noting: bool = True) -> None:
        """Begin with nothing.

        Where nothing is `noting`, steps pass without a trace: a peak is told by having the kernel
        forget the one before, which others may want to know of.
        """
        self.noting = noting
        self._account: Account = {}
        self._open: list[str] = []
        self._since = 0.0, 0.0

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        """What happens inside is this step."""
        if not self.noting:
            yield
            return
        self._turn()
        self._open.append(name)
        self._account[name] = self._account.get(name, Spent()) + Spent(times=1)
        try:
            yield
        finally:
            self._turn()
            self._open.pop()

    def taken(self) -> Account:
        """What was noted since the last time; a step that is under way goes on."""
        self._turn()
        account, self._account = self._account, {}
        return account

    def _turn(self) -> None:
        """Put what went by since the last turn down to the step that is at work."""
        now, peak = (CLOCK.now(), time.process_time()), lap_peak()
        if self._open:
            name, (wall, processor) = self._open[-1], self._since
            spent = Spent(0, now[0] - wall, now[1] - processor, peak)
            self._account[name] = self._account.get(name, Spent()) + spent
        self._since = now


STEPS = Steps(noting=False)
"""Those of this process; runs are noted."""
