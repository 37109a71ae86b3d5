"""Linear autoencoders for catalogues that no inverse is made of: each item from a few others.

Every model of `lae` is a scaling of the columns of C = (G + Γ)⁻¹. Here each column is computed on
its own support: the items that alone would explain the most of it. Nothing of items x items is
stored but the products of pairs with a user in common. With all items as support it is the dense
model. As there, all models of equal (p, λ') and support share the columns.
"""

from collections.abc import Hashable, Sequence
from dataclasses import make_dataclass
from functools import partial
from typing import Any

import numpy as np

from recbench.errors import DataError
from recbench.linalg import pairs, support
from recbench.linalg.steps import STEPS
from recbench.linalg.types import Sparse
from recbench.models.base import Family, Model
from recbench.models.context import Context
from recbench.models.linear import lae
from recbench.models.linear.inverse import RAISE, Inverse, diagonals
from recbench.models.scorers import Scorer, SparseItemItem
from recbench.params import inlined, param
from recbench.registry import MODELS

FEWER = "take a smaller support, or a higher k-core"


class SparseAutoencoders(Family[Any]):
    """Fits every model of one (dropout, ridge) and support from the same columns."""

    reserves = True

    def key(self, model: Any) -> Hashable:
        """What the columns depend on."""
        scaling = model.dense.scaling()
        return scaling.dropout, scaling.ridge, model.support, model.looks

    def fit(self, models: Sequence[Any], train: Sparse, ctx: Context) -> list[Scorer]:
        """Solve every column once, then scale them for each model."""
        n = train.shape[1]
        scalings = [model.dense.scaling() for model in models]
        order = pairs.popular_first(train)

        def reserve(size: int, what: str) -> None:
            ctx.reserve(size, f"{what} of {n:,} items", FEWER)

        with STEPS("Gram matrix"):
            gram = pairs.gram(train[:, order], partial(reserve, what="the products"))
        g, gamma = diagonals(train, scalings[0].dropout, scalings[0].ridge)
        try:
            columns, c = support.solve(
                gram, gamma[order], models[0].support, models[0].looks, ctx.dtype,
                reserve=partial(reserve, what="columns"), progress=partial(ctx.progress, "columns"),
            )  # fmt: skip
        except support.NotDefinite:
            raise DataError(f"{models[0].name}: rounding breaks the equations; {RAISE}") from None
        base = SparseItemItem(pairs.rows_again(columns, order))
        inverse = Inverse(g, gamma, c[np.argsort(order)])
        facts = {"weights per item": columns.nnz / n}
        return [Scorer(base, scaling.solve(inverse)[0], facts=facts) for scaling in scalings]

    def operations(self, models: Sequence[Any], train: Sparse, ctx: Context) -> float:
        """A third of a cube for every look at a column; each has so much more to solve."""
        n, looks = float(train.shape[1]), models[0].looks
        cubes = sum((look / looks) ** 3 for look in range(1, looks + 1))
        return float(n * cubes * min(models[0].support, n) ** 3 / 3)


def _sparse(name: str, dense: Any, doc: str) -> Any:
    """The model of this name, which has the parameters of a dense one and a support."""
    fields = [
        ("dense", dense, inlined(dense)),
        ("support", int, param(200, help="items that each item is explained by at most: their "
                               "products are solved for it, and as many weights are kept", low=1,
                               high=1_000_000, log=True, search=(20, 500))),
        ("looks", int, param(2, help="steps in which it is chosen: the first looks for what goes "
                             "with the item, the others for what is left to explain; better, and "
                             "slower the more popular the support is", low=1, high=10)),
    ]  # fmt: skip
    namespace = {
        "family": SparseAutoencoders(), "cite": dense.cite, "__doc__": doc, "__module__": __name__,
    }  # fmt: skip
    made = make_dataclass(
        f"{dense.__name__}Sparse", fields, bases=(Model,), namespace=namespace, frozen=True
    )
    return MODELS.register(name)(made)


EaseSparse = _sparse("ease-sparse", lae.Ease, "EASE for many items: each one from a few others.")
DlaeSparse = _sparse("dlae-sparse", lae.Dlae, "DLAE for many items: each one from a few others.")
EdlaeSparse = _sparse(
    "edlae-sparse", lae.Edlae, "EDLAE for many items: each one from a few others."
)
RlaeSparse = _sparse("rlae-sparse", lae.Rlae, "RLAE for many items: each one from a few others.")
RdlaeSparse = _sparse(
    "rdlae-sparse", lae.Rdlae, "RDLAE for many items: each one from a few others."
)
DeqlL2Sparse = _sparse(
    "deql-l2-sparse", lae.DeqlL2,
    "Decoupled expected quadratic loss for many items: each one from a few others.",
)  # fmt: skip
