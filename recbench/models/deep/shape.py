"""What an auto-encoder is like: everything about it but how it is trained."""

from collections.abc import Sequence
from dataclasses import dataclass

LIKELIHOODS = "multinomial", "logistic", "gaussian"
"""What scores of all items may be held against."""


@dataclass(frozen=True)
class Shape:
    """Of an auto-encoder: its layers, what is dropped, and the loss."""

    widths: Sequence[int]
    """Of the layers between what goes in and what comes out."""
    activation: str = "tanh"
    dropout: float = 0.5
    scaled: bool = True
    """Whether rows of what goes in have length 1."""
    likelihood: str = "multinomial"
    """One of LIKELIHOODS."""
    personal: bool = False
    """Whether every user has a vector that the first layer adds."""
    drawn: int | None = None
    """Which of the layers is drawn, from means and variances that the one before makes."""
    beta: float = 0.0
    """What the divergence of what is drawn weighs, in the end."""
    anneal: int = 1
    """After how many steps it would weigh 1."""

    @property
    def made(self) -> list[int]:
        """How many numbers each of the layers is made of; what is drawn, of means and variances."""
        return [width * (2 if at == self.drawn else 1) for at, width in enumerate(self.widths)]

    def numbers(self, users: int, items: int, batch: int) -> tuple[int, int]:
        """How many numbers are trained, and how many a step of so many users makes."""
        made = self.made
        inner = sum(low * high for low, high in zip(self.widths[:-1], made[1:], strict=True))
        trained = items * (made[0] + self.widths[-1] + 1) + inner + sum(made)
        trained += users * made[0] if self.personal else 0
        last = items * (self.widths[-1] + 1)
        return trained, min(batch, users) * (2 * items + 4 * sum(made)) + 2 * last
