"""A run as it is asked for: what the command line, files, the library and checks have in common.

Everything is text, a number or a path until `plan` makes a Plan of it: what was typed is checked
before any data are touched.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from recbench.brackets import taken_apart
from recbench.campaign.budget import seconds_of, unbegun
from recbench.campaign.executors import Executor, InProcess, Parcel
from recbench.campaign.folder import Campaign, default_folder
from recbench.campaign.keep import NOTHING, Keep
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
from recbench.data.open import Access, OwnFile, Source, default_split, open_source
from recbench.environment import left_by_limits, refuse_without, usable_cores
from recbench.errors import UsageError, unknown
from recbench.evaluate.metrics import MetricSpec, parse_metric
from recbench.linalg.steps import STEPS, Spent
from recbench.linalg.types import Note, quiet
from recbench.models.base import Model
from recbench.models.context import Context
from recbench.models.deep.library import AUTO, check_device
from recbench.params import make, params_of, plain
from recbench.registry import LOSSES, METRICS, MODELS, SPLITS
from recbench.splits.base import SplitRule

if TYPE_CHECKING:
    from recbench.campaign.cluster.holders import DaskHolders

SEARCHES = ("grid", "random", "tpe", "halving")
AUTO_JOBS = "auto"
MOST = {"trials": 1_000_000, "jobs": 1000, "threads": 10_000}
"""More of them are typing errors, and would take all memory."""
KNOWN = {
    "dtype": ("float32", "float64"),
    "executor": ("local", "dask"),
}
"""Words of which there are few."""

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
class Request:
    """A run in words, each with the meaning that it has on the command line."""

    data: Source = "debian"
    models: Sequence[str] = ()
    sets: Sequence[str] = ()
    grids: Sequence[str] = ()
    search: str | None = None
    """One of SEARCHES; `halving` may have settings: `halving[eta=4]`. None: random with `trials`,
    else grid."""
    trials: int | None = None
    time_limit: str | None = None
    """What the trials of each model and seed may take before no further one begins, as in 30m."""
    search_seed: int = 0
    split: str | None = None
    """None: the one that the data are used with."""
    metrics: Sequence[str] = ()
    """Empty: what papers report for the split."""
    select: str | None = None
    """What chooses on validation, measured whether it is among the metrics or not."""
    seeds: Sequence[int] = (0,)
    dtype: str = "float32"
    parts: tuple[str, ...] = CHOSEN
    validate: bool = False
    """Whether trials are measured on validation even where nothing is chosen among them and that
    takes a fit of its own."""
    one_each: bool = False
    """Whether several settings of a model are refused, since nothing would choose among them."""
    output: Path | None = None
    jobs: int | str = 1
    """How many groups at once; AUTO_JOBS: as many as are faster."""
    threads: int | None = None
    """Of each process; None: every core, divided by the jobs."""
    executor: str = "local"
    scheduler: str | None = None
    spread: bool = False
    """Whether all workers of the cluster hold an inverse together, instead of a fit each."""
    scratch: Path | None = None
    """Where large inverses are kept instead of in memory."""
    devices: tuple[str, ...] = (AUTO,)
    """Where fits compute that can do so elsewhere than on the processor, one for each slot."""
    trace: bool = False
    keep: Keep = NOTHING
    """Where fitted winners and their lists go, if anywhere."""
    debug: bool = False
    force: bool = False
    same_code: bool = False
    """Whether finished trials are run again that other code than this has made."""
    retry_failed: bool = False
    plugins: Sequence[Path] = ()
    """Files that are loaded here already, and must be wherever else models are fitted."""
    command: Sequence[str] = ()
    """What the manifest says was typed."""
    announce: Callable[[str], None] = lambda text: None
    progress: Note = quiet
    at_work: Callable[[Sequence[str]], None] = lambda names: None
    """Told what is being fitted, here or elsewhere, whenever that changes."""
    downloads: Note = quiet
    """Progress in bytes."""

    def plan(self) -> tuple[Plan, Proposals]:
        """Check what was typed, then open the data: what decides the numbers, and the trials."""
        STEPS.noting = True
        STEPS.taken()  # whatever this process did before is no step of the run
        self._check()
        models, proposing = self._search()
        self._check_choice(models)
        self._check_devices(models)
        self._check_families(models)
        self._tell_seeds(models)
        self._tell_idle(models)
        rule = split_from(self.split or default_split(self.data))
        self._check_times(rule)
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

    def _check(self) -> None:
        """Refuse words that do not exist or do not go together."""
        if not self.models:
            raise UsageError("which model? for example -m ease; `recbench list models` shows all")
        for word, values in KNOWN.items():
            if getattr(self, word) not in values:
                raise unknown(word, str(getattr(self, word)), values)
        for word, most in MOST.items():
            number = getattr(self, word)
            if isinstance(number, str) and number != AUTO_JOBS:
                raise UsageError(f"{word} must be a number or {AUTO_JOBS}, not {number}")
            if isinstance(number, int) and not 1 <= number <= most:
                raise UsageError(f"{word} must be from 1 to {most:,}, not {number}")
        self._check_search()
        self.keep.check()
        seconds_of(self.time_limit)  # or it says how a time is written
        if self.validate and self.one_each:
            raise UsageError(
                "to measure validation always and never exclude each other; leave out --validate "
                "or --no-validate"
            )
        if self.time_limit is not None and self.one_each:
            raise UsageError(
                "--time-limit is for trials on validation, and without it there is one setting of "
                "each model; leave one of the two out"
            )
        if self.executor == "dask" and self.scheduler is None:
            raise UsageError("--executor dask needs --scheduler ADDRESS, such as tcp://host:8786")
        if self.executor != "dask" and self.scheduler is not None:
            raise UsageError("--scheduler is for --executor dask; add it, or leave --scheduler out")
        if self.executor == "dask" and self.jobs != 1:
            raise UsageError(
                f"--jobs {self.jobs} is for processes of this machine, and --executor dask fits as "
                "many groups at once as there are workers; leave out --jobs"
            )
        self._check_spread()

    def _check_spread(self) -> None:
        """Refuse to spread an inverse over nothing, or over a file."""
        if not self.spread:
            return
        if self.executor != "dask":
            raise UsageError(
                "--spread has the workers of a cluster hold an inverse together; add --executor "
                "dask --scheduler ADDRESS"
            )
        if self.keep.models is not None:
            raise UsageError(
                "--save keeps a fitted model, and with --spread nobody has all of it; leave one of "
                "the two out"
            )

    def _check_families(self, models: Iterable[Model | type[Model]]) -> None:
        """Refuse models that would not know what to do with a spread inverse."""
        for model in models:
            if self.spread and not model.family.spreads:
                raise UsageError(
                    "--spread is for models that are an inverse and a scale for each item, such as "
                    f"ease, and {model.name} is none; leave one of the two out"
                )

    def _check_devices(self, models: Sequence[Model]) -> None:
        """Refuse what is no device, or for nothing."""
        for word in self.devices or ("",):
            check_device(word)
        if self.devices != (AUTO,) and models and not any(model.extra for model in models):
            raise UsageError(
                f"--device {','.join(self.devices)} is for models that PyTorch trains, such as "
                f"mult-vae, and {models[0].name} is none; leave it out"
            )

    def _check_choice(self, models: Sequence[Model]) -> None:
        """Refuse to leave validation out where it has something to say."""
        if not self.one_each:
            return
        several = [name for name, count in Counter(m.name for m in models).items() if count > 1]
        patient = [model.name for model in models if model.values().get("patience")]
        if self.searched != "grid" or several:
            raise UsageError(
                f"without validation nothing chooses among the settings of "
                f"{', '.join(several) or 'a search'}; give one of each model, or leave out "
                "--no-validate"
            )
        if patient:
            raise UsageError(
                f"{patient[0]} has patience, and validation is what it asks: give a number of "
                "rounds and patience=0, or validate"
            )

    def _check_times(self, rule: SplitRule) -> None:
        """Refuse a column of times that nothing would look at."""
        if isinstance(self.data, OwnFile) and self.data.time is not None and not rule.timed:
            raise UsageError(
                f"--time {self.data.time} would change nothing: the split '{rule.name}' does not "
                "look at times; leave it out, or choose one that does, such as --split last"
            )

    def _tell_seeds(self, models: Sequence[Model]) -> None:
        """Say of which models there will be fewer trials than seeds."""
        fixed = list(dict.fromkeys(model.name for model in models if not model.stochastic))
        if fixed and len(set(self.seeds)) > 1:
            self.announce(f"nothing in {', '.join(fixed)} is random: one trial, whatever the seeds")

    def _tell_idle(self, models: Sequence[Model]) -> None:
        """Say which settings change nothing, as far as they are not a model's own."""
        told = set[tuple[str, str]]()
        for model in models:
            usual, values = params_of(type(model)), model.values()
            for name, why in model.idle.items():
                given = name in values and values[name] != plain(usual[name].default)
                if given and (model.name, name) not in told:
                    told.add((model.name, name))
                    self.announce(f"warning: '{name}' changes nothing in {model.shown}: {why}")

    @property
    def _spare(self) -> bool:
        """Whether nobody has asked for more of validation than what it chooses."""
        asked = self.validate or self.trace or self.parts != CHOSEN
        return self.searched == "grid" and not asked

    @property
    def searched(self) -> str:
        """How settings are proposed."""
        return self.search or ("grid" if self.trials is None else "random")

    def _check_search(self) -> None:
        name, settings = taken_apart(self.searched)
        if name not in SEARCHES:
            raise unknown("search", name, SEARCHES)
        if name != "halving" and settings:
            raise UsageError(f"--search {name} has no settings; --search 'halving[eta=4]' has")
        if name == "halving" and self.time_limit is not None:
            raise UsageError(
                "--search halving knows beforehand how many rounds it makes, and has no winner "
                "before the last; leave out --time-limit, or search with --search random"
            )
        if name == "halving" and self.one_each:
            raise UsageError(
                "--search halving chooses on validation, and --no-validate leaves it out; leave "
                "one of the two out"
            )
        if name == "halving" and "test" in self.parts:
            raise UsageError(
                "--reveal-test shows test values of every trial, and --search halving never tests "
                "those that it stops; leave one of the two out"
            )
        if name == "grid" and self.trials is not None:
            raise UsageError("--trials belongs to --search random, tpe or halving")
        if name in ("random", "tpe") and self.trials is None:
            raise UsageError(f"--search {name} needs --trials N: so many settings of each model")

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
        self._check_families(space.cls for space in spaces)
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
