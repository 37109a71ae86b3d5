"""A run as it is asked for: what the command line, files, the library and checks have in common.

What was typed, `Asked`, becomes a Plan, and that is carried out where it is to be.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recbench.brackets import taken_apart
from recbench.campaign.asked import Asked
from recbench.campaign.budget import seconds_of, unbegun
from recbench.campaign.executors import Executor, InProcess, Parcel
from recbench.campaign.folder import Campaign, default_folder
from recbench.campaign.keep import Keep
from recbench.campaign.packed import Packed
from recbench.campaign.plan import CHOSEN, Plan, metric_to_select
from recbench.campaign.processes import Processes
from recbench.campaign.row import Row
from recbench.campaign.runner import Runner
from recbench.campaign.search.grammar import models_from, spaces_from, split_from
from recbench.campaign.search.halving import Halved, Halving, refuse_without_rounds
from recbench.campaign.search.proposals import (
    Listed,
    Proposals,
    Tpe,
    check_spaces,
    new_study,
    random_models,
)
from recbench.campaign.table import table
from recbench.campaign.worker import Worker
from recbench.data.open import Access, default_split, open_source
from recbench.environment import left_by_limits, refuse_without, usable_cores
from recbench.evaluate.metrics import MetricSpec, parse_metric
from recbench.linalg.steps import STEPS, Spent
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.params import make
from recbench.registry import LOSSES, METRICS, MODELS, SPLITS
from recbench.splits.base import SplitRule

if TYPE_CHECKING:
    from recbench.campaign.cluster.holders import DaskHolders

Proposing = Callable[[Plan], Proposals]


@dataclass(frozen=True)
class Finished:
    """What a run ends with."""

    rows: list[Row]
    plan: Plan
    campaign: Campaign
    steps: Mapping[str, Spent]
    """What was spent on each kind of work."""
    unwritten: Sequence[str] = ()
    """Models that could not be kept where they were to be, and why."""

    @property
    def table(self) -> pd.DataFrame:
        """One line per trial and part."""
        return table(self.rows, self.plan.select)

    @property
    def unbegun(self) -> dict[str, int]:
        """By model: how many trials were not begun, since its time was used up."""
        return unbegun(self.campaign.manifest()["runs"][-1:], self.rows)


@dataclass(frozen=True)
class Request(Asked):
    """A run in words, and what makes one of them."""

    def plan(self) -> tuple[Plan, Proposals]:
        """Check what was typed, then open the data: what decides the numbers, and the trials."""
        STEPS.noting = True
        STEPS.taken()  # whatever this process did before is no step of the run
        self.refuse()
        models, proposing = self._search()
        self.refuse_models(models)
        self.tell(models)
        rule = split_from(self.split or default_split(self.data))
        self.refuse_times(rule)
        metrics, select = self._metrics(rule)
        for registry in (MODELS, LOSSES, SPLITS, METRICS):
            for doubt in registry.doubts():
                self.announce(doubt)
        access = Access(fetching={"progress": self.downloads}, announce=self.announce)
        plan = Plan(
            open_source(self.data, access), rule, models, metrics, select.text,
            seeds=tuple(dict.fromkeys(self.seeds)), dtype=self.dtype, parts=self.parts,
            spare=self._spare,
        )  # fmt: skip
        return plan, proposing(plan)

    def runner(self) -> Runner:
        """What carries the plan out in its folder; it knows what is finished and starts nothing."""
        plan, proposals = self.plan()
        context = Context(
            threads=self.threads or max(1, usable_cores() // (self._jobs or 1)),
            scratch=self._there(self.scratch), holders=self._holders(), progress=self.progress,
        )  # fmt: skip
        folder = self.output or default_folder(plan.dataset.name, plan.rule.name)
        keep = Keep(self._there(self.keep.models), self._there(self.keep.lists))
        worker = Worker(plan, context, self.debug, self.trace, keep, self.devices)
        return Runner(
            worker, Campaign(folder), force=self.force, same_code=self.same_code,
            retry_failed=self.retry_failed, announce=self.announce, command=self.command,
            search=proposals, at_work=self.at_work, limit=seconds_of(self.time_limit),
        )  # fmt: skip

    def _holders(self) -> "DaskHolders | None":
        """Who holds large inverses, if not whoever fits."""
        if not self.spread or self.scheduler is None:
            return None
        from recbench.campaign.cluster.holders import DaskHolders  # as of the other executors
        from recbench.campaign.cluster.link import DaskLink

        connect = partial(DaskLink, self.scheduler)
        return DaskHolders(connect, threads=self.threads, announce=self.announce)

    def _there(self, folder: Path | None) -> Path | None:
        """A folder as workers must call it: those of a cluster stand in folders of their own."""
        return folder.resolve() if folder and self.executor == "dask" else folder

    def run(self) -> Finished:
        """Run what is missing; an interrupt says how far it came."""
        return self.carry_out(self.runner())

    def carry_out(self, runner: Runner) -> Finished:
        """Have the runner of this request do its work where the request wants it done."""
        runner.replay()
        for trial in runner.todo():
            if trial.model.extra and self.executor == "local":  # else it may be there, not here
                refuse_without(trial.model.extra, trial.model.name)
        runner.executor = self._executor(runner)
        try:
            rows = runner.run()
        except KeyboardInterrupt as interrupt:
            done = len(runner.trials) - len(runner.todo())
            raise KeyboardInterrupt(
                f"interrupted after {done} of {runner.total} trials; "
                "what is finished is kept: the same command goes on from there"
            ) from interrupt
        return Finished(
            rows, runner.plan, runner.campaign, runner.steps, runner.unwritten
        )  # fmt: skip

    @property
    def _spare(self) -> bool:
        """Whether nobody has asked for more of validation than what it chooses."""
        asked = self.validate or self.trace or self.parts != CHOSEN
        return self.searched == "grid" and not asked

    def _search(self) -> tuple[list[Model], Proposing]:
        """The models that are known beforehand, and what makes trials of them."""
        name, settings = taken_apart(self.searched)
        if name == "tpe":
            return [], self._tpe()
        models, about = self._listed()
        if name != "halving":
            return models, lambda plan: Listed(plan.trials, about)
        rule = make(Halving, settings)
        refuse_without_rounds(models)
        return models, lambda plan: Halved(plan.trials, rule, about)

    def _listed(self) -> tuple[list[Model], Mapping[str, object]]:
        """The points of a grid, or so many random draws, and what a manifest says of them."""
        words = self.models, self.sets, self.grids
        if self.trials is None:
            return models_from(*words, self.announce), {"by": "grid"}
        spaces = spaces_from(*words, self.announce)
        trials, seed = self.trials, self.search_seed
        about = {
            "by": "random", "trials": trials, "seed": seed, "spaces": [s.text for s in spaces],
        }  # fmt: skip
        return random_models(spaces, trials, seed), about

    def _tpe(self) -> Proposing:
        """A search that learns, of which nothing is known beforehand."""
        spaces = spaces_from(self.models, self.sets, self.grids, self.announce)
        trials = self.trials or 0
        check_spaces(spaces)
        self.refuse_families(space.cls for space in spaces)
        new_study("")  # or it says what is not installed
        return lambda plan: Tpe(plan, spaces, trials, self.search_seed)

    def _metrics(self, rule: SplitRule) -> tuple[list[MetricSpec], MetricSpec]:
        """What is measured, and which of it chooses."""
        metrics = [parse_metric(text) for text in self.metrics or rule.metrics]
        select = parse_metric(self.select) if self.select else metrics[0]
        if select.text not in {metric.text for metric in metrics}:
            metrics.append(select)
        return metrics, metric_to_select(metrics, select.text)

    def _executor(self, runner: Runner) -> Executor:
        """Where groups of trials are fitted."""
        worker = runner.worker
        if worker.context.holders is not None:
            from recbench.campaign.cluster.holders import Spreading

            return Spreading(worker)
        if self.executor == "dask" and self.scheduler is not None:
            from recbench.campaign.cluster.executor import Cluster  # brings what most runs do not
            from recbench.campaign.cluster.link import DaskLink  # need, asyncio for one

            return Cluster(
                Parcel.of(worker, self.plugins), partial(DaskLink, self.scheduler),
                threads=self.threads, extras=runner.extras, folder=runner.campaign.folder,
                scratch=worker.context.scratch, announce=self.announce,
            )  # fmt: skip
        parcel = partial(Parcel.of, worker, self.plugins)
        small = not self.debug and may_not_fit(worker.plan)
        if self._jobs is None and small:
            self.announce("one fit at a time: a limit of memory leaves no room for two")
        if (self._jobs or 1) > 1 or small:
            return Processes(parcel(), self._jobs or 1)
        cores = usable_cores()
        if self._jobs or cores == 1 or self.debug or _known_here_alone(worker.plan):
            return InProcess(worker)
        return Packed(worker, parcel, cores, threads=self.threads, announce=self.announce)

    @property
    def _jobs(self) -> int | None:
        """How many groups at once; None: it is found out."""
        return self.jobs if isinstance(self.jobs, int) else None


LIBRARIES = 100 << 20
"""Bytes that compiled code, and the libraries it comes with, take once fits begin."""


def may_not_fit(plan: Plan) -> bool:
    """Whether a limit leaves less than what a matrix of all items, and a copy of it, would take.

    Fits are then made in a process that may be killed, and told of; not of models that only this
    process knows, those of a notebook.
    """
    left = left_by_limits()
    if _known_here_alone(plan):
        return False
    dense = plan.dataset.n_items**2 * np.dtype(plan.dtype).itemsize
    return left is not None and left < LIBRARIES + 2 * dense


def _known_here_alone(plan: Plan) -> bool:
    """Whether something of a plan was defined in a notebook, and no other process can import it."""
    return any(type(thing).__module__ == "__main__" for thing in (plan.rule, *plan.models))
