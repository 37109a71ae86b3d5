"""Plugins with mistakes: models, metrics, splits and readers that raise, leave, lie or write.

A plugin that means harm can do anything. These do not: they fail at some place, in some way, or
give back something odd. Beside them `popularity` and `ease` are run, whose numbers must be those of
a run without the plugin.
"""

import json
import random
import shutil
from pathlib import Path

from bench.attack import mischief
from bench.attack.suite import SECONDS, Verdict, command

TEMPLATE = '''
import sys
from dataclasses import dataclass
from datetime import datetime

import numpy as np
import pandas as pd
import pyarrow as pa
from scipy import sparse

from recbench.errors import DataError, RecbenchError, Refused, UsageError
from recbench.plugin import METRICS, MODELS, Base, Constant, Model, Scorer, param

{top}


class Odd(Base):
    def __init__(self, n_items):
        self.n_items = {n_items}

    def score(self, history, rows):
        scores = np.ones(history.shape, dtype=np.float32)
        {score}
        return scores


@MODELS.register("{name}")
@dataclass(frozen=True)
class Mine(Model):
    """{doc}"""

    x: float = param(1.0, help="a number", low=0)

    def fit(self, train, ctx):
        {fit}
        return {given}


@METRICS.register("odd")
def odd(ranking, k):
    """None."""
    {metric}
    return {value}
'''
ACTS = (
    "raise ValueError('x\\x1b[31my')", "raise KeyError", "raise UsageError('no')",
    "raise Refused('no')", "raise DataError('no')", "raise RecbenchError('\\n' * 5)",
    "raise MemoryError", "raise SystemExit", "sys.exit(0)", "sys.exit('gone')",
    "raise KeyboardInterrupt", "raise RecursionError", "1 / 0", "raise BaseException('x')",
    "raise StopIteration", "raise GeneratorExit", "raise OSError(28, 'full')",
    "raise pa.ArrowMemoryError('no')", "raise UnicodeEncodeError('utf-8', 'x', 0, 1, 'y')",
    "raise ExceptionGroup('x', [ValueError('y')])",
    "raise type('Odd', (Exception,), {'__str__': None})", "np.empty(1 << 60)",
    "sys.setrecursionlimit(300)", "print('x')", "assert False", "(lambda f: f(f))(lambda f: f(f))",
    "np.seterr(all='raise')", "import no_such_module", "pass",
)  # fmt: skip
MODEL_ACTS = (
    *ACTS, "train.data[:] = 7", "train.indices[:] = 0", "train.data.base[:] = 7", "del train",
    "train.resize((1, 1))", "ctx.seed = 3", "np.random.seed(1)", "train = train.tocsc()",
    "train.data.setflags(write=True); train.data[:] = 3",
)  # fmt: skip
GIVEN = (
    "Scorer(Odd(train.shape[1]))", "Scorer(Odd(train.shape[1]))", "Scorer(Odd(train.shape[1]))",
    "Scorer(Constant(np.ones(train.shape[1])))", "None", "7", "Scorer(None)", "Scorer",
    "[Scorer(None)]", "Scorer(Odd(train.shape[1]), np.ones(3))", "Scorer(Odd(train.shape[1]), 'x')",
    "Scorer(Odd(train.shape[1]), np.full(train.shape[1], np.nan))",
    "Scorer(Odd(train.shape[1]), np.full(train.shape[1], 1j))", "Scorer(Constant(np.ones(3)))",
    "Scorer(Constant(None))", "Scorer(Constant('x'))",
    "Scorer(Constant(np.array(['x'] * train.shape[1])))",
    "Scorer(Constant(1j * np.ones(train.shape[1])))",
    "Scorer(Constant(np.array(['2026-01-01'] * train.shape[1], dtype='M8[s]')))",
    "Scorer(Constant(np.ma.masked_array(np.ones(train.shape[1]), np.ones(train.shape[1]))))",
    "Scorer(Odd(train.shape[1]), facts={'x': 'y'})", "Scorer(Odd(train.shape[1]), facts={1: 2})",
    "Scorer(Odd(train.shape[1]), facts={'ndcg@10': 1.0})", "Scorer(Odd(train.shape[1]), facts=[1])",
    "Scorer(Odd(train.shape[1]), facts={'x': 10 ** 400})",
    "Scorer(Odd(train.shape[1]), facts={'x': np.nan})",
    "Scorer(Odd(train.shape[1]), facts={'\\ud800': 1})", "Scorer(Odd(train.shape[1]), facts=None)",
    "Scorer(Odd(train.shape[1]), rounds='x')", "Scorer(Odd(train.shape[1]), rounds=-1)",
    "Scorer(Odd(train.shape[1]), trace=[{'round': 'x'}])", "Scorer(Odd(train.shape[1]), trace=7)",
    "Scorer(Odd(train.shape[1]), stopped=True)", "Scorer(Odd(train.shape[1]), rounds=10 ** 30)",
)  # fmt: skip
SCORES = (
    *(f"{act}" for act in ACTS), "scores = scores[:, :3]", "scores = None", "scores = 'x'",
    "scores = 7", "scores = scores * 1j", "scores = scores.astype(str)",
    "scores = scores.astype('M8[s]')", "scores = np.ma.masked_array(scores, scores > 0)",
    "scores[:] = np.nan", "scores[0, 0] = np.inf", "scores = scores.astype(bool)",
    "scores = scores.astype(object)", "scores = scores.tolist()",
    "scores = sparse.csr_array(scores)", "scores = pd.DataFrame(scores)",
    "scores = scores.astype(np.float16)", "scores = scores.astype(np.int8)",
    "scores = np.asmatrix(scores)", "scores = scores.T", "rows[:] = 0", "history.data[:] = 9",
    "history.indices[:] = 0", "scores = np.broadcast_to(np.ones(1), history.shape)",
    "scores = scores.astype('m8[s]')", "scores = scores.astype(np.longdouble)",
    "scores = np.asfortranarray(scores)", "scores = scores.astype([('x', 'f4')])",
    "scores = scores.astype('V4')", "scores.setflags(write=False)",
)  # fmt: skip
VALUES = (
    "ranking.hits_at(1)[:, 0].astype(float)", "ranking.hits_at(1)[:, 0].astype(float)", "None",
    "'x'", "7", "np.ones(3)", "np.nan", "ranking.hits_at(1)[:, 0] * np.nan",
    "ranking.hits_at(1)[:, 0] * 1j", "[1, 2]", "np.ones((2, 2))", "np.inf", "{}",
    "ranking.hits_at(1)[:, 0].astype(str)", "np.array(['2026-01-01'], dtype='M8[s]')",
    "np.ma.masked_array(ranking.hits_at(1)[:, 0], True)",
)  # fmt: skip
TOPS = (
    *("" for _ in range(30)), *ACTS, "def f(:", "\ud800", "x = '\x00'", "return 3",
    "from recbench import nothing", "MODELS.register('ease')(object)",
    "MODELS.register(7)(object())", "METRICS.register('ndcg')(len)", "MODELS.register('mine2')(7)",
    "MODELS.register('')(dataclass(type('X', (), {})))",
)  # fmt: skip
NONE_REAL = ("1j", "(str)", "M8[s]", "m8[s]", "(object)", "'f4'", "masked_array")
"""What is in the code of scores that are no real numbers."""
RUN = [
    "run", "-q", "--data", mischief.TOY, "--user", "u", "--item", "i", "-k", "ndcg@10",
    "--plugin", "p.py", "-m", "popularity", "-m", "ease",
]  # fmt: skip


class Attack:
    """One plugin."""

    patience = SECONDS

    def set_up(self, folder: Path) -> None:
        """Run what the plugins stand beside, alone."""
        import toys

        self.folder = folder
        (folder / mischief.TOY).write_text(toys.csv_of(toys.two_tastes(60, 20)), encoding="utf-8")
        (folder / "p.py").write_text("", encoding="utf-8")
        done = command(*RUN, "-o", "alone")
        assert done.code == 0, done
        self.honest = _numbers(folder / "alone")

    def attempt(self, dice: random.Random) -> Verdict:
        """Run one plugin, with a mistake or two."""
        import sys

        import numpy as np

        from recbench import registry

        pieces = {
            "top": "", "n_items": "n_items", "score": "pass", "name": "mine", "doc": "Mine.",
            "fit": "pass", "given": GIVEN[0], "metric": "pass", "value": VALUES[0],
        }  # fmt: skip
        choices = {
            "top": TOPS, "score": SCORES, "fit": MODEL_ACTS, "given": GIVEN, "metric": ACTS,
            "value": VALUES, "n_items": ("n_items", "3", "'x'", "None"), "doc": ("", "\\x1b[31m"),
        }  # fmt: skip
        for part in dice.choices(sorted(choices), k=dice.choice([1, 1, 2])):
            pieces[part] = dice.choice(choices[part])
        (self.folder / "p.py").write_bytes(TEMPLATE.format(**pieces).encode("utf-8", "replace"))
        said = {name: piece for name, piece in pieces.items() if name in choices}
        out = self.folder / "out"
        shutil.rmtree(out, ignore_errors=True)
        before = {r: dict(r._loaded) for r in _registries(registry)}
        limit, errors = sys.getrecursionlimit(), np.geterr()
        words = [*RUN, "-m", "mine", "-o", "out"]
        if pieces["metric"] != "pass" or pieces["value"] != VALUES[0]:
            words += ["-k", "odd@5"]
        if dice.random() < 0.3:
            words += ["--trace"]
        if dice.random() < 0.15:
            words = ["check-plugin", "--plugin", "p.py", "mine"]
        try:
            answer = command(*words)
        finally:
            for one, loaded in before.items():
                one._loaded = loaded
            sys.setrecursionlimit(limit)
            np.seterr(**errors)
        found = _numbers(out)
        wrong = {key: value for key, value in found.items() if self.honest.get(key, value) != value}
        if wrong:
            return Verdict("wrong", f"{said}: {wrong}")
        odd = any(word in pieces[part] for part in ("score", "given") for word in NONE_REAL)
        if odd and ("mine", "valid") in found:
            return Verdict("wrong", f"{said}: was measured")
        return answer.verdict(str(said))


def _registries(registry: object):
    return [getattr(registry, name) for name in ("MODELS", "METRICS", "SPLITS", "READERS")]


def _numbers(folder: Path) -> dict[tuple[str, str], float]:
    """The metric of each model and part that was measured."""
    try:
        lines = (folder / "trials.jsonl").read_text(encoding="utf-8").splitlines()
    except OSError:
        return {}
    rows = [json.loads(line) for line in lines]
    return {
        (row["model"], row["part"]): row["metrics"]["ndcg@10"]
        for row in rows
        if row["status"] == "ok" and "ndcg@10" in row["metrics"]
    }
