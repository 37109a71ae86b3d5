"""Fits that go in rounds: sweeps of least squares, alternating directions, epochs.

`Rounds` is such a fit: what one round does, and what there is after it. `run` goes round. It keeps
the trace, asks validation whether to stop and comes back to the best, hands out what models of
fewer rounds would be, and saves a checkpoint now and then: a fit that was killed goes on from there
and ends in the same bytes.

Where the chosen model is fitted again on train and validation together, validation cannot be asked.
`Context.rounds` then says after how many rounds it stopped before, and this fit stops there too.

A search may want to know what there is after a few rounds before it pays for more. `Context.stop`
says how many. What is handed out then says that it was stopped, and a fit that is told to stop
later, or not at all, goes on from the checkpoint, or from the start where there is none.
"""

import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ClassVar, Protocol, cast

from recbench.errors import RecbenchError
from recbench.linalg import heap
from recbench.linalg.clock import CLOCK
from recbench.linalg.steps import STEPS
from recbench.models.base import Fit
from recbench.models.checkpoint import State
from recbench.models.context import Context
from recbench.models.scorers import Scorer
from recbench.params import param

Trace = Sequence[Mapping[str, float]]
"""What is known of each round."""
NOW = "now"
"""The checkpoint of the round that was saved last."""


class Rounds(ABC):
    """A fit under way."""

    word: ClassVar[str] = "round"
    """What a round is called in a trace."""
    first: ClassVar[int] = 1
    """The number of the first round; 0 where that makes a beginning and improves nothing yet."""

    @abstractmethod
    def advance(self, number: int) -> Mapping[str, float]:
        """Make a round; return what the trace should say of it."""

    def measure(self) -> Mapping[str, float]:
        """What a trace should say besides, where one is wanted: it takes none of its seconds."""
        return {}

    @abstractmethod
    def settled(self, trace: Trace) -> bool:
        """Whether further rounds would change nothing."""

    @abstractmethod
    def look(self) -> Scorer:
        """What there is now, to be measured and forgotten."""

    def hand_out(self) -> Scorer:
        """What there is now, to be kept; no round follows."""
        return self.look()

    @abstractmethod
    def state(self) -> State:
        """Everything that further rounds depend on. It is written at once: no copy is needed."""

    @abstractmethod
    def restore(self, state: State) -> None:
        """Go back to a `state`, or to a `keep`."""

    def keep(self) -> State:
        """Copy what `hand_out` depends on."""
        return {name: array.copy() for name, array in self.state().items()}


class Trainable(Protocol):
    """A model whose fit goes in epochs."""

    @property
    def text(self) -> str:
        """The canonical text of the model."""

    @property
    def training(self) -> Any:
        """What says how many `epochs`, and with what `patience`."""


def but_for_epochs(model: Trainable) -> str:
    """What names the fit that models share which differ in nothing but the number of epochs.

    Where validation has a say in that number, a model shares its fit with no other.
    """
    if model.training.patience:
        return model.text
    return str(replace(cast("Any", model), training=replace(model.training, epochs=1)))


@dataclass(frozen=True)
class Schedule:
    """How long a fit may go on."""

    most: int
    patience: int = 0
    """Stop after this many validations without a new best; 0: validation is not asked."""
    every: int = 1
    """Rounds from one validation to the next."""


def patience_parameter() -> Any:
    """The parameter of that name."""
    return param(
        0, help="stop after this many validations without a new best, and return to it; 0: none",
        low=0,
    )  # fmt: skip


def every_parameter(rounds: str) -> Any:
    """The parameter of that name, in rounds that are called so."""
    return param(1, help=f"{rounds} from one validation to the next", low=1)


def tol_parameter(round_: str) -> Any:
    """The parameter of that name, where what is minimised is known after every round."""
    return param(1e-5, help=f"stop when a {round_} changes the objective by less", low=0)


@dataclass
class Best:
    """The round that validation likes best so far."""

    value: float = float("-inf")
    round: int = 0
    worse: int = 0
    """Validations since then."""
    kept: State = field(default_factory=dict)


def run(
    fit: Rounds, ctx: Context, name: str, key: str, schedule: Schedule, counts: Sequence[int]
) -> list[Fit]:
    """Go round until it is time to stop; for each count, what there is after so many rounds.

    `name` and the word for rounds are what progress is called; `key` tells this fit from others of
    its group. What was reached before an error is handed out all the same.
    """
    course = _Course(fit, ctx, f"{name} {fit.word}s", key, schedule)
    with heap.kept():
        last = _or_why(partial(course.go, counts))
    early = {count: _or_why(partial(course.handed_out, count)) for count in course.handed}
    return [early.get(count, last) for count in counts]


def _or_why(make: Callable[[], Scorer]) -> Fit:
    try:
        return make()
    except RecbenchError as error:
        return error


class _Course:
    """A fit from its first round to its last."""

    def __init__(self, fit: Rounds, ctx: Context, name: str, key: str, schedule: Schedule) -> None:
        self.fit, self.ctx, self.name, self.key, self.schedule = fit, ctx, name, key, schedule
        patient = schedule.patience > 0
        self.validate = ctx.validate if patient else None
        chosen = ctx.rounds.get(key) if patient and self.validate is None else None
        self.most = schedule.most if chosen is None else min(chosen, schedule.most)
        self.stop = ctx.stop or math.inf
        self.trace: list[dict[str, float]] = []
        self.best = Best()
        self.handed: dict[int, State] = {}
        self._saved: set[int] = set()

    @property
    def number(self) -> int:
        """The round that was made last."""
        return self.fit.first + len(self.trace) - 1

    @property
    def seconds(self) -> float:
        """What the rounds have taken, without validation."""
        return self.trace[-1]["seconds"] if self.trace else 0.0

    def go(self, counts: Collection[int]) -> Scorer:
        """Make all rounds, and keep on the way what there is after these."""
        self._resume()
        begun = time.perf_counter()  # what validation takes is lost with a kill, too
        ended = False
        while not ended and self.number < self.stop:
            ended = self._round()
            if not ended and self.number in counts:
                self.handed[self.number] = self.fit.keep()
            if not ended and self.ctx.checkpoint is not None:
                seconds = time.perf_counter() - begun
                self.ctx.checkpoint.save_in_time(self.key, NOW, seconds, self._everything)
        return replace(self._last(), stopped=not ended)

    def _last(self) -> Scorer:
        """What there was when validation liked it best; at the end, if it was never asked."""
        rounds = self.number
        if self.best.kept:
            self.fit.restore(self.best.kept)
            rounds = self.best.round
        return replace(self.fit.hand_out(), trace=self.trace, rounds=rounds)

    def handed_out(self, count: int) -> Scorer:
        """What there was after so many rounds."""
        self.fit.restore(self.handed[count])
        trace = self.trace[: count - self.fit.first + 1]
        return replace(self.fit.hand_out(), trace=trace, rounds=count)

    def _round(self) -> bool:
        """Make a round and measure it if that is due; whether it was the last."""
        start, number = CLOCK.now(), self.number + 1
        with STEPS(f"{self.fit.word}s"):
            notes = self.fit.advance(number)
        seconds = self.seconds + CLOCK.now() - start
        self.trace.append({self.fit.word: number, "seconds": seconds, **notes})
        ended = number >= self.most or self.fit.settled(self.trace)
        total = min(self.schedule.most, self.stop)
        self.ctx.progress(self.name, number, number if ended else int(total))
        return self._stopped() or ended

    def _stopped(self) -> bool:
        """Measure what there is, where that is due; whether validation says to stop."""
        if self.number % self.schedule.every or not (self.validate or self.ctx.watch):
            return False
        scorer = replace(self.fit.look(), trace=self.trace, rounds=self.number)
        if self.ctx.watch is not None:
            self.trace[-1] |= {**self.fit.measure(), **self.ctx.watch(scorer)}
        if self.validate is None:
            return False
        value = self.trace[-1]["validation"] = self.validate(scorer)
        if value > self.best.value:
            self.best = Best(value, self.number, kept=self.fit.keep())
        else:
            self.best.worse += 1
        return self.best.worse >= self.schedule.patience

    def _everything(self) -> tuple[State, Mapping[str, Any]]:
        """What a checkpoint holds, beside those of rounds that are handed out."""
        assert self.ctx.checkpoint is not None
        for number in self.handed.keys() - self._saved:
            self.ctx.checkpoint.save(self.key, str(number), self.handed[number], {})
            self._saved.add(number)
        state = {f"state/{name}": array for name, array in self.fit.state().items()}
        kept = {f"kept/{name}": array for name, array in self.best.kept.items()}
        best = [self.best.value, self.best.round, self.best.worse]
        return state | kept, {"trace": self.trace, "best": best, "handed": [*self.handed]}

    def _resume(self) -> None:
        """Go on from a checkpoint, if there is one, it is whole and not beyond the stop."""
        checkpoint = self.ctx.checkpoint
        saved = checkpoint.load(self.key, NOW) if checkpoint is not None else None
        if checkpoint is None or saved is None:
            return
        arrays, notes = saved
        handed = {number: checkpoint.load(self.key, str(number)) for number in notes["handed"]}
        if None in handed.values() or self.fit.first + len(notes["trace"]) - 1 > self.stop:
            return
        self.handed = {number: one[0] for number, one in handed.items() if one is not None}
        self._saved = set(self.handed)
        self.trace = notes["trace"]
        value, number, worse = notes["best"]
        self.best = Best(value, number, worse, _under("kept/", arrays))
        self.fit.restore(_under("state/", arrays))
        checkpoint.earlier += self.seconds


def _under(prefix: str, arrays: State) -> State:
    return {n.removeprefix(prefix): array for n, array in arrays.items() if n.startswith(prefix)}
