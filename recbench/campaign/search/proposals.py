"""Where trials come from: a list known beforehand, or a search that learns from validation.

The runner asks for trials, has them measured, and asks again until nothing more is proposed.
What is proposed follows from the seed of the search and from validation values alone, never from
who computed them or when: a search that was killed proposes the same trials again, finds them in
the log, and goes on.
"""

import hashlib
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from recbench.campaign.plan import Plan, Trial
from recbench.campaign.search.space import Choice, Dimension, Space
from recbench.environment import version
from recbench.errors import UsageError
from recbench.models.base import Model
from recbench.params import Value

if TYPE_CHECKING:
    from optuna.study import Study as OptunaStudy
    from optuna.trial import Trial as OptunaTrial

Measured = Callable[[Trial], float | None]
"""The validation value of a finished trial by the metric that selects, at the round that stops it
if there is one; None if it failed."""

STARTUP = 10
"""A learning search begins with so many random draws."""
ROUND = 4
"""It then proposes so many at a time, so that several processes have work; the number does not
depend on how many there are, or they would change what is found."""
TRIES = 20
"""So often it may propose what was tried before; then a random draw takes the place."""


class Proposals(Protocol):
    """What the runner asks for trials."""

    total: int
    """How many there will be."""
    about: Mapping[str, object]
    """What a manifest says of it."""
    outlook: Sequence[str]
    """What a dry run says of it, beside the trials that are known."""

    def propose(self, measured: Measured) -> list[Trial]:
        """The next trials to run, now that those proposed before are finished; none at the end.

        A trial that was proposed before may come again, to be stopped later.
        """


class Listed:
    """Trials that were known beforehand: a grid, or random draws."""

    outlook: Sequence[str] = ()

    def __init__(self, trials: Sequence[Trial], about: Mapping[str, object] | None = None) -> None:
        self.total, self.about = len(trials), about or {"by": "grid"}
        self._left = list(trials)

    def propose(self, measured: Measured) -> list[Trial]:
        """Everything at once."""
        trials, self._left = self._left, []
        return trials


def random_models(spaces: Sequence[Space], trials: int, seed: int) -> list[Model]:
    """Draw so many different models from each space."""
    check_spaces(spaces)
    draws = (itertools.islice(space.draws(seed), trials) for space in spaces)
    models = [model for _, model in itertools.chain.from_iterable(draws)]
    return list({model.text: model for model in models}.values())


def check_spaces(spaces: Sequence[Space]) -> None:
    """Refuse a search in which nothing can vary."""
    if all(space.size == 1 for space in spaces):
        names = ", ".join(space.name for space in spaces)
        raise UsageError(
            f"there is nothing to search for {names}; give a range of a parameter with --grid "
            "(`recbench info MODEL` tells them), or leave --trials and --search out"
        )


class Tpe:
    """Tree-structured Parzen estimators, one study for each model and seed, through Optuna."""

    outlook: Sequence[str] = ()

    def __init__(self, plan: Plan, spaces: Sequence[Space], trials: int, seed: int) -> None:
        check_spaces(spaces)
        self._studies = [
            _Study(plan, space, model_seed, trials, seed)
            for space in {space.text: space for space in spaces}.values()
            for model_seed in (plan.seeds if space.cls.stochastic else (0,))
        ]
        self.total = sum(study.total for study in self._studies)
        self.about: Mapping[str, object] = {
            "by": "tpe", "trials": trials, "seed": seed, "optuna": version("optuna"),
            "spaces": [space.text for space in spaces],
        }  # fmt: skip

    def propose(self, measured: Measured) -> list[Trial]:
        """The next trials of every study; two studies may propose the same."""
        proposed = [trial for study in self._studies for trial in study.propose(measured)]
        return list({trial.id: trial for trial in proposed}.values())


class _Study:
    """The search of one space: asks Optuna, and knows a model that was tried before."""

    def __init__(
        self, plan: Plan, space: Space, model_seed: int, trials: int, search_seed: int
    ) -> None:
        self._plan, self._space, self._model_seed = plan, space, model_seed
        self.total = trials if space.size is None else min(trials, space.size)
        self._study = new_study(f"{search_seed} {model_seed} {space.text}")
        self._draws = space.draws(search_seed)
        self._distributions = {
            name: _distribution(dimension) for name, dimension in space.dimensions.items()
        }
        self._tried: set[str] = set()
        self._open: list[tuple[OptunaTrial, Trial]] = []

    def propose(self, measured: Measured) -> list[Trial]:
        """Learn from what was proposed last, then propose more."""
        for suggestion, trial in self._open:
            self._tell(suggestion, measured(trial))
        count = ROUND if self._tried else STARTUP
        wanted = range(min(count, self.total - len(self._tried)))
        self._open = list(itertools.islice(self._proposed(), len(wanted)))
        return [trial for _, trial in self._open]

    def _tell(self, suggestion: "OptunaTrial", value: float | None) -> None:
        from optuna.trial import TrialState

        if value is None:
            self._study.tell(suggestion, state=TrialState.FAIL)
        else:
            self._study.tell(suggestion, value)

    def _proposed(self) -> Iterator[tuple["OptunaTrial", Trial]]:
        """Proposals that were not tried, until the space is used up."""
        learned = bool(self._tried)
        while True:
            proposal = self._suggestion(TRIES) if learned else None
            proposal = proposal or self._random_draw()
            if proposal is None:
                return
            suggestion, model = proposal
            self._tried.add(model.text)
            yield suggestion, self._plan.trial(model, self._model_seed)

    def _suggestion(self, tries: int) -> tuple["OptunaTrial", Model] | None:
        """What Optuna proposes, if it is new."""
        for _ in range(tries):
            suggestion = self._study.ask(self._distributions)
            values = {
                name: _value(dimension, suggestion.params[name])
                for name, dimension in self._space.dimensions.items()
            }
            model = self._space.model(values)
            if model.text not in self._tried:
                return suggestion, model
            self._tell(suggestion, None)  # known already: it must not count twice
        return None

    def _random_draw(self) -> tuple["OptunaTrial", Model] | None:
        """A random draw, if there is a new one, entered as if Optuna had proposed it."""
        for values, model in self._draws:
            if model.text not in self._tried:
                self._study.enqueue_trial({
                    name: _parameter(dimension, values[name])
                    for name, dimension in self._space.dimensions.items()
                })  # fmt: skip
                return self._study.ask(self._distributions), model
        return None


def new_study(name: str) -> "OptunaStudy":
    """An empty study whose proposals follow from its name and from what it is told."""
    try:
        import optuna
    except ImportError:
        raise UsageError(
            "--search tpe needs an extra: pip install 'recbench-suite[search]'; "
            "--search random needs none"
        ) from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    number = int(hashlib.sha256(name.encode()).hexdigest()[:8], 16)
    sampler = optuna.samplers.TPESampler(seed=number, n_startup_trials=STARTUP)
    return optuna.create_study(direction="maximize", sampler=sampler)


def _ordered(values: Sequence[Value]) -> bool:
    """Whether values have neighbours: numbers do, words do not."""
    return all(isinstance(v, int | float) and not isinstance(v, bool) for v in values)


def _distribution(dimension: Dimension) -> Any:
    """A dimension as Optuna knows it; listed numbers go by their place in ascending order."""
    from optuna import distributions

    if isinstance(dimension, Choice):
        count = len(dimension.values)
        if _ordered(dimension.values):
            return distributions.IntDistribution(0, count - 1)
        return distributions.CategoricalDistribution(range(count))
    if dimension.whole:
        low, high = int(dimension.low), int(dimension.high)
        return distributions.IntDistribution(low, high, log=dimension.log)
    return distributions.FloatDistribution(dimension.low, dimension.high, log=dimension.log)


def _places(dimension: Choice) -> Sequence[Value]:
    if _ordered(dimension.values):
        return sorted(dimension.values, key=lambda value: float(value or 0))
    return dimension.values


def _value(dimension: Dimension, parameter: Any) -> Value:
    """What a parameter of Optuna stands for."""
    if isinstance(dimension, Choice):
        return _places(dimension)[int(parameter)]
    return dimension.tidy(parameter)


def _parameter(dimension: Dimension, value: Value) -> Any:
    """The parameter of Optuna that stands for a value."""
    return _places(dimension).index(value) if isinstance(dimension, Choice) else value
