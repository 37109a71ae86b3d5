"""C = (G + Γ)⁻¹ of a train matrix: the heavy step that linear autoencoders share."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from recbench.errors import UsageError
from recbench.linalg.gram import gram
from recbench.linalg.tilefolder import TileFolder
from recbench.linalg.tiles import Tiles, inverse
from recbench.linalg.types import Matrix, Vector
from recbench.models.context import Context
from recbench.params import param

RAISE = "raise l2, or compute with --dtype float64"
SMALLER = "keep it on disk with --tiles-on-disk DIR, or take a higher k-core"


@dataclass(frozen=True)
class Inverse:
    """What the column scalings are made of, one number per item."""

    g: Vector
    """diag G: how many training users have the item."""
    gamma: Vector
    """diag Γ: what was added to the diagonal of G before inverting."""
    c: Vector
    """diag C."""


def invert(
    train: sparse.csr_array, dropout: float, ridge: float, ctx: Context
) -> tuple[Tiles, Inverse]:
    """Compute C = (G + Γ)⁻¹ for one dropout p and ridge λ', and check it on random vectors."""
    items = train.shape[1]
    g = np.bincount(train.indices, weights=train.data**2, minlength=items).astype(np.float64)
    gamma = dropout / (1.0 - dropout) * g + ridge
    # An item nobody has is a zero row of G; any positive diagonal leaves it unconnected.
    gamma[g + gamma == 0.0] = 1.0

    def fill(tiles: Tiles) -> None:
        gram(train, tiles)
        tiles.add_diagonal(gamma)

    def multiply(z: Matrix) -> Matrix:
        product: Matrix = train.T @ (train @ z)
        return product + gamma[:, np.newaxis] * z

    identity = _identity(train, gamma)
    tiles = inverse(
        items, fill, dtype=ctx.dtype, folder=_room(items, identity, ctx), identity=identity,
        progress=partial(ctx.progress, "inverse"), advice=RAISE,
    )  # fmt: skip
    tiles.check_inverse(multiply, advice=RAISE)
    return tiles, Inverse(g, gamma, tiles.diagonal().astype(np.float64))


def _identity(train: sparse.csr_array, gamma: Vector) -> str:
    """Name the matrix G + Γ by what it is made of."""
    digest = hashlib.sha256(repr(train.shape).encode())
    for part in (train.indptr.astype(np.int64), train.indices.astype(np.int64), train.data, gamma):
        digest.update(np.ascontiguousarray(part).tobytes())
    return digest.hexdigest()


def _room(items: int, identity: str, ctx: Context) -> Path | None:
    """Where to keep the tiles: None is in memory. Refuse what does not fit."""
    needed = Tiles.bytes_needed(items, ctx.dtype)
    if ctx.scratch is None:
        ctx.reserve(needed, f"the inverse of {items:,} items", SMALLER)
        return None
    folder = ctx.scratch / f"inverse-{identity[:12]}-{np.dtype(ctx.dtype).name}"
    ctx.reserve_disk(TileFolder(folder).missing(needed), f"the inverse of {items:,} items")
    return folder


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
