"""Write tests/golden/metrics_*.csv: random rankings and what four other libraries say of them.

The tests read these files only; the libraries are needed here alone. In a fresh environment:

    pip install ir-measures==0.4.3 ranx==0.3.21 rectools==0.19.0 scikit-learn==1.9.1
    pip install --no-deps recpack==0.3.6
    python scripts/make_metric_goldens.py

(recpack's metrics need no deep-learning framework, though the package asks for one.)

Files: `run` has a line per user (held-out items, recommended items), `items` the train counts,
one file per library its values (a line per user and one for `all`, a column per measure; empty
where the library has no answer), `sources` which of our metrics each measure is to be held
against, and how its definition differs where it does.
"""

import csv
import importlib.metadata
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import ir_measures
import numpy as np
import numpy.typing as npt
import pandas as pd
import ranx
import recpack.metrics
import rectools.metrics
from scipy import sparse

GOLDEN = Path(__file__).resolve().parents[1] / "tests" / "golden"
USERS, ITEMS, DEPTH, TRAIN_USERS = 40, 50, 20, 200
CUTOFFS = (1, 5, 10, 20)
Values = Mapping[int | str, float]
"""A measure's values by user, or under 'all'."""


@dataclass(frozen=True)
class Run:
    """Random recommendations, held-out items and train counts."""

    targets: list[list[int]]
    lists: list[list[int]]
    popularity: npt.NDArray[np.int64]


def random_run(seed: int) -> Run:
    """Lists that find something, of every length from none to full, and t below and above k."""
    rng = np.random.RandomState(seed)
    targets, lists = [], []
    for _ in range(USERS):
        held_out = rng.permutation(ITEMS)[: rng.randint(1, 31)]
        score = rng.random_sample(ITEMS)
        score[held_out] += 0.3
        length = rng.choice([0, rng.randint(1, DEPTH), DEPTH], p=[0.1, 0.2, 0.7])
        targets.append(sorted(held_out.tolist()))
        lists.append(np.argsort(-score)[:length].tolist())
    counts = rng.zipf(1.6, ITEMS).clip(max=TRAIN_USERS)
    counts[:4] = 0, 0, 0, TRAIN_USERS  # some items nobody has, one that everybody has
    return Run(targets, lists, counts.astype(np.int64))


def ir_measures_values(run: Run, k: int) -> Iterator[tuple[str, Values]]:
    """trec_eval's values, through ir_measures."""
    names = {"R": ir_measures.R, "P": ir_measures.P, "nDCG": ir_measures.nDCG}
    names |= {"AP": ir_measures.AP, "Success": ir_measures.Success}
    qrels, scored = _as_dicts(run)
    for name, measure in names.items():
        found = ir_measures.iter_calc([measure @ k], qrels, scored)
        yield f"{name}@{k}", {int(row.query_id): row.value for row in found}


def ranx_values(run: Run, k: int) -> Iterator[tuple[str, Values]]:
    """Ranx's values."""
    qrels, scored = _as_dicts(run)
    for name in ("recall", "precision", "ndcg", "map", "mrr", "hit_rate", "f1"):
        measured = ranx.Run(scored)
        ranx.evaluate(ranx.Qrels(qrels), measured, f"{name}@{k}")
        yield f"{name}@{k}", {int(u): v for u, v in measured.scores[f"{name}@{k}"].items()}


def _as_dicts(run: Run) -> tuple[dict[str, dict[str, int]], dict[str, dict[str, float]]]:
    qrels = {str(u): {str(i): 1 for i in items} for u, items in enumerate(run.targets)}
    scored = {
        str(u): {str(i): 1 / (1 + rank) for rank, i in enumerate(items)}
        for u, items in enumerate(run.lists)
    }
    return qrels, scored


def rectools_values(run: Run, k: int) -> Iterator[tuple[str, Values]]:
    """RecTools' values, including those beyond accuracy."""
    reco = pd.DataFrame(
        [(u, i, 1 + r) for u, items in enumerate(run.lists) for r, i in enumerate(items)],
        columns=["user_id", "item_id", "rank"],
    )
    target = _pairs(run.targets)
    bought = [range(count) for count in run.popularity]
    train = _pairs(bought)[["item_id", "user_id"]].set_axis(["user_id", "item_id"], axis=1)
    kit = rectools.metrics
    for name, metric in {
        "HitRate": kit.HitRate(k=k),
        "Recall": kit.Recall(k=k),
        "Precision": kit.Precision(k=k),
        "F1Beta": kit.F1Beta(k=k),
        "MRR": kit.MRR(k=k),
        "MAP": kit.MAP(k=k),
        "NDCG": kit.NDCG(k=k),
        "NDCG(divide_by_achievable)": kit.NDCG(k=k, divide_by_achievable=True),
    }.items():
        yield f"{name}@{k}", metric.calc_per_user(reco, target).to_dict()
    yield f"MeanInvUserFreq@{k}", kit.MeanInvUserFreq(k=k).calc_per_user(reco, train).to_dict()
    covered = kit.CatalogCoverage(k=k, normalize=True).calc(reco, range(ITEMS))
    yield f"CatalogCoverage@{k}", {"all": covered}


def _pairs(lists: list[list[int]] | list[range]) -> pd.DataFrame:
    rows = [(row, member) for row, members in enumerate(lists) for member in members]
    return pd.DataFrame(rows, columns=["user_id", "item_id"])


def recpack_values(run: Run, k: int) -> Iterator[tuple[str, Values]]:
    """RecPack's values; the only one of the four with recall capped at k."""
    truth = sparse.lil_matrix((USERS, ITEMS))
    scores = sparse.lil_matrix((USERS, ITEMS))
    for user in range(USERS):
        truth[user, run.targets[user]] = 1
        for rank, item in enumerate(run.lists[user]):
            scores[user, item] = DEPTH - rank
    for name in ("RecallK", "CalibratedRecallK", "PrecisionK", "NDCGK", "ReciprocalRankK"):
        metric = getattr(recpack.metrics, name)(k)
        metric.calculate(truth.tocsr(), scores.tocsr())
        table = metric.results
        yield f"{name}@{k}", dict(zip(table["user_id"], table["score"], strict=True))
    metric = recpack.metrics.CoverageK(k)
    metric.calculate(truth.tocsr(), scores.tocsr())
    yield f"CoverageK@{k}", {"all": metric.value}


OVER_T = "sum divided by t, not min(k, t)"
IDEAL_K = "ideal of k hits, not min(k, t)"
LIBRARIES: dict[str, Callable[[Run, int], Iterator[tuple[str, Values]]]] = {
    "ir-measures": ir_measures_values,
    "ranx": ranx_values,
    "rectools": rectools_values,
    "recpack": recpack_values,
}
SOURCES = {
    "ir-measures": {
        "R": ("recall", ""), "P": ("precision", ""), "nDCG": ("ndcg", ""),
        "AP": ("map", OVER_T), "Success": ("hit", ""),
    },
    "ranx": {
        "recall": ("recall", ""), "precision": ("precision", ""), "ndcg": ("ndcg", ""),
        "map": ("map", OVER_T), "mrr": ("mrr", ""), "hit_rate": ("hit", ""), "f1": ("f1", ""),
    },
    "rectools": {
        "HitRate": ("hit", ""), "Recall": ("recall", ""), "Precision": ("precision", ""),
        "F1Beta": ("f1", ""), "MRR": ("mrr", ""), "MAP": ("map", OVER_T),
        "NDCG": ("ndcg", IDEAL_K), "NDCG(divide_by_achievable)": ("ndcg", ""),
        "MeanInvUserFreq": ("novelty", ""), "CatalogCoverage": ("coverage", ""),
    },
    "recpack": {
        "RecallK": ("recall", ""), "CalibratedRecallK": ("recall-capped", ""),
        "PrecisionK": ("precision", ""), "NDCGK": ("ndcg", ""), "ReciprocalRankK": ("mrr", ""),
        "CoverageK": ("coverage", ""),
    },
}  # fmt: skip


def main() -> None:
    """Write every file anew."""
    run = random_run(seed=20)
    pairs = zip(run.targets, run.lists, strict=True)
    rows = ([u, *(" ".join(map(str, x)) for x in pair)] for u, pair in enumerate(pairs))
    write("run", ["user", "targets", "items"], rows)
    write("items", ["item", "train_users"], enumerate(run.popularity.tolist()))
    for library, compute in LIBRARIES.items():
        table = dict(pair for k in CUTOFFS for pair in compute(run, k))
        lines = (
            [row, *(_cell(v.get(row)) for v in table.values())] for row in [*range(USERS), "all"]
        )
        write(library, ["user", *table], lines)
    versions = {library: importlib.metadata.version(library) for library in LIBRARIES}
    write(
        "sources",
        ["library", "version", "measure", "metric", "differs"],
        (
            [lib, versions[lib], name, *ours]
            for lib in SOURCES
            for name, ours in SOURCES[lib].items()
        ),
    )


def _cell(value: float | None) -> str:
    return "" if value is None else repr(float(value))


def write(name: str, header: list[str], rows: Iterator[list[object]] | enumerate[int]) -> None:
    """Write one of the files."""
    with (GOLDEN / f"metrics_{name}.csv").open("w", newline="", encoding="ascii") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        writer.writerows(rows)


if __name__ == "__main__":
    GOLDEN.mkdir(exist_ok=True)
    main()
