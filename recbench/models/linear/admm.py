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

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from recbench.errors import RecbenchError, UsageError, counted
from recbench.linalg import blas, tall
from recbench.linalg.types import Matrix, Vector
from recbench.models.base import Model
from recbench.models.checkpoint import State
from recbench.models.linear.inverse import dropout_param, ridge_param
from recbench.models.linear.lowrank import LowRankAutoencoders, Projection, System
from recbench.models.linear.subspace import LowRank, Subspace, rank_param
from recbench.models.rounds import Rounds, Schedule, Trace, run
from recbench.models.scorers import Scorer
from recbench.params import param
from recbench.registry import MODELS


class NotSettled(RecbenchError):
    """The rounds ran out before the factors came to rest."""


class AdmmRounds(Rounds):
    """The rounds of the method, and their state."""

    def __init__(self, model: "EdlaeAdmm", system: System, u: Matrix, v: Matrix) -> None:
        self.model, self.system, self.omega = model, system, model.omega
        self.g, self.weight = system.diagonals.g, system.diagonals.gamma
        self.u, self.v = u, v
        self.diagonal = self.beta = _diagonal(u, v)
        self.square = _product(u, v, u, v)
        """‖W‖²."""
        self.image = system.gram(u)
        """G U."""
        # What makes β stationary, and with it all of W* at full rank.
        reach = _diagonal(self.image, v)
        self.eta = (self.g - reach + self.g * self.beta) / self.weight
        self.facts = dict[str, float]()

    def advance(self, number: int) -> Mapping[str, float]:
        """Update V, U, β and η once."""
        before, old_u, old_v, old_square = self.diagonal, self.u, self.v, self.square
        own = self.weight * (self.beta - self.eta) - self.omega * before
        self.v = self._solve_v(own)
        self.u = self._solve_u(own, old_u, old_v)
        self.image = self.system.gram(self.u)
        self.diagonal = _diagonal(self.u, self.v)
        reach = _diagonal(self.image, self.v)
        self.beta = (reach - self.g + self.weight * (self.diagonal + self.eta)) / (
            self.g + self.weight
        )
        self.eta = self.eta + self.diagonal - self.beta
        self.square = _product(self.u, self.v, self.u, self.v)
        size = float(np.sqrt(self.square))
        # ‖W - W'‖², right to half the digits of what is subtracted.
        moved = self.square + old_square - 2.0 * _product(self.u, self.v, old_u, old_v)
        self.facts = {"rounds": number, "objective": self._objective(reach)}
        return {
            "objective": self.facts["objective"],  # F(W)
            "change": _ratio(float(np.sqrt(max(moved, 0.0))), size),  # ‖W - W'‖ / ‖W‖
            "gap": _ratio(float(np.linalg.norm(self.diagonal - self.beta)), size),  # of diag W to β
        }

    def settled(self, trace: Trace) -> bool:
        """Whether nothing moves any more."""
        return max(trace[-1]["change"], trace[-1]["gap"]) <= self.model.tolerance

    def look(self) -> Scorer:
        """W, times 1/q."""
        factors = Subspace.of(self.u, self.v, self.system.ctx.dtype)
        (base,) = factors.bases([np.full(factors.rank, 1.0 / (1.0 - self.model.p))])
        return Scorer(base, facts=self.facts | self.model.projection().fewer(base.rank))

    def state(self) -> State:
        """Both factors, both diagonals, and what is known of them."""
        known = np.array([self.square, *self.facts.values()])
        return {
            "u": self.u, "v": self.v, "image": self.image, "diagonal": self.diagonal,
            "beta": self.beta, "eta": self.eta, "known": known,
        }  # fmt: skip

    def restore(self, state: State) -> None:
        """Take those."""
        self.u, self.v, self.image = state["u"], state["v"], state["image"]
        self.diagonal, self.beta, self.eta = state["diagonal"], state["beta"], state["eta"]
        self.square, number, objective = state["known"].tolist()
        self.facts = {"rounds": int(number), "objective": objective}

    def _solve_v(self, own: Vector) -> Matrix:
        """V = Tᵀ U (Uᵀ (G + Ω) U)⁻¹, with orthonormal columns: U follows, and W is the same."""
        right = (1.0 + self.beta)[:, np.newaxis] * self.image + own[:, np.newaxis] * self.u
        if self.omega:
            right += self.omega * _times(self.v, _inner(self.u, self.u))
        system = _inner(self.u, self.image + self.weight[:, np.newaxis] * self.u)
        with blas.workers() as pool:
            solved = tall.times(pool, right, np.linalg.pinv(system, hermitian=True))
            factor, _ = tall.orthonormal(pool, solved)
        return factor

    def _solve_u(self, own: Vector, old_u: Matrix, old_v: Matrix) -> Matrix:
        """U = (G + Ω)⁻¹ T V, where VᵀV = I."""
        right = self.system.gram((1.0 + self.beta)[:, np.newaxis] * self.v)
        right += own[:, np.newaxis] * self.v
        if self.omega:
            right += self.omega * _times(old_u, _inner(old_v, self.v))
        return self.system.inverse(right)

    def _objective(self, reach: Vector) -> float:
        """F from G U and diag(G W), without W.

        With W0 = W - diagMat(d) it is Σ g - 2 tr G W0 + tr W0ᵀ (G + Λ) W0.
        """
        d, penalty = self.diagonal, self.weight - self.omega
        both = _inner(self.u, self.image + penalty[:, np.newaxis] * self.u)
        square = np.sum(both * _inner(self.v, self.v)) - 2.0 * np.sum(d * (reach + penalty * d))
        square += np.sum(d * d * (self.g + penalty))
        return float(self.g.sum() - 2.0 * (reach - self.g * d).sum() + square)


def _inner(left: Matrix, right: Matrix) -> Matrix:
    with blas.workers() as pool:
        return tall.inner(pool, left, right)


def _times(left: Matrix, small: Matrix) -> Matrix:
    with blas.workers() as pool:
        return tall.times(pool, left, small)


def _diagonal(u: Matrix, v: Matrix) -> Vector:
    """diag(U Vᵀ)."""
    return np.asarray(np.einsum("ik,ik->i", u, v))


def _product(u: Matrix, v: Matrix, other_u: Matrix, other_v: Matrix) -> float:
    """The inner product of U Vᵀ and U' V'ᵀ."""
    return float(np.sum(_inner(u, other_u) * _inner(v, other_v)))


def _ratio(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


@MODELS.register("edlae-admm")
@dataclass(frozen=True)
class EdlaeAdmm(Model):
    """Emphasised denoising linear autoencoder of rank k, optimised itself; starts at lr-edlae-1."""

    cite = "Steck (2020), Autoencoders that don't overfit towards the Identity"
    family = LowRankAutoencoders()
    traced = True
    k: int = rank_param("the number of items")
    p: float = dropout_param(0.5)
    l2: float = ridge_param(10.0)
    omega: float = param(0.0, help="ω, damps the steps; raise it if they do not settle", low=0,
                         log=True)  # fmt: skip
    tolerance: float = param(
        1e-3, help="largest relative change of W, and gap to its diagonal, at the end; the "
        "objective may be as far above its minimum",
        low=0, open_low=True, high=1, log=True,
    )  # fmt: skip
    rounds: int = param(500, help="most rounds", low=1)

    def __post_init__(self) -> None:
        """Refuse Ω = 0, which ties nothing to the diagonal."""
        super().__post_init__()
        if self.p == self.l2 == self.omega == 0.0:
            raise UsageError(f"{self.name} needs one of p, l2 and omega above 0; try omega=10")

    @property
    def most_rounds(self) -> int:
        """The number of rounds."""
        return self.rounds

    def projection(self) -> Projection:
        """The one to start from, of G + Ω = G + Γ + ωI: the matrix of the linear solves."""
        return Projection(self.k, self.p, self.l2 + self.omega, refine=self._alternate)

    def _alternate(self, system: System, closed: LowRank) -> Scorer:
        """Alternate until nothing moves, or the fit is stopped."""
        state, name = AdmmRounds(self, system, *_both(closed)), f"rounds at rank {self.k}"
        (fit,) = run(state, system.ctx, name, self.text, Schedule(self.rounds), [self.rounds])
        if isinstance(fit, RecbenchError):
            raise fit
        if not fit.stopped and not state.settled(fit.trace):
            last = fit.trace[-1]
            raise NotSettled(
                f"after {counted(fit.rounds, 'round')} W still changes by {last['change']:.0e} "
                f"and is {last['gap']:.0e} off its diagonal; raise omega or tolerance, or allow "
                "more rounds"
            )
        return fit


def _both(closed: LowRank) -> tuple[Matrix, Matrix]:
    """The factors of a closed form, to start from."""
    subspace = closed.shrunk.subspace
    u, v = (part[:, : closed.rank].astype(np.float64) for part in (subspace.into, subspace.out_of))
    return u, v
