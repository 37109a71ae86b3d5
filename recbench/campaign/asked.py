"""What a user asks for: the words, and what of them makes no sense or changes nothing.

Everything is text, a number or a path. What is wrong is refused before any data are touched.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from recbench.brackets import taken_apart
from recbench.campaign.budget import seconds_of
from recbench.campaign.keep import NOTHING, Keep
from recbench.campaign.plan import CHOSEN
from recbench.data.open import OwnFile, Source
from recbench.errors import UsageError, unknown
from recbench.linalg.types import Note, quiet
from recbench.models.base import Model
from recbench.models.deep.library import AUTO, check_device
from recbench.params import params_of, plain
from recbench.splits.base import SplitRule

SEARCHES = ("grid", "random", "tpe", "halving")
AUTO_JOBS = "auto"
MOST = {"trials": 1_000_000, "jobs": 1000, "threads": 10_000}
"""More of them are typing errors, and would take all memory."""
KNOWN = {
    "dtype": ("float32", "float64"),
    "executor": ("local", "dask"),
}
"""Words of which there are few."""


@dataclass(frozen=True)
class Asked:
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

    @property
    def searched(self) -> str:
        """How settings are proposed."""
        return self.search or ("grid" if self.trials is None else "random")

    def refuse(self) -> None:
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
        self._refuse_search()
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
        self._refuse_spread()

    def _refuse_search(self) -> None:
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

    def _refuse_spread(self) -> None:
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

    def refuse_models(self, models: Sequence[Model]) -> None:
        """Refuse models that what was asked for is not for."""
        self._refuse_choice(models)
        self._refuse_devices(models)
        self.refuse_families(models)

    def refuse_families(self, models: Iterable[Model | type[Model]]) -> None:
        """Refuse models that would not know what to do with a spread inverse."""
        for model in models:
            if self.spread and not model.family.spreads:
                raise UsageError(
                    "--spread is for models that are an inverse and a scale for each item, such as "
                    f"ease, and {model.name} is none; leave one of the two out"
                )

    def _refuse_devices(self, models: Sequence[Model]) -> None:
        """Refuse what is no device, or for nothing."""
        for word in self.devices or ("",):
            check_device(word)
        if self.devices != (AUTO,) and models and not any(model.extra for model in models):
            raise UsageError(
                f"--device {','.join(self.devices)} is for models that PyTorch trains, such as "
                f"mult-vae, and {models[0].name} is none; leave it out"
            )

    def _refuse_choice(self, models: Sequence[Model]) -> None:
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

    def refuse_times(self, rule: SplitRule) -> None:
        """Refuse a column of times that nothing would look at."""
        if isinstance(self.data, OwnFile) and self.data.time is not None and not rule.timed:
            raise UsageError(
                f"--time {self.data.time} would change nothing: the split '{rule.name}' does not "
                "look at times; leave it out, or choose one that does, such as --split last"
            )

    def tell(self, models: Sequence[Model]) -> None:
        """Say what of these models will be less than what was typed."""
        self._tell_seeds(models)
        self._tell_idle(models)

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
