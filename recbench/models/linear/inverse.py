"""C = (G + Γ)⁻¹ of a train matrix: the heavy step that linear autoencoders share.

With R the train matrix, R (RᵀR + Γ)⁻¹ = (R Γ⁻¹ Rᵀ + I)⁻¹ R Γ⁻¹: what is inverted has a row for
every item, or one for every user. The smaller one takes fewer operations and less memory, and
models do not see which it was.
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import scipy

from recbench.errors import Refused, UsageError
from recbench.linalg import rowinverse
from recbench.linalg.gram import gram
from recbench.linalg.held.heldtiles import HeldTiles, Holders, Wanted
from recbench.linalg.held.holder import Source
from recbench.linalg.padded import Padded
from recbench.linalg.rowinverse import RowInverse, squares
from recbench.linalg.steps import STEPS
from recbench.linalg.tilefolder import TileFolder
from recbench.linalg.tiles import Tiles, inverse, side_for
from recbench.linalg.types import Indices, Matrix, Sparse, Vector
from recbench.models.context import Context
from recbench.models.linear.elsewhere import HeldItemItem
from recbench.models.linear.userside import UserSide
from recbench.models.scorers import Base, ItemItem
from recbench.params import param

RAISE = "raise l2, or compute with --dtype float64"
SMALLER = "keep it on disk with --tiles-on-disk DIR, or take a higher k-core"
SPARSE = 32
"""Operations of a product of tiles that take as long as one of numbers here and there."""


class Symmetric(Protocol):
    """What may be asked of C, whichever side it was found from."""

    def rows(self, indices: npt.NDArray[np.integer[Any]]) -> Matrix:
        """Some rows, in the order asked for."""

    def matmul(self, z: Matrix) -> Matrix:
        """The product with items x s numbers."""

    def diagonal(self) -> Matrix:
        """The diagonal."""


@dataclass(frozen=True)
class Inverse:
    """What the column scalings are made of, one number per item."""

    g: Vector
    """diag G: how many training users have the item."""
    gamma: Vector
    """diag Γ: what was added to the diagonal of G before inverting."""
    c: Vector
    """diag C."""


@dataclass(frozen=True)
class Inverted:
    """C of one dropout and ridge."""

    matrix: Symmetric
    base: Base
    """Scores histories by their product with C."""
    diagonals: Inverse


def invert(train: Sparse, dropout: float, ridge: float, ctx: Context) -> Inverted:
    """Compute C = (G + Γ)⁻¹ for one dropout p and ridge λ', and check it on random vectors.

    The side is a matter of what makes the trial, and of nothing else: it has the same bits wherever
    it runs.
    """
    g, gamma = diagonals(train, dropout, ridge)
    side = _side(train, g, gamma, ctx)
    if ctx.holders is None:
        return {"items": by_items, "users": by_users}[side](train, g, gamma, ctx)
    _refuse_unless_items(side, train)
    return _by_holders(train, g, gamma, ctx, ctx.holders)


def refuse_users(train: Sparse, dropout: float, ridge: float, ctx: Context) -> None:
    """Refuse to have an inverse spread of which users would be inverted."""
    _refuse_unless_items(_side(train, *diagonals(train, dropout, ridge), ctx), train)


def _refuse_unless_items(side: str, train: Sparse) -> None:
    if side != "items":
        raise Refused(
            f"its {train.shape[0]:,} users are inverted here, which takes fewer operations than "
            f"its {train.shape[1]:,} items, and only an inverse of items can be spread; leave out "
            "--spread"
        )


def operations(train: Sparse, dropout: float, ridge: float, ctx: Context) -> float:
    """What it takes, from the side that takes less."""
    return min(_costs(train, *diagonals(train, dropout, ridge), ctx).values())


def diagonals(train: Sparse, dropout: float, ridge: float) -> tuple[Vector, Vector]:
    """The diagonals of G and Γ."""
    g = squares(train)
    gamma = dropout / (1.0 - dropout) * g + ridge
    # An item nobody has is a zero row of G; any positive diagonal leaves it unconnected.
    gamma[g + gamma == 0.0] = 1.0
    return g, gamma


def _side(train: Sparse, g: Vector, gamma: Vector, ctx: Context) -> str:
    """Of which side an inverse takes fewer operations."""
    costs = _costs(train, g, gamma, ctx)
    return min(costs, key=costs.__getitem__)


def _costs(train: Sparse, g: Vector, gamma: Vector, ctx: Context) -> dict[str, float]:
    """Operations of either side; users and items without interactions take none.

    From that of the users, columns of C that need their digits are solved for, and so are users
    who will be ranked for and are not in the train matrix.
    """
    costs = {"items": float(np.count_nonzero(g)) ** 3}
    with np.errstate(over="ignore", divide="ignore"):
        finite = np.isfinite((1.0 / gamma).astype(ctx.dtype)).all()
    if finite:  # nothing on the diagonal has an inverse that is, from the side of the users
        users = float(np.count_nonzero(np.diff(train.indptr)))
        solved = len(rowinverse.weak_columns(train, gamma, ctx.dtype)) + ctx.strangers
        each = rowinverse.products(ctx.dtype) * 2 * users**2
        pairs = float(np.sum(np.bincount(train.indices).astype(np.float64) ** 2))
        costs["users"] = users**3 + solved * each + SPARSE * pairs
    return costs


@dataclass(frozen=True)
class _Ridged:
    """G + Γ, without items that nobody has."""

    matrix: Sparse
    """The interactions, of the items that are kept."""
    added: Vector
    kept: Indices | None
    """None: all items."""

    @classmethod
    def of(cls, train: Sparse, g: Vector, gamma: Vector) -> "_Ridged":
        kept = np.flatnonzero(g).astype(np.int32)
        if len(kept) in (0, train.shape[1]):
            return cls(train, gamma, None)
        return cls(scipy.sparse.csr_array(train[:, kept]), gamma[kept], kept)

    def fill(self, tiles: Tiles) -> None:
        gram(self.matrix, tiles)
        tiles.add_diagonal(self.added)

    def multiply(self, z: Matrix) -> Matrix:
        product: Matrix = self.matrix.T @ (self.matrix @ z)
        return product + self.added[:, np.newaxis] * z


def by_items(train: Sparse, g: Vector, gamma: Vector, ctx: Context) -> Inverted:
    """Invert G + Γ."""
    ridged = _Ridged.of(train, g, gamma)
    tiles = _tiles("items", ridged.matrix, ridged.added, ridged.fill, ridged.multiply, ctx)
    matrix = tiles if ridged.kept is None else Padded(tiles, ridged.kept, 1.0 / gamma)
    return Inverted(
        matrix, ItemItem(matrix), Inverse(g, gamma, matrix.diagonal().astype(np.float64))
    )


def _by_holders(
    train: Sparse, g: Vector, gamma: Vector, ctx: Context, holders: Holders
) -> Inverted:
    """Have G + Γ inverted, by the sums of `by_items`, where nothing but its tiles would fit."""
    ridged = _Ridged.of(train, g, gamma)
    n, identity = ridged.matrix.shape[1], _identity(ridged.matrix, ridged.added, "items")
    source = Source(ridged.matrix, ridged.added)
    wanted = Wanted(source, n, np.dtype(ctx.dtype).name, side_for(n), identity, RAISE)
    folder = None if ctx.scratch is None else ctx.scratch / _folder_name(identity, ctx, "-spread")
    progress = partial(ctx.progress, f"inverse of {n:,} items")
    with STEPS("inverse"):
        held = HeldTiles(wanted, holders, folder, progress)
        held.check_inverse(ridged.multiply, advice=RAISE)
    base = HeldItemItem(held, ridged.kept, 1.0 / gamma)
    matrix = held if ridged.kept is None else Padded(held, ridged.kept, 1.0 / gamma)
    return Inverted(matrix, base, Inverse(g, gamma, matrix.diagonal().astype(np.float64)))


def by_users(train: Sparse, g: Vector, gamma: Vector, ctx: Context) -> Inverted:
    """Invert R Γ⁻¹ Rᵀ + I."""
    some = rowinverse.without_empty_rows(train)

    def fill(tiles: Tiles) -> None:
        rowinverse.fill(some, gamma, tiles)

    def multiply(z: Matrix) -> Matrix:
        product: Matrix = some @ ((some.T @ z) / gamma[:, np.newaxis])
        return product + z

    tiles = _tiles("users", some, gamma, fill, multiply, ctx)
    matrix = RowInverse(tiles, train, gamma)
    with STEPS("diagonal"):
        diagonal = matrix.diagonal()
    return Inverted(matrix, UserSide(matrix), Inverse(g, gamma, diagonal))


def _tiles(
    side: str,
    train: Sparse,
    gamma: Vector,
    fill: Callable[[Tiles], None],
    multiply: Callable[[Matrix], Matrix],
    ctx: Context,
) -> Tiles:
    """The inverse of what `fill` writes and `multiply` multiplies with."""
    n = train.shape[side == "items"]
    what, identity = f"inverse of {n:,} {side}", _identity(train, gamma, side)

    def filled(tiles: Tiles) -> None:
        with STEPS("Gram matrix"):
            fill(tiles)

    with STEPS("inverse"):
        tiles = inverse(
            n, filled, dtype=ctx.dtype, folder=_room(n, what, identity, ctx), identity=identity,
            progress=partial(ctx.progress, what), advice=RAISE,
        )  # fmt: skip
        tiles.check_inverse(multiply, advice=RAISE)
    return tiles


def _identity(train: Sparse, gamma: Vector, side: str) -> str:
    """Name the matrix that is inverted by what it is made of."""
    digest = hashlib.sha256(repr(train.shape).encode())
    for part in (train.indptr.astype(np.int64), train.indices.astype(np.int64), train.data, gamma):
        digest.update(np.ascontiguousarray(part).tobytes())
    if side == "users":  # a name that folders of earlier versions do not have
        digest.update(side.encode())
    return digest.hexdigest()


def _room(n: int, what: str, identity: str, ctx: Context) -> Path | None:
    """Where to keep the tiles: None is in memory. Refuse what does not fit."""
    needed = Tiles.bytes_needed(n, ctx.dtype)
    if ctx.scratch is None:
        ctx.reserve(needed, f"the {what}", SMALLER)
        return None
    folder = ctx.scratch / _folder_name(identity, ctx)
    ctx.reserve_disk(TileFolder(folder).missing(needed), f"the {what}")
    return folder


def _folder_name(identity: str, ctx: Context, more: str = "") -> str:
    return f"inverse-{identity[:12]}-{np.dtype(ctx.dtype).name}{more}"


def ridge_param(default: float) -> Any:
    """The ridge penalty."""
    return param(default, help="ridge penalty λ", low=0, log=True, search=(1, 10_000))


def dropout_param(default: float) -> Any:
    """The dropout of the inputs."""
    return param(
        default, help="dropout: probability that an input is hidden", low=0, high=1, open_high=True,
        grid=(0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9),
    )  # fmt: skip


def settle_penalty(model: Any, default: float) -> None:
    """Fill in the λ' of a model that may be given the paper's λ instead, but not both."""
    if model.l2 is not None and model.l2_effective is not None:
        raise UsageError(f"{model.name}: give 'l2' or 'l2-effective', not both")
    if model.l2 is None and model.l2_effective is None:
        object.__setattr__(model, "l2_effective", default)  # it is frozen, and being made


def effective_penalty(l2: float | None, effective: float | None, unit: float) -> float:
    """The λ' that was given, or the paper's λ in units of it."""
    return float(effective or 0.0) if l2 is None else l2 / unit
