"""`edlae-admm`: the low-rank emphasised autoencoder itself, by alternating directions.

Steck (2020) looks for the U and V, n x k, whose W = UVᵀ, without its diagonal, minimises

    F(W) = ‖R - R W0‖² + ‖Λ^½ W0‖²,    W0 = W - diagMat(diag W),    Λ = (p/q) diagMat(g) + λ' I.

A vector β stands for diag W, and scaled multipliers η (γ in the paper) hold the two together. With
Ω = Λ + ωI, one round minimises over V, then U, then β

    ‖R (I + diagMat(β) - W)‖² + Σ_{i≠j} Λ_i W_ij² + Σ_i Ω_i (W_ii - β_i + η_i)²
        + ω Σ_{i≠j} (W_ij - W'_ij)²,   W' the W of the round before,

and adds W_ii - β_i to η_i. Every entry of W thus meets the weight Ω of its row, which is what makes
U and V linear solves with one matrix, G + Ω, the K of this module. Where a round changes nothing
the last term is gone: any ω has the same fixed points, stationary points of F. ω only damps the
steps, which helps where Λ is small. The published code instead adds Ω to the penalty of all of W in
one of the two solves, and forbids negative β; both move the solution away from the minimum of F.
"""

from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from recbench.errors import RecbenchError
from recbench.models.lowrank import (
    Kind,
    LowRankAutoencoder,
    System,
    dropout_param,
    rank_param,
    ridge_param,
)
from recbench.models.scorers import Scorer
from recbench.models.subspace import LowRank, Subspace
from recbench.registry import MODELS, param

Vector = npt.NDArray[np.float64]
Matrix = npt.NDArray[np.floating[Any]]


class NotSettled(RecbenchError):
    """The rounds ran out before the factors came to rest."""


class Round(NamedTuple):
    """How far one round got."""

    objective: float
    """F(W)."""
    change: float
    """‖W - W'‖ / ‖W‖."""
    gap: float
    """‖diag W - β‖ / ‖W‖."""


@dataclass(frozen=True, eq=False)
class AdmmScorer(Scorer):
    """A fitted model and its rounds."""

    trace: tuple[Round, ...] = field(default=(), kw_only=True)


class Alternation:
    """The state of the method."""

    def __init__(self, system: System, omega: float, u: Matrix, v: Matrix) -> None:
        self.system, self.omega = system, omega
        self.g, self.weight = system.diagonals.g, system.diagonals.gamma
        self.u, self.v = u, v
        self.diagonal = self.beta = _diagonal(u, v)
        self.eta = np.zeros_like(self.beta)

    def round(self) -> Round:
        """Update V, U, β and η once."""
        before, old_u, old_v = self.diagonal, self.u, self.v
        own = self.weight * (self.beta - self.eta) - self.omega * before
        image = self.system.gram(self.u)
        self.v = self._solve_v(image, own)
        self.u = self._solve_u(own, old_u, old_v)
        image = self.system.gram(self.u)
        self.diagonal = _diagonal(self.u, self.v)
        reach = _diagonal(image, self.v)
        self.beta = (reach - self.g + self.weight * (self.diagonal + self.eta)) / (
            self.g + self.weight
        )
        self.eta = self.eta + self.diagonal - self.beta
        size = _norm(self.u, self.v)
        return Round(
            self._objective(image, reach),
            _ratio(_distance(self.u, self.v, old_u, old_v), size),
            _ratio(float(np.linalg.norm(self.diagonal - self.beta)), size),
        )

    def _solve_v(self, image: Matrix, own: Vector) -> Matrix:
        """V = Tᵀ U (Uᵀ (G + Ω) U)⁻¹, with orthonormal columns: U follows, and W is the same."""
        right = (1.0 + self.beta)[:, np.newaxis] * image + own[:, np.newaxis] * self.u
        if self.omega:
            right += self.omega * (self.v @ (self.u.T @ self.u))
        system = self.u.T @ (image + self.weight[:, np.newaxis] * self.u)
        factor, _ = np.linalg.qr(right @ np.linalg.pinv(system, hermitian=True))
        return factor

    def _solve_u(self, own: Vector, old_u: Matrix, old_v: Matrix) -> Matrix:
        """U = (G + Ω)⁻¹ T V, where VᵀV = I."""
        right = self.system.gram((1.0 + self.beta)[:, np.newaxis] * self.v)
        right += own[:, np.newaxis] * self.v
        if self.omega:
            right += self.omega * (old_u @ (old_v.T @ self.v))
        return self.system.inverse(right)

    def _objective(self, image: Matrix, reach: Vector) -> float:
        """F from G U and diag(G W), without W.

        With W0 = W - diagMat(d) it is Σ g - 2 tr G W0 + tr W0ᵀ (G + Λ) W0.
        """
        d, penalty = self.diagonal, self.weight - self.omega
        both = self.u.T @ (image + penalty[:, np.newaxis] * self.u)
        square = np.sum(both * (self.v.T @ self.v)) - 2.0 * np.sum(d * (reach + penalty * d))
        square += np.sum(d * d * (self.g + penalty))
        return float(self.g.sum() - 2.0 * (reach - self.g * d).sum() + square)


def _diagonal(u: Matrix, v: Matrix) -> Vector:
    """diag(U Vᵀ)."""
    return np.asarray(np.einsum("ik,ik->i", u, v))


def _product(u: Matrix, v: Matrix, other_u: Matrix, other_v: Matrix) -> float:
    """The inner product of U Vᵀ and U' V'ᵀ."""
    return float(np.sum((u.T @ other_u) * (v.T @ other_v)))


def _norm(u: Matrix, v: Matrix) -> float:
    """‖U Vᵀ‖."""
    return float(np.sqrt(_product(u, v, u, v)))


def _distance(u: Matrix, v: Matrix, other_u: Matrix, other_v: Matrix) -> float:
    """‖U Vᵀ - U' V'ᵀ‖, right to half the digits of what is subtracted."""
    both = _product(u, v, u, v) + _product(other_u, other_v, other_u, other_v)
    return float(np.sqrt(max(both - 2.0 * _product(u, v, other_u, other_v), 0.0)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@MODELS.register("edlae-admm")
@dataclass(frozen=True)
class EdlaeAdmm(LowRankAutoencoder):
    """Emphasised denoising linear autoencoder of rank k, optimised itself; starts at lr-edlae-1."""

    cite = "Steck (2020), Autoencoders that don't overfit towards the Identity"
    kind: ClassVar[Kind] = Kind(emphasised=True, in_data=True)
    k: int = rank_param()
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)
    omega: float = param(0.0, help="ω, damps the steps; raise it if they do not settle", low=0,
                         log=True)  # fmt: skip
    tolerance: float = param(1e-3, help="largest relative change of W, and gap to its diagonal, "
                             "at the end", low=0, open_low=True, high=1, log=True)  # fmt: skip
    rounds: int = param(500, help="most rounds", low=1)

    @property
    def ridge(self) -> float:
        """λ' + ω: the matrix of the linear solves is G + Ω."""
        return self.l2 + self.omega

    def build(self, system: System, subspace: Subspace) -> Scorer:
        """Alternate until nothing moves."""
        u, v = (part[:, : self.k].astype(np.float64) for part in (subspace.into, subspace.out_of))
        state = Alternation(system, self.omega, u, v)
        trace: list[Round] = []
        while not trace or max(trace[-1].change, trace[-1].gap) > self.tolerance:
            if len(trace) == self.rounds:
                raise NotSettled(
                    f"{self.text}: after {len(trace)} rounds W still changes by "
                    f"{trace[-1].change:.0e} and is {trace[-1].gap:.0e} off its diagonal; "
                    "raise omega or tolerance, or allow more rounds"
                )
            trace.append(state.round())
            system.ctx.progress(f"rounds at rank {self.k}", len(trace), self.rounds)
        factors = Subspace(state.u, state.v, system.ctx.dtype)
        base = LowRank(factors, np.full(state.u.shape[1], 1.0 / (1.0 - self.p)))
        return AdmmScorer(base, trace=tuple(trace))
