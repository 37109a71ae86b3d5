"""How nets are trained: epochs of steps by Adam, whatever the net.

The order of the rows, what is dropped and all other draws of an epoch follow from the seed and the
number of the epoch. So a fit that goes on from a checkpoint needs the parameters, what Adam knows
of them and the number of steps, and nothing of a generator.

Where a step does not fit in memory, its rows are taken in parts whose gradients are added up. That
is the same step, but for rounding.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from recbench.errors import RecbenchError
from recbench.linalg.adam import Adam
from recbench.linalg.types import Floats, Integers
from recbench.models.checkpoint import State
from recbench.models.context import Context
from recbench.models.deep.training import Training
from recbench.models.rounds import Rounds, Trace
from recbench.models.scorers import Base, Scorer

PARTS = "parts of a step"
"""The fact that says in how many parts memory made steps be taken, if in several."""


@dataclass(frozen=True)
class Place:
    """Where a net is, and where its first numbers come from."""

    device: torch.device
    ctx: Context

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the fit."""
        return torch.float64 if np.dtype(self.ctx.dtype) == np.float64 else torch.float32

    def tensor(self, array: Any) -> torch.Tensor:
        """An array that stays as it is; real numbers in the precision of the fit."""
        made = torch.as_tensor(np.ascontiguousarray(array))
        return made.to(self.device, self.dtype if made.is_floating_point() else None)

    def parameter(self, array: Floats) -> torch.nn.Parameter:
        """An array that is trained, beginning with these numbers."""
        return torch.nn.Parameter(self.tensor(array).clone())

    def normal(self, role: str, shape: tuple[int, ...], deviation: float) -> torch.nn.Parameter:
        """Normal numbers, the same on every device and in either precision."""
        drawn = self.ctx.stream(role).standard_normal(shape, dtype=np.float32)
        return self.parameter(drawn * np.float32(deviation))

    def xavier(self, role: str, shape: tuple[int, int]) -> torch.nn.Parameter:
        """Uniform numbers whose spread follows from how much comes in and goes out (Glorot)."""
        end = np.sqrt(6 / sum(shape))
        drawn = self.ctx.stream(role).random(shape, dtype=np.float32)
        return self.parameter((2 * drawn - 1) * np.float32(end))


@dataclass(frozen=True)
class Moment:
    """What a step may depend on, besides its rows."""

    step: int
    """How many steps were made before."""
    noise: torch.Generator
    """On the device of the net; what it gives follows from the seed and the epoch."""


class Net(torch.nn.Module, ABC):
    """A module, its loss, and what ranks once it is trained."""

    @abstractmethod
    def batches(self, draw: np.random.Generator) -> Iterator[Integers]:
        """What the steps of an epoch look at: arrays of numbers, a row for each user or draw."""

    @abstractmethod
    def loss(self, rows: Integers, now: Moment) -> torch.Tensor:
        """The mean of the loss over the rows of a step, or of a part of them."""

    def decaying(self) -> Iterable[torch.Tensor]:
        """The tables of which all squares are penalised by `l2`, in every step."""
        return ()

    @abstractmethod
    def base(self) -> Base:
        """What ranks, in NumPy and of copies: it is saved, and outlives the net."""


class Epochs(Rounds):
    """Training under way."""

    word = "epoch"

    def __init__(
        self, net: Net, name: str, training: Training, pool: Executor, ctx: Context
    ) -> None:
        self.net, self.name, self.training, self.ctx = net, name, training, ctx
        self.tables = dict(net.named_parameters())
        self.descents = {key: descent_of(table, pool) for key, table in self.tables.items()}
        self.device = next(iter(self.tables.values())).device
        self.steps, self.parts, self.rate = 0, 1, training.rate

    def advance(self, number: int) -> Mapping[str, float]:
        """Go over the data once."""
        noise = torch.Generator(device=self.device)
        noise.manual_seed(int(self.ctx.stream(f"noise {number}").integers(2**63)))
        value, seen, self.rate = 0.0, 0, self.training.rate_in(number)
        for rows in self.net.batches(self.ctx.stream(f"epoch {number}")):
            value += self._step(rows, Moment(self.steps, noise)) * len(rows)
            seen += len(rows)
            self.steps += 1
        loss = value / max(seen, 1)
        if not np.isfinite(loss) or not all(map(_bounded, self.tables.values())):
            raise RecbenchError(
                f"{self.name} came to numbers that are not finite in epoch {number}, with rate "
                f"{self.rate:g}; give a smaller rate or more l2"
            )
        return {"loss": loss, "rate": self.rate}

    def settled(self, trace: Trace) -> bool:
        """Never: there is always another epoch."""
        return False

    def look(self) -> Scorer:
        """What ranks by the numbers as they are."""
        with torch.no_grad():
            return Scorer(self.net.base(), facts={PARTS: self.parts} if self.parts > 1 else {})

    def state(self) -> State:
        """The numbers, and what Adam knows of them."""
        state = {f"table/{key}": _numpy(table) for key, table in self.tables.items()}
        for key, descent in self.descents.items():
            state |= {f"adam/{key}/{name}": array for name, array in descent.state().items()}
        return {**state, "steps": np.array(self.steps)}

    def restore(self, state: State) -> None:
        """Take those numbers."""
        with torch.no_grad():
            for key, table in self.tables.items():
                table.copy_(torch.as_tensor(state[f"table/{key}"]))
        if "steps" not in state:  # what was kept to be handed out has no more than tables
            return
        self.steps = int(state["steps"])
        for key, descent in self.descents.items():
            start = f"adam/{key}/"
            known = {k.removeprefix(start): v for k, v in state.items() if k.startswith(start)}
            descent.restore(known)

    def keep(self) -> State:
        """Copy the numbers: nothing else is needed to rank."""
        return {f"table/{key}": _numpy(table).copy() for key, table in self.tables.items()}

    def _step(self, rows: Integers, now: Moment) -> float:
        """Move along the gradient; return the loss."""
        before = now.noise.get_state()
        value = self._gradients(rows, now)
        while value is None:
            if self.parts >= len(rows):
                raise too_little_for(f"a step of {self.name} on {self.device}, even for one row")
            self.parts *= 2
            note = f"{self.name}: too little memory, so a step in {self.parts} parts"
            self.ctx.progress(note, 1, 1)
            now.noise.set_state(before)
            if self.device.type == "cuda":
                torch.cuda.empty_cache()
            value = self._gradients(rows, now)
        for key, table in self.tables.items():
            if table.grad is not None:
                self.descents[key].step(table.grad, self.rate)
        return value

    def _gradients(self, rows: Integers, now: Moment) -> float | None:
        """The loss, its gradient left with the tables; None if memory does not suffice."""
        for table in self.tables.values():
            table.grad = None
        value = 0.0
        try:
            for part in np.array_split(rows, min(self.parts, len(rows))):
                share = len(part) / len(rows)
                loss = self.net.loss(part, now)
                (loss if share == 1 else loss * share).backward()
                value += float(loss.detach()) * share
            return value + self._decay()
        except (RuntimeError, MemoryError) as error:
            if not out_of_memory(error):
                raise
            return None

    def _decay(self) -> float:
        """Add the gradient of the penalty on whole tables; return what that is."""
        value, l2 = 0.0, self.training.l2
        for table in self.net.decaying() if l2 else ():
            flat = table.detach().reshape(-1)
            value += l2 * float(flat @ flat)
            pull = table.detach() * (2 * l2)
            table.grad = pull if table.grad is None else pull.add_(table.grad)
        return value


@contextmanager
def told_of_memory(name: str, device: torch.device) -> Iterator[None]:
    """Make a sentence of it where memory does not suffice for what a net is made of."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not out_of_memory(error):
            raise
        raise too_little_for(f"{name} on {device}") from error


def too_little_for(what: str) -> RecbenchError:
    """The sentence for whoever runs out of memory."""
    return RecbenchError(
        f"there is too little memory for {what}; take narrower layers, or --device cpu"
    )


def out_of_memory(error: RuntimeError | MemoryError) -> bool:
    """Whether memory was what is missing, of a graphics processor or here."""
    kinds = torch.cuda.OutOfMemoryError, MemoryError  # NumPy's is the second
    return isinstance(error, kinds) or "can't allocate memory" in str(error)


def copied(table: torch.Tensor) -> Floats:
    """The numbers of a table as an array of its own, stored by rows."""
    return np.array(_numpy(table), order="C")


def _numpy(table: torch.Tensor) -> Floats:
    """The numbers of a table, shared where it is in main memory."""
    found: Floats = table.detach().cpu().numpy()
    return found


def _bounded(table: torch.Tensor) -> bool:
    """Whether products of its rows are numbers."""
    flat = table.detach().reshape(-1)
    return bool(torch.isfinite(flat @ flat))


def descent_of(table: torch.nn.Parameter, pool: Executor) -> "Compiled | Descent":
    """Adam for one table: compiled where it is in main memory, else by PyTorch."""
    return Compiled(table, pool) if table.device.type == "cpu" else Descent(table)


class Compiled:
    """The Adam of all trained models, on a table's own numbers."""

    def __init__(self, table: torch.nn.Parameter, pool: Executor) -> None:
        numbers = _numpy(table)
        self.shape = numbers.shape if numbers.ndim in (1, 2) else (numbers.size,)
        self.adam, self.pool = Adam(numbers.reshape(self.shape), lazy=False), pool
        self.state, self.restore = self.adam.state, self.adam.restore

    def step(self, gradient: torch.Tensor, rate: float) -> None:
        """Move the table; a sparse gradient is that of some rows, and that of others is 0."""
        if not gradient.is_sparse:
            self.adam.step(self.pool, gradient.numpy().reshape(self.shape), rate)
            return
        some = gradient.coalesce()
        self.adam.step(self.pool, some.values().numpy(), rate, some.indices()[0].numpy())


class Descent:
    """The same arithmetic on another device."""

    def __init__(self, table: torch.nn.Parameter) -> None:
        self.table = table.detach()
        self.mean, self.square = torch.zeros_like(self.table), torch.zeros_like(self.table)
        self.steps = 0

    def step(self, gradient: torch.Tensor, rate: float) -> None:
        """Move the table."""
        self.steps += 1
        b1, b2 = 0.9, 0.999
        dense = gradient.to_dense() if gradient.is_sparse else gradient
        self.mean.mul_(b1).add_(dense, alpha=1 - b1)
        self.square.mul_(b2).addcmul_(dense, dense, value=1 - b2)
        size = self.square.sqrt().mul_((1 - b2**self.steps) ** -0.5).add_(1e-8)
        self.table.addcdiv_(self.mean, size, value=-rate / (1 - b1**self.steps))

    def state(self) -> State:
        """What further steps depend on, besides the table."""
        known = {"mean": _numpy(self.mean), "square": _numpy(self.square)}
        return {**known, "steps": np.array([self.steps])}

    def restore(self, state: State) -> None:
        """Go back to a `state`."""
        self.mean.copy_(torch.as_tensor(state["mean"]))
        self.square.copy_(torch.as_tensor(state["square"]))
        self.steps = int(state["steps"][0])
