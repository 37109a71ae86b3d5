"""`-j auto`: how many fits at once, with how many threads each, by what fits are measured to take.

A fit that keeps every core busy gains nothing from company. One that does not, since most of it
goes on one thread, leaves room for others. How much follows from two numbers, its seconds and the
cores that it kept busy meanwhile, by Amdahl's law. Processes take time to start and memory to hold
the data, so they are started only where that is won back.
"""

from dataclasses import dataclass

START = 3.0
"""Seconds of a core that a process takes before its first fit, beside making the split."""
WORTH = 0.9
"""Share of the time of one fit after the other that packed ones must be expected to stay below."""
ENOUGH = 20
"""Looks at the threads of fits that went alone, until it counts what was seen."""
FIRST = 2
"""Fits of a model that go alone at least: the first loads and compiles what others find."""
LONG = 10.0
"""Seconds of a fit beside which what the first one loads is nothing."""


@dataclass(frozen=True)
class Measured:
    """What a fit took, alone and with all threads; ranking included."""

    seconds: float
    cores: float
    """How many it would have kept busy on average, on a machine without other work."""
    memory: int
    """Bytes that it held at most, beside what is held anyway."""
    looks: int = ENOUGH
    """How often its threads were looked at."""
    crowding: float = 1.0
    """How many times as long it took as on a machine without other work."""


@dataclass(frozen=True)
class Machine:
    """What there is for fits."""

    cores: int
    free: int
    """Bytes, with nothing under way."""
    base: int
    """Bytes that a process holds with the data open."""
    start: float
    """Seconds of a core until a process fits; 0 where processes are there."""
    threads: int | None = None
    """Of every fit, if that was asked for."""

    @property
    def alone(self) -> int:
        """The threads of a fit that has no company."""
        return self.threads or self.cores

    def beside(self, jobs: int) -> int:
        """The threads of each of so many fits."""
        return self.threads or max(1, self.cores // jobs)

    def hold(self, memory: int) -> int:
        """How many such fits memory is there for, each in a process of its own."""
        return max(1, self.free // max(1, memory + self.base))


@dataclass(frozen=True)
class Packing:
    """How fits of one model go, and why."""

    jobs: int
    threads: int
    reason: str


def pack(one: Measured, left: int, machine: Machine) -> Packing:
    """How the fits that are left should go, if all are like the one that was measured."""
    busy = f"a fit keeps {one.cores:.1f} of {machine.cores} cores busy"
    fitting = min(machine.hold(one.memory), machine.cores, left)
    seconds = {1: left * one.seconds}
    for jobs in range(2, fitting + 1):
        threads = machine.beside(jobs)
        if jobs * threads <= machine.cores:
            each = one.seconds * _slower(one.cores, machine.alone, threads)
            rounds = -(-left // jobs)
            seconds[jobs] = machine.start * one.crowding + rounds * each
    best = min(seconds, key=lambda jobs: (seconds[jobs], jobs))
    if best > 1 and seconds[best] < WORTH * seconds[1]:
        return Packing(best, machine.beside(best), busy)
    if fitting == 1 < min(left, machine.cores):
        need, free = (one.memory + machine.base) / 1e9, machine.free / 1e9
        busy = f"a fit in a process takes {need:.1f} GB, and {free:.1f} GB are free"
    elif best > 1 or one.cores < WORTH * machine.alone:
        busy += f", but {left} of {one.seconds:.2f} s are too few to start processes for"
    return Packing(1, machine.alone, busy)


def foreseen(
    fits: int, memory: int, seconds: float | None, cores: int, free: int, base: int
) -> str:
    """What can be said before anything is measured; seconds are those of matrix products alone."""
    if fits <= FIRST:
        return f"one at a time: {'it is' if fits == 1 else 'they are'} over when measured"
    if seconds is not None and seconds >= START:
        return f"one at a time: products of matrices keep all {cores} cores busy"
    most = min(cores, fits - FIRST, max(1, free // max(1, memory + base)))
    if most == 1 < fits - FIRST:
        return f"one at a time: {(memory + base) / 1e9:.1f} GB each, {free / 1e9:.1f} GB free"
    size = f"{(memory + base) / 1e9:.1f} GB each, {free / 1e9:.1f} GB free"
    return f"at most {most} at once ({size})"


def _slower(cores: float, threads: int, fewer: int) -> float:
    """How many times as long a fit takes on fewer threads: the part that none could share stays."""
    if threads == 1:
        return 1.0
    alone = min(1.0, max(0.0, (threads / max(cores, 1.0) - 1) / (threads - 1)))
    return (alone + (1 - alone) / fewer) / (alone + (1 - alone) / threads)
