"""An executor that finds out how many fits at once are fastest: `-j auto`.

The first fits of a model go one at a time, in this process with all threads, and are measured. The
others go as `packing` decides by that. If they come out slower than alone, the rest goes alone.
"""

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from recbench.campaign.busy import Busy
from recbench.campaign.executors import InProcess, Parcel, Pending, WorkerDied
from recbench.campaign.needs import Needs
from recbench.campaign.packing import ENOUGH, LONG, START, Machine, Measured, Packing, pack
from recbench.campaign.processes import Processes
from recbench.campaign.slots import Said
from recbench.campaign.tasks import Task
from recbench.campaign.worker import Job, Worker
from recbench.environment import free_memory, held_memory


@dataclass
class _Known:
    """What is known of the fits of one model."""

    alone: list[Measured] = field(default_factory=list)
    ended: list[float] = field(default_factory=list)
    """When fits ended that had company."""
    packing: Packing | None = None
    deadly: bool = False
    """Whether a process has died of it: it is not let into this one again."""

    @property
    def least(self) -> Measured | None:
        """A fit as quick as the quickest and as large as the largest, when enough were looked at.

        The first loads and compiles what the others find, so it tells little unless it is long.
        """
        telling = [one for one in self.alone[:1] if one.seconds >= LONG] + self.alone[1:]
        looks = sum(one.looks for one in telling)
        if looks < ENOUGH:
            return None
        cores = sum(one.cores * one.looks for one in telling) / looks
        quickest = min(telling, key=lambda one: one.seconds)
        memory = max(one.memory for one in self.alone)
        return replace(quickest, cores=cores, memory=memory, looks=looks)

    @property
    def disappoints(self) -> bool:
        """Whether fits in company come out slower than the last one did alone."""
        if self.packing is None or len(self.ended) <= 2 * self.packing.jobs:
            return False
        each = (self.ended[-1] - self.ended[0]) / (len(self.ended) - 1)
        return each > self.alone[-1].seconds


class Packed:
    """Works in this process, or in several others where that is faster."""

    weighs = True

    def __init__(
        self,
        worker: Worker,
        parcel: Callable[[], Parcel],
        cores: int,
        *,
        threads: int | None = None,
        announce: Callable[[str], None] = lambda text: None,
    ) -> None:
        self._parcel, self._announce = parcel, announce
        self._cores, self._threads, self._worker = cores, threads, worker
        self._here = InProcess(worker)
        self._elsewhere: Processes | None = None
        self._known: dict[str, _Known] = {}
        self._next = _Known()
        """Of the model last asked for: a group may lose the trials that it was called by."""
        self._promised: dict[Pending, int] = {}
        self._free = 0

    def takes(self, task: Task, ahead: Sequence[Task], running: int) -> bool:
        """Fits that go alone wait until there is no other; those that do not, for room."""
        if running == 0:
            self._free = free_memory()
        self._next = known = self._known.setdefault(task.name, _Known())
        one = known.least
        if one is None or known.deadly:
            return running == 0
        memory = max(one.memory, (task.needs or Needs()).memory or 0)
        left = sum(other.name == task.name for other in ahead)
        packing = self._packing(known, replace(one, memory=memory), left, task)
        if packing != known.packing and left > 1:
            self._tell(task.name, packing, known.packing)
        known.packing = packing
        if packing.jobs == 1 or running == 0:
            return running == 0
        base = held_memory()
        held = sum([*self._promised.values()]) + memory + base * (running + 1)
        return running < packing.jobs and held <= self._free

    def _packing(self, known: _Known, one: Measured, left: int, task: Task) -> Packing:
        alone = self._threads or self._cores
        if known.packing and known.packing.jobs > 1:
            slower = Packing(1, alone, "they came out slower together")
            return slower if known.disappoints else known.packing
        if known.ended and known.packing:  # it was tried
            return known.packing
        model, devices = task.trials[0].model, len(self._worker.devices)
        if model.extra and devices < 2:
            return Packing(1, alone, "there is one device for it")
        start = 0.0 if self._elsewhere else START + self._worker.dividing
        machine = Machine(self._cores, self._free, held_memory(), start, self._threads)
        packing = pack(one, left, machine)
        return replace(packing, jobs=min(packing.jobs, devices)) if model.extra else packing

    def _tell(self, name: str, packing: Packing, before: Packing | None) -> None:
        if before is None or (before.jobs > 1) != (packing.jobs > 1):
            how = "one fit" if packing.jobs == 1 else f"{packing.jobs} fits"
            threads = "1 thread" if packing.threads == 1 else f"{packing.threads} threads"
            self._announce(f"{name}: {how} at a time, {threads} each: {packing.reason}")

    def submit(self, job: Job) -> Pending:
        """Fit alone and measure, or hand a group to a process."""
        known = self._next
        if known.deadly:
            return self._submit(known, job)
        if known.packing is None or known.packing.jobs == 1:
            return self._measured(known, job)
        return self._submit(known, replace(job, threads=known.packing.threads))

    def _measured(self, known: _Known, job: Job) -> Pending:
        held = held_memory()
        with Busy() as busy:
            future = self._here.submit(job)
        rows = [outcome.row for outcome in future.result()]
        if job.part == "valid" and all(row.status == "ok" for row in rows):
            peak = max(row.peak_bytes for row in rows) - held
            memory = max(0, peak, job.needs.memory or 0)
            known.alone.append(Measured(
                busy.seconds, busy.cores, memory, busy.looks, busy.crowding
            ))  # fmt: skip
        return future

    def _submit(self, known: _Known, job: Job) -> Pending:
        if self._elsewhere is None:
            self._elsewhere = Processes(self._parcel(), self._cores)
        future: Pending = Future()
        least = known.least
        self._promised[future] = max(least.memory if least else 0, job.needs.memory or 0)
        # The runner must not see that it is done before this has.
        theirs = self._elsewhere.submit(job)
        theirs.add_done_callback(partial(self._ended, known, future))
        return future

    def _ended(self, known: _Known, future: Pending, theirs: Pending) -> None:
        del self._promised[future]
        known.ended.append(time.monotonic())
        error = theirs.exception()
        known.deadly |= isinstance(error, WorkerDied)
        if error is None:
            future.set_result(theirs.result())
        else:
            future.set_exception(error)

    def heard(self) -> Iterable[Said]:
        """What the processes noted."""
        return self._elsewhere.heard() if self._elsewhere else ()

    def crew(self) -> Sequence[Mapping[str, Any]]:
        """This machine alone."""
        return ()

    def close(self, *, wait: bool) -> None:
        """Stop the processes."""
        if self._elsewhere:
            self._elsewhere.close(wait=wait)
