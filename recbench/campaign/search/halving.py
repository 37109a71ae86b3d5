"""Successive halving: every trial for a few rounds, the best of them for more, and so on.

With eta=3 the best third by the metric that selects on validation goes on, for three times as many
rounds. The last of them make all of theirs. What goes on depends on validation values alone, never
on who computed them or when: a search that was killed asks again for what is finished, which is
found in the log, and goes on.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from recbench.campaign.plan import Trial
from recbench.campaign.search.proposals import Measured
from recbench.campaign.selection import order
from recbench.errors import UsageError, counted
from recbench.models.base import Model
from recbench.params import Described, param


@dataclass(frozen=True)
class Rung:
    """So many trials, for so many rounds."""

    trials: int
    stop: int
    """0: for all rounds."""


@dataclass(frozen=True)
class Halving(Described):
    """How many trials go on, and when."""

    name = "halving"
    eta: int = param(3, help="one trial of so many goes on, for so many times the rounds", low=2)
    first: int = param(1, help="rounds that every trial gets, at least", low=1)

    def rungs(self, trials: int, rounds: int) -> list[Rung]:
        """From all trials to one that makes all rounds, or to a few.

        There are as many rungs as trials and rounds can be divided for.
        """
        powers = [1]
        while min(trials, rounds // self.first) >= self.eta * powers[-1]:
            powers.append(self.eta * powers[-1])
        counts = [trials // power for power in powers]
        stops = [rounds // power for power in reversed(powers[1:])]
        return [Rung(*pair) for pair in zip(counts, [*stops, 0], strict=True)]


class Halved:
    """Trials that were known beforehand, of which few are fitted to the end."""

    def __init__(self, trials: Sequence[Trial], rule: Halving, about: Mapping[str, object]) -> None:
        rivals: dict[tuple[str, int], list[Trial]] = {}
        for trial in trials:
            rivals.setdefault(trial.rival, []).append(trial)
        self._ladders = [_Ladder(some, rule) for some in rivals.values()]
        self.total = len(trials)
        self.about: Mapping[str, object] = {"by": rule.name, **rule.values(), "of": about}
        seeds = len({seed for _, seed in rivals}) > 1
        self.outlook: Sequence[str] = [
            f"{name} seed {seed}: {ladder.text}" if seeds else f"{name}: {ladder.text}"
            for (name, seed), ladder in zip(rivals, self._ladders, strict=True)
        ]

    def propose(self, measured: Measured) -> list[Trial]:
        """The next rung of the trials of every model and seed."""
        return [trial for ladder in self._ladders for trial in ladder.climb(measured)]


class _Ladder:
    """The trials of one model and seed on their way up."""

    def __init__(self, trials: Sequence[Trial], rule: Halving) -> None:
        self._trials = list(trials)
        self._most = max(trial.model.most_rounds for trial in trials)
        self._rungs = rule.rungs(len(trials), self._most)
        self._left = list(self._rungs)

    def climb(self, measured: Measured) -> list[Trial]:
        """Those that go on, now that the rung below is finished; none at the top."""
        if not self._left:
            return []
        begun = len(self._left) < len(self._rungs)
        rung, *self._left = self._left
        if begun:
            self._trials = _best(self._trials, rung.trials, measured)
        self._trials = [replace(trial, stop=rung.stop) for trial in self._trials]
        return self._trials

    @property
    def text(self) -> str:
        """What is done, and what it costs."""
        rounds = sum(rung.trials * (rung.stop or self._most) for rung in self._rungs)
        return (
            f"{', '.join(self._steps())}: at most the rounds of "
            f"{rounds / self._most:.1f} whole fits instead of {self._rungs[0].trials}"
        )

    def _steps(self) -> Iterator[str]:
        first, *later = self._rungs
        yield f"{counted(first.trials, 'trial')} {self._until(first)}"
        for rung in later:
            yield f"the best {rung.trials} {self._until(rung)}"

    def _until(self, rung: Rung) -> str:
        return f"for {counted(rung.stop, 'round')}" if rung.stop else f"for all {self._most}"


def _best(trials: Sequence[Trial], count: int, measured: Measured) -> list[Trial]:
    """So many that have a value, the best by it; ties go by text, as in every selection."""
    values = [(measured(trial), trial) for trial in trials]
    known = [(value, trial) for value, trial in values if value is not None]
    known.sort(key=lambda one: order(one[0], one[1].model.text))
    best = {trial.id for _, trial in known[:count]}
    return [trial for trial in trials if trial.id in best]


def refuse_without_rounds(models: Sequence[Model]) -> None:
    """Refuse models whose fits cannot be stopped on the way."""
    names = dict.fromkeys(model.name for model in models if not model.most_rounds)
    if names:
        raise UsageError(
            f"--search halving stops fits that go in rounds, and those of {', '.join(names)} do "
            "not: search for these in a run of their own, with --search grid or random"
        )
