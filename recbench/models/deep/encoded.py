"""What trained auto-encoders rank by: codes of users by what they have, in NumPy."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy import special

from recbench.linalg.types import Floats, Indices, Sparse

ACTIVATIONS: Mapping[str, Callable[[Floats], Floats]] = {
    "tanh": np.tanh,
    "sigmoid": special.expit,
    "relu": lambda values: np.maximum(values, 0),
    "linear": lambda values: values,
}


class Encoded:
    """Layers from the histories of users to their factors."""

    def __init__(
        self,
        enter: Floats,
        layers: Sequence[tuple[Floats | None, Floats, str]],
        scaled: bool,
        users: Floats | None = None,
    ) -> None:
        """Each layer has weights, a bias and an activation; the weights of the first are `enter`.

        `scaled` are histories that are given length 1. `users` is what the first layer adds for
        those who were trained on.
        """
        self.enter, self.layers, self.scaled, self.users = enter, layers, scaled, users

    def __call__(self, history: Sparse, rows: Indices) -> Floats:
        """The factors of a block of users."""
        values = np.asarray(history.astype(self.enter.dtype) @ self.enter)
        if self.scaled:
            lengths = np.maximum(np.diff(history.indptr), 1).astype(values.dtype)
            values /= np.sqrt(lengths)[:, None]
        if self.users is not None:
            values[rows >= 0] += self.users[rows[rows >= 0]]
        for weights, bias, activation in self.layers:
            before = values if weights is None else values @ weights
            values = ACTIVATIONS[activation](before + bias)
        return values
