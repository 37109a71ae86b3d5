"""A plan into a campaign folder: skip what is finished, run the rest, record, select, test.

Every trial is measured on validation; a search may stop fits on the way there. Of each model the
best trial, and only that one, is measured on test: trials that lead while they are in memory are
ranked for test at once, but the numbers of a trial that is overtaken are dropped unseen.

Several processes may work on one folder: each reserves a heavy step before it starts on it.
"""

import math
import time
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from recbench.campaign import traces
from recbench.campaign.budget import tunings
from recbench.campaign.executors import Executor, InProcess, Pending, WorkerDied
from recbench.campaign.folder import Campaign, now
from recbench.campaign.guards import (
    by_other_code,
    other_versions,
    refuse_other_code,
    refuse_other_data,
)
from recbench.campaign.needs import Needs, needs_of
from recbench.campaign.plan import Plan, Trial
from recbench.campaign.row import Row, furthest
from recbench.campaign.search.proposals import Listed, Proposals
from recbench.campaign.selection import leaders, needless, selected
from recbench.campaign.tasks import Task, tasks_of
from recbench.campaign.worker import Job, Outcome, Worker
from recbench.environment import describe, extras, peak_memory
from recbench.errors import DataError, Refused, counted
from recbench.files import readable
from recbench.linalg.steps import STEPS, Account, added
from recbench.models.checkpoint import Checkpoint

POLL_SECONDS = 0.5
"""Seconds between looks at how far work is, or whether another process has released it."""


@dataclass
class Runner:
    """Carries out a plan in a campaign folder."""

    worker: Worker
    campaign: Campaign
    executor: Executor | None = None
    force: bool = False
    same_code: bool = False
    """Whether only what this very code has made counts as finished."""
    retry_failed: bool = False
    announce: Callable[[str], None] = lambda text: None
    command: Sequence[str] = ()
    search: Proposals | None = None
    """Where trials come from; without it, they are those of the plan."""
    limit: float = math.inf
    """Seconds that the trials of each model and seed may take before no further one begins."""
    at_work: Callable[[Sequence[str]], None] = lambda names: None
    """Told what is being fitted, here or elsewhere, whenever that changes."""
    steps: Account = field(default_factory=dict)
    """What was spent on each kind of work, here and in other processes."""
    plan: Plan = field(init=False)
    trials: list[Trial] = field(init=False)
    """The trials so far: a search that learns proposes more as it goes."""

    def __post_init__(self) -> None:
        """Look up what is finished already."""
        self.plan = self.worker.plan
        self.source = self.search or Listed(self.plan.trials)
        self.total = self.source.total
        self.trials = self.source.propose(lambda trial: None)
        self.id, self.started = uuid.uuid4().hex[:8], now()
        self.provisional: dict[str, Outcome] = {}
        self.best: set[str] = set()  # once all have been measured on validation
        self.unwritten: list[str] = []
        """Models that were measured and could not be kept, and why."""
        self.idle = 0  # trials that take no time, found or out of it: they tell no rate
        rows = self.campaign.lines()
        refuse_other_data(rows.values(), self.plan, self.campaign.folder)
        refuse_other_code(rows.values(), self.plan, self.trials, self.campaign.folder)
        self.old = self._outdated(rows)
        found = [row for key, row in rows.items() if key not in self.old]
        self.lone = needless(self.plan, self.trials, found)

    def _outdated(self, rows: Mapping[tuple[str, str, int], Row]) -> set[tuple[str, str, int]]:
        """What is finished and to be run again all the same."""
        if self.force:
            return set(rows)
        if not self.same_code or not rows:
            return set()
        others = by_other_code(rows.values(), self.campaign.manifest()["runs"], self.environment)
        return {(row.trial, row.part, row.stopped) for row in others}

    def run(self) -> list[Row]:
        """Run what is missing; return the rows of this plan, finished earlier or now."""
        self.replay()
        if self.todo():
            # Made before the folder: a split that cannot be made leaves nothing behind.
            for words, count in self.worker.split.notes.items():
                if count:
                    self.announce(f"{count:,} {words}")
        self.campaign.create()
        for problem in self.campaign.problems():
            self.announce(problem)
        self._tell_versions()
        self._describe("running")
        ended = "interrupted"
        executor = self.executor or InProcess(self.worker)
        try:
            self._validate(executor)
            self._test(executor)
            self._clear_checkpoints()
            ended = "finished"
        finally:
            executor.close(wait=ended == "finished")
            # If the disk is full, say: the first error is the one to tell.
            with suppress(*(() if ended == "finished" else (DataError,))):
                self.campaign.forget_claims()
                self.campaign.forget_checkpoints()
                with STEPS("record"):
                    self.campaign.write_table(self.plan.select)
                self._describe(ended, executor.crew())
        return self.rows()

    def replay(self) -> None:
        """Let a search propose again what is finished, up to what is left to run."""
        while not self.todo() and self._propose():
            pass

    def todo(self) -> list[Trial]:
        """The trials, as far as they are known, that are not finished."""
        compared, lone = self._by_choice()
        left = {*self._missing(compared, *self.plan.parts), *self._missing(lone, "test")}
        return [trial for trial in self.trials if trial in left]

    def _by_choice(self) -> tuple[list[Trial], list[Trial]]:
        """The trials that others are chosen from or with, and those that are only tested."""
        both: tuple[list[Trial], list[Trial]] = [], []
        for trial in self.trials:
            both[trial.id in self.lone].append(trial)
        return both

    def rows(self) -> list[Row]:
        """What is known of this plan's trials, whoever found it out."""
        return [*furthest(self._lines().values()).values()]

    def _lines(self) -> dict[tuple[str, str, int], Row]:
        """The same, and what was known of those that a search stopped and let go on."""
        ids, lines = {trial.id for trial in self.trials}, self.campaign.lines()
        return {key: row for key, row in lines.items() if row.trial in ids and key not in self.old}

    def _tell_versions(self) -> None:
        others = other_versions(self.campaign.manifest()["runs"], self.environment)
        if others and not self.same_code:
            self.announce(
                f"{self.campaign.folder} also holds results made by recbench {'; '.join(others)}: "
                "they are taken as they are, --force runs them again"
            )

    def _validate(self, executor: Executor) -> None:
        """Measure every trial that has not been, as a rule on validation."""
        self._tell_found()
        self._tell_lone()
        batch, lone = self._by_choice()
        seen, self.idle = set[str](), len(lone)
        while batch:
            todo = self._missing(batch, *self.plan.parts)
            self.idle += len({t.id for t in batch} - {t.id for t in todo} - seen)
            seen |= {trial.id for trial in batch}
            for part in self.plan.parts:
                tasks = tasks_of(self._missing(todo, part), part)
                self._complete(tasks, executor, self._tell_trials)
            batch = self._propose()
            if batch:
                self._clear_checkpoints(batch)

    def _tell_trials(self, left: int) -> None:
        """How far the trials are that take time."""
        done, total = len(self.trials) - self.idle - left, self.total - self.idle
        self.worker.context.progress("trials", done, total)

    def _propose(self) -> list[Trial]:
        """What a search tries next, knowing how the trials so far did."""
        lines = self._lines()

        def measured(trial: Trial) -> float | None:
            row = _known(lines, trial, "valid")
            return row.metrics[self.plan.select] if row is not None and row.metrics else None

        batch = self.source.propose(measured)
        rows = self.campaign.lines().values()
        refuse_other_code(rows, self.plan, batch, self.campaign.folder)
        self.trials = [*{trial.id: trial for trial in [*self.trials, *batch]}.values()]
        return batch

    def _tell_found(self) -> None:
        """Say how much of the work is done, and what of it will not be tried again."""
        todo = len(self.todo())
        finished = len(self.trials) - todo
        if finished and (todo or finished == self.total):
            maker = ", made by this very code" if self.same_code else ""
            self.announce(
                f"{counted(finished, 'finished trial')} found{maker}, "
                f"{self.total - finished} to run"
            )
        ids = {trial.id for trial in self.trials}
        others = {trial for trial, _, _ in self.old if trial in ids}
        if others and not self.force:
            self.announce(f"{counted(len(others), 'trial')} of other code found, to run again")
        failed = [row for row in self.rows() if row.status != "ok"]
        if failed and not self.retry_failed:
            self.announce(
                f"{counted(len(failed), 'trial')} failed earlier; --retry-failed tries them again"
            )

    def _tell_lone(self) -> None:
        """Say what is not measured on validation, and what nothing has been chosen among."""
        _, lone = self._by_choice()
        fitted = dict.fromkeys(trial.model.shown for trial in self._missing(lone, "test"))
        if not fitted:
            return
        self.announce(
            f"one setting of {', '.join(fitted)}: nothing to choose, so there is one fit, for the "
            "test; --validate measures it on validation, too"
        )
        ids, rivals = {trial.id for trial in self.trials}, {trial.rival for trial in lone}
        others = [row for row in self.campaign.rows().values() if row.trial not in ids]
        tested = [row for row in others if row.part == "test" and row.rival in rivals]
        here = [row for row in tested if row.split == self.plan.rule.text]
        for name in dict.fromkeys(row.model for row in here):
            self.announce(
                f"{self.campaign.folder} has tests of other settings of {name}, chosen beforehand: "
                "to choose among them, run them together"
            )

    def _test(self, executor: Executor) -> None:
        """Measure the selected trials on test."""
        self.best = selected(self.rows(), self.plan.select)
        self.best |= self._unjudged() | self.lone
        chosen = [replace(trial, stop=0) for trial in self.trials if trial.id in self.best]
        chosen = self._missing(chosen, "test")
        for trial in chosen:
            if trial.id in self.provisional:
                self._record(self.provisional[trial.id])
        winners = self._missing(chosen, "test")

        def tell(left: int) -> None:
            self.worker.context.progress("winners on test", len(winners) - left, len(winners))

        self._complete(tasks_of(winners, "test"), executor, tell)

    def _unjudged(self) -> set[str]:
        """Lists from files that have none for validation, and nothing to be chosen from."""
        skipped = {r.trial for r in self.rows() if r.part == "valid" and r.status == "skipped"}
        rivals = Counter(trial.rival for trial in self.trials)
        return {
            trial.id for trial in self.trials
            if trial.model.one_part and trial.id in skipped and rivals[trial.rival] == 1
        }  # fmt: skip

    def _missing(self, trials: Iterable[Trial], *parts: str) -> list[Trial]:
        """The trials that lack a row, or a metric, on some part."""
        lines = self._lines()
        metrics = {metric.text for metric in self.plan.metrics}

        def lacks(trial: Trial, part: str) -> bool:
            row = _known(lines, trial, part)
            if row is None:
                return True
            if row.status == "ok":
                return (
                    bool(metrics - set(row.metrics))
                    or self._untraced(trial, part)
                    or self._unkept(trial, part)
                )
            return self.retry_failed and row.run != self.id

        return [trial for trial in trials if any(lacks(trial, part) for part in parts)]

    def _in_time(self, trials: list[Trial]) -> list[Trial]:
        """Those that have begun, or whose model has time left to begin them."""
        if math.isinf(self.limit):
            return trials
        rows = self.rows()
        begun = {row.trial for row in rows if row.part == "valid"}
        had = {rival: tuning.seconds for (_, rival), tuning in tunings(rows).items()}
        return [t for t in trials if t.id in begun or had.get(t.rival, 0.0) < self.limit]

    def _unbegun(self) -> dict[str, int]:
        """By model: how many trials its time was too short for."""
        counts = Counter(trial.model.shown for trial in self.trials)
        counts.subtract(trial.model.shown for trial in self._in_time(self.trials))
        return dict(counts)

    def _untraced(self, trial: Trial, part: str) -> bool:
        """Whether a trace is wanted that a finished trial does not have."""
        whole = part == "valid" and not trial.stop
        wanted = self.worker.trace and whole and trial.model.traced
        return wanted and not traces.path_of(self.campaign.folder, trial.id).exists()

    def _unkept(self, trial: Trial, part: str) -> bool:
        """Whether something of a winner is wanted that a finished test has not left."""
        won = part == "test" and trial.id in self.best
        return won and self.worker.keep.lacks(trial, self.plan)

    def _complete(self, tasks: list[Task], executor: Executor, tell: Callable[[int], None]) -> None:
        """Have every task done, here or by another process that is at it already.

        How many trials are left is told, and what is at work before it begins: in this process
        there is nothing else until it ends.
        """
        running: dict[Pending, Task] = {}
        everything = list(tasks)
        try:
            while tasks or running:
                tell(sum(len(task.trials) for task in [*tasks, *running.values()]))
                for task in self._startable(tasks, running.values(), executor):
                    self.at_work([other.title for other in [*running.values(), task]])
                    running[executor.submit(self._job(task))] = task
                if running:
                    self._collect(running, tasks, executor)
                elif tasks:
                    time.sleep(POLL_SECONDS)
                self.at_work([task.title for task in running.values()])
            if everything:
                tell(0)
        finally:
            for task in everything:  # one may have been interrupted before it was running
                task.release()

    def _startable(
        self, tasks: list[Task], running: Collection[Task], executor: Executor
    ) -> Iterator[Task]:
        """Reserve tasks that nobody is at, taking them off the list; drop what others finished."""
        for task in list(tasks):
            if any(other.suspect for other in running):
                return
            if task.suspect and running:
                continue
            if executor.weighs and task.needs is None:
                task.needs = self._needs(task)
            if not executor.takes(task, tasks, len(running)):
                return
            task.claim = self.campaign.claim(task.step)
            if task.claim is None:
                continue
            tasks.remove(task)
            missing = self._missing(task.trials, task.part)
            task.trials = self._in_time(missing)
            self.idle += len(missing) - len(task.trials)
            if task.trials:
                task.begun = time.monotonic()
                yield task
            else:
                task.release()

    def _job(self, task: Task) -> Job:
        """What a worker must know of a task."""
        rows, rounds = self.rows(), dict[str, int]()
        if task.part == "test":
            ids = {trial.id for trial in task.trials}  # other seeds have the same texts
            chosen = [row for row in rows if row.part == "valid" and row.trial in ids]
            rounds = {row.text: row.rounds for row in chosen}
        task.find_place(self.campaign.checkpoints, self.worker)
        return Job(
            task.trials, task.part, leaders(rows, self.plan.select), rounds, task.saved,
            task.needs or Needs(),
        )  # fmt: skip

    def _needs(self, task: Task) -> Needs:
        """What fitting a task takes, as far as its models say."""
        context = replace(self.worker.context, strangers=self.worker.strangers)
        train, _ = self.worker.split.stage(task.part)
        return needs_of([trial.model for trial in task.trials], train, context)

    def _clear_checkpoints(self, going_on: Sequence[Trial] = ()) -> None:
        """Remove what is saved of fits that are not needed any more.

        Those were under way in processes that were killed, or a search has stopped them for good.
        """
        folders = list(self.campaign.checkpoints.glob("*"))
        steps = {task.step for task in tasks_of(self.trials, "")} if folders else set()
        steps -= {task.step for task in tasks_of(going_on, "")}
        for folder in folders:
            step = folder.name.partition("-")[0]
            claim = self.campaign.claim(step) if step in steps else None
            if claim is not None:  # else another process is at it
                Checkpoint(folder).clear()
                claim.release()

    def _collect(self, running: dict[Pending, Task], tasks: list[Task], executor: Executor) -> None:
        """Record what has been finished; work whose process died is started again."""
        while not (done := wait(running, POLL_SECONDS, FIRST_COMPLETED).done):
            self._listen(executor)
        self._listen(executor)
        for future in done:
            task = running.pop(future)
            try:
                outcomes = future.result()
            except WorkerDied as death:
                outcomes = self._lost(task, death) if task.suspect else []
                tasks += [] if task.suspect else [task]
                task.suspect = True
            except Refused as refusal:
                outcomes = [self.worker.lost(trial, task.part, refusal) for trial in task.trials]
            try:
                for outcome in outcomes:
                    self.steps = added(self.steps, outcome.steps)
                    if outcome.provisional:
                        self.provisional[outcome.row.trial] = outcome
                    else:
                        self._record(outcome)
                stopped = any(outcome.row.stopped for outcome in outcomes)
                if outcomes and task.saved is not None and not stopped:
                    Checkpoint(task.saved).clear()
            finally:
                task.release()

    def _listen(self, executor: Executor) -> None:
        """Pass on what processes elsewhere say of their work."""
        for message in executor.heard():
            self.worker.context.progress(*message)

    def _lost(self, task: Task, death: WorkerDied) -> list[Outcome]:
        how = f" ({death})" if str(death) else ""
        reason = f"its process died{how}, alone as in company; was there too little memory?"
        took = (time.monotonic() - task.begun) / len(task.trials)
        return [
            Outcome(self.plan.row(
                trial, task.part, status="failed", reason=reason, stopped=trial.stop,
                fit_seconds=took,
            ))
            for trial in task.trials
        ]  # fmt: skip

    def _record(self, outcome: Outcome) -> None:
        if outcome.unkept:
            told = f"{outcome.row.text}: {outcome.unkept}"
            self.announce(told)
            if outcome.unwritten:
                self.unwritten.append(told)
        row = replace(outcome.row, run=self.id)
        traced = [traces.path_of(self.campaign.folder, row.trial)] if outcome.trace else []
        for path in traced:
            traces.write(path, outcome.trace)
        with STEPS("record"):
            self.campaign.record(row, outcome.values, traced)
        self.old.discard((row.trial, row.part, row.stopped))

    def _describe(self, status: str, crew: Sequence[Mapping[str, Any]] = ()) -> None:
        """Bring what the manifest says of this run up to date, with who else worked for it."""
        data, plan = self.plan.dataset, self.plan
        self.steps = added(self.steps, STEPS.taken())
        self.campaign.add_run({
            "id": self.id, "status": status, "command": [readable(word) for word in self.command],
            "started": self.started, "written": now(), "trials": self.total,
            "search": dict(self.source.about), "unbegun": self._unbegun(),
            "time_limit_seconds": None if math.isinf(self.limit) else self.limit,
            "metrics": [metric.text for metric in plan.metrics], "select": plan.select,
            "split": plan.rule.text, "dtype": plan.dtype, "threads": self.worker.context.threads,
            "dataset": {
                "name": data.name, "fingerprint": data.fingerprint, "users": data.n_users,
                "items": data.n_items, "interactions": len(data),
                "provenance": dict(data.provenance),
            },
            "peak_memory_bytes": peak_memory(), "environment": self.environment,
            "steps": {name: asdict(spent) for name, spent in self.steps.items()},
            **({"crew": list(crew)} if crew else {}),
        })  # fmt: skip

    @property
    def extras(self) -> Iterable[str]:
        """The packages that these models need and others do not."""
        return extras(self.plan.code(self.trials))

    @cached_property
    def environment(self) -> dict[str, Any]:
        """The machine and the versions, looked at once."""
        return describe(*self.plan.code(self.trials))


def _known(lines: Mapping[tuple[str, str, int], Row], trial: Trial, part: str) -> Row | None:
    """What is known of a trial at the round that stops it, also if its fit ended before that."""
    row, whole = (lines.get((trial.id, part, stop)) for stop in (trial.stop, 0))
    if row is not None or whole is None:
        return row
    ended = whole.status != "ok" or 0 < whole.rounds <= trial.stop
    return whole if ended else None
