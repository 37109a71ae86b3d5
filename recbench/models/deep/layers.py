"""The parameters of graph models: what layers make of a table of users and items."""

from dataclasses import dataclass
from typing import ClassVar

from recbench.errors import UsageError
from recbench.params import Described, param


def _dropout() -> float:
    """The parameter that several of them have."""
    dropout: float = param(
        0.1, help="share of the numbers a layer makes that a step leaves out", low=0, high=1,
        open_high=True, search=(0.0, 0.3),
    )  # fmt: skip
    return dropout


@dataclass(frozen=True)
class Layers(Described):
    """What all of them have."""

    squares: ClassVar[int] = 0
    """Maps of vectors to vectors that a layer trains."""
    tables: ClassVar[int] = 1
    """Tables that a layer makes until the way back is done, as measured."""
    factors: int = param(64, help="length of the vectors of users and items", low=1, log=True)
    layers: int = param(
        2, help="how many there are, each a step along the graph", low=1, high=100, search=(1, 3)
    )
    negatives: str = param(
        "own", help="items that an interaction is held against; own: drawn for it, of those that "
        "the user does not have, as the authors do; shared: drawn once for a step, of all",
        choices=("own", "shared"),
    )  # fmt: skip
    drawn: int = param(1, help="items drawn for an interaction (own) or for a step (shared)", low=1,
                       log=True)  # fmt: skip

    @property
    def along_edges(self) -> int:
        """Numbers that layers make for each end of an edge, until the way back is done."""
        return 0

    def numbers(self, users: int, items: int, interactions: int) -> tuple[int, int]:
        """How many numbers are trained, and how many a step makes on its way."""
        table, square = (users + items) * self.factors, (self.factors + 1) * self.factors
        return (
            table + self.layers * self.squares * square,
            table * (self.layers * self.tables + 4) + 2 * interactions * self.along_edges,
        )

    def faced(self, batch: int, items: int) -> int:
        """Numbers that a step of so many interactions makes besides, holding them against items."""
        drawn = min(self.drawn, items)
        if self.negatives == "shared":
            return 4 * batch * drawn
        return 3 * batch * (drawn - 1) * self.factors * (self.layers + 1)

    def _check_cut(self, name: str, parts: int) -> None:
        """Refuse vectors that cannot be cut into equal parts."""
        if self.factors % parts:
            raise UsageError(
                f"vectors of factors={self.factors} numbers cannot be cut into {name}={parts} "
                f"equal parts; give factors={-(-self.factors // parts) * parts}, or other {name}"
            )


@dataclass(frozen=True)
class Mixed(Layers):
    """Of NGCF."""

    squares: ClassVar[int] = 2
    tables: ClassVar[int] = 8
    form: str = param(
        "code", help="code: as its authors compute it, with means over neighbours and self; paper: "
        "as they print it, with the roots of both ends' degrees", choices=("code", "paper"),
    )  # fmt: skip
    dropout: float = _dropout()


@dataclass(frozen=True)
class Attending(Layers):
    """Of GAT."""

    squares: ClassVar[int] = 1
    tables: ClassVar[int] = 10
    heads: int = param(4, help="ways of attending, each with a part of the vector", low=1)
    dropout: float = _dropout()

    def __post_init__(self) -> None:
        """Check that heads get parts of one length."""
        super().__post_init__()
        self._check_cut("heads", self.heads)

    @property
    def along_edges(self) -> int:
        """Sums, what is softened of them, and shares."""
        return 3 * self.heads * self.layers


@dataclass(frozen=True)
class Gathered(Layers):
    """Of PinSage."""

    squares: ClassVar[int] = 3
    tables: ClassVar[int] = 8
    dropout: float = _dropout()

    def numbers(self, users: int, items: int, interactions: int) -> tuple[int, int]:
        """Two maps follow the layers."""
        trained, made = super().numbers(users, items, interactions)
        return trained + 2 * (self.factors + 1) * self.factors, made


@dataclass(frozen=True)
class Routed(Layers):
    """Of DGCF."""

    tables: ClassVar[int] = 4
    intents: int = param(4, help="what an interaction may be due to; each has a part of the vector",
                         low=1)  # fmt: skip
    iterations: int = param(2, help="how often a layer shares interactions out", low=1, high=100)
    independence: float = param(
        0.01, help="weight of the distance correlation of neighbouring parts", low=0, log=True,
        search=(0.001, 0.1),
    )  # fmt: skip

    def __post_init__(self) -> None:
        """Check that intents get parts of one length."""
        super().__post_init__()
        self._check_cut("intents", self.intents)

    @property
    def along_edges(self) -> int:
        """Scores, shares and what both are made of."""
        return 4 * self.intents * self.layers * self.iterations
