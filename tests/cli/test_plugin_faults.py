"""What is wrong in a user's file is reported with its file and line, whatever kind of thing it is.

In each text `#!` marks the line that must be named.
"""

import json

import pytest

HEAD = """from dataclasses import dataclass
import numpy as np
from recbench.plugin import *


"""
MODEL = """@MODELS.register("mine")
@dataclass(frozen=True)
class Mine(Model):
    x: float = param(1.0, help="a number")

"""
RUN = ("run", "--data", "toy.csv", "--user", "u", "--item", "i", "-o", "out", "-k", "ndcg@5")
FAULTS = {
    "an import": ("import no_such_module  #!", [*RUN, "-m", "ease"], "no_such_module"),
    "a mistake at the top": ("x = 1 / 0  #!", [*RUN, "-m", "ease"], "ZeroDivisionError"),
    "a parameter": (
        "@dataclass(frozen=True)\nclass Mine(Model):\n    x: int = param('y')  #!",
        [*RUN, "-m", "ease"], "TypeError",
    ),
    "a name that is taken": (
        "@METRICS.register('ndcg')  #!\ndef ndcg(ranking, k):\n    return 1",
        [*RUN, "-m", "ease"], "two metrics are called 'ndcg'",
    ),
    "fit": (
        f"{MODEL}    def fit(self, train, ctx):\n        return train @ None  #!",
        [*RUN, "-m", "mine"], "",
    ),
    "fit, called by a library": (
        (f"{MODEL}    def fit(self, train, ctx):\n        np.vectorize(odd)([1])\n\n"
        "def odd(x):\n    raise KeyError(x)  #!"),
        [*RUN, "-m", "mine"], "KeyError",
    ),
    "an array from fit": (
        f"{MODEL}    def fit(self, train, ctx):  #!\n        return train.toarray()",
        [*RUN, "-m", "mine"],
        "30), not Scorer; return Scorer(Factors(users, items))",
    ),
    "nothing from fit": (
        f"{MODEL}    def fit(self, train, ctx):  #!\n        pass",
        [*RUN, "-m", "mine"], "fit of mine returned nothing, not Scorer",
    ),
    "an array in a Scorer": (
        f"{MODEL}    def fit(self, train, ctx):\n        return Scorer(train.toarray())  #!",
        [*RUN, "-m", "mine"], "a Scorer holds a Base, not ndarray; make it Scorer(Factors(",
    ),
    "score": (
        ("class Odd(Base):\n    def score(self, history, rows):\n        raise KeyError(7)  #!\n\n"
        f"{MODEL}    def fit(self, train, ctx):\n        return Scorer(Odd())"),
        [*RUN, "-m", "mine"], "KeyError: 7",
    ),
    "a block of scores": (
        ("class Odd(Base):\n    def score(self, history, rows):  #!\n        return np.ones(3)\n\n"
        f"{MODEL}    def fit(self, train, ctx):\n        return Scorer(Odd())"),
        [*RUN, "-m", "mine"], "gave a block of shape (3,) instead of",
    ),
    "a family": (
        "class Mine(Family):\n    def key(self, model):\n        return 1\n\n"
        "    def fit(self, models, train, ctx):  #!\n        return []\n\n"
        f"{MODEL}    family = Mine()".replace("    x:", "    x:"),
        [*RUN, "-m", "mine"], "returned 0 for 1 models; return a list with one Scorer for each",
    ),
    "a metric": (
        "@METRICS.register('mine')\ndef mine(ranking, k):\n    return ranking.items[k, k, k]  #!",
        [*RUN, "-m", "ease", "-k", "mine@3"], "IndexError",
    ),
    "values of a metric": (
        "@METRICS.register('mine')  #!\ndef mine(ranking, k):\n    return [1, 2]",
        [*RUN, "-m", "ease", "-k", "mine@3"], "gave shape (2,) for",
    ),
    "values of a metric with parameters": (
        ("@METRICS.register('mine')\n@dataclass(frozen=True)\nclass Mine(Metric):\n"
        "    def __call__(self, ranking, k):  #!\n        return float('nan')"),
        [*RUN, "-m", "ease", "-k", "mine@3"], "gave values that are not finite",
    ),
    "a split": (
        ("@SPLITS.register('mine')\n@dataclass(frozen=True)\nclass Mine(SplitRule):\n"
        "    def apply(self, data):\n        return data.users  #!"),
        [*RUN, "-m", "ease", "--split", "mine"], "AttributeError",
    ),
    "what a split gives": (
        ("@SPLITS.register('mine')\n@dataclass(frozen=True)\nclass Mine(SplitRule):\n"
        "    def apply(self, data):  #!\n        return data.matrix, data.matrix"),
        [*RUN, "-m", "ease", "--split", "mine"],
        "apply of mine returned tuple, not Split; return Split(text=self.text",
    ),
    "a split to be exported": (
        ("@SPLITS.register('mine')\n@dataclass(frozen=True)\nclass Mine(SplitRule):\n"
        "    def apply(self, data):\n        return data.users  #!"),
        ["export", "debian", "--split", "mine"], "a plugin raised AttributeError",
    ),
    "a reader": (
        ("@READERS.register('mine')\ndef mine(paths, options, limits=None):\n"
        "    return paths.no_such_method()  #!"),
        [*RUN, "-m", "ease", "--reader", "mine"], "a plugin raised AttributeError",
    ),
    "a reader's file": (
        ("@READERS.register('mine')\ndef mine(paths, options, limits=None):\n"
        "    return open('elsewhere.dat')  #!"),
        [*RUN, "-m", "ease", "--reader", "mine"], "No such file or directory (elsewhere.dat)",
    ),
    "what a reader gives": (
        "@READERS.register('mine')  #!\ndef mine(paths, options, limits=None):\n    return []",
        [*RUN, "-m", "ease", "--reader", "mine"],
        "the reader mine returned list, not Interactions",
    ),
    "a fit that takes too little": (
        f"{MODEL}    def fit(self, train):  #!\n        return train",
        [*RUN, "-m", "mine"],
        "fit of mine does not take what it is given (too many positional arguments); define it as",
    ),
    "a metric that takes too little": (
        "@METRICS.register('mine')  #!\ndef mine(ranking):\n    return 1.0",
        [*RUN, "-m", "ease", "-k", "mine@3"], "define it as a function of (ranking, k)",
    ),
    "a split that takes too much": (
        ("@SPLITS.register('mine')\n@dataclass(frozen=True)\nclass Mine(SplitRule):\n"
        "    def apply(self, data, seed):  #!\n        return data"),
        [*RUN, "-m", "ease", "--split", "mine"], "missing a required argument: 'seed'",
    ),
    "a reader that takes too little": (
        "@READERS.register('mine')  #!\ndef mine(paths):\n    return paths",
        [*RUN, "-m", "ease", "--reader", "mine"],
        "the reader mine does not take what it is given",
    ),
    "a model that derives from nothing": (
        "@MODELS.register('mine')  #!\nclass Mine:\n    pass", [*RUN, "-m", "mine"],
        "the model 'mine' must be a class that derives from Model",
    ),
    "a model that is no dataclass": (
        ("@MODELS.register('mine')\nclass Mine(Model):\n    x: float = param(1.0, help='a')\n"
        "\n    def fit(self, train, ctx):  #!\n        return train"), [*RUN, "-m", "mine"],
        "the class Mine is no dataclass; write @dataclass(frozen=True) above it",
    ),
    "parameters that are no fields": (
        ("@MODELS.register('mine')\nclass Mine(MODELS.get('popularity')):\n"
        "    x: float = param(1.0, help='a')\n"
        "\n    def fit(self, train, ctx):  #!\n        return train"), [*RUN, "-m", "mine"],
        "the class Mine is no dataclass; write @dataclass(frozen=True) above it",
    ),
    "a loss": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(QuadraticLoss):\n"
        "    objective = property(lambda self: self)\n\n    def user_terms(self, lengths, items):\n"
        "        return Terms(lengths)  #!"),
        [*RUN, "-m", "als[loss=odd]"], "TypeError",
    ),
    "terms of a loss": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(QuadraticLoss):\n"
        "    objective = property(lambda self: self)\n\n"
        "    def user_terms(self, lengths, items):  #!\n        return lengths"),
        [*RUN, "-m", "als[loss=odd]"], "user_terms returned ndarray (96,), not Terms",
    ),
    "grades of a loss": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(Loss):\n"
        "    response = Response('softplus')\n\n    def grade(self, positives, means):  #!\n"
        "        return 1.0"),
        [*RUN, "-m", "mf[loss=odd,epochs=1]"], "grade of odd returned float, not Grades",
    ),
    "scores that take too little": (
        ("class Odd(Base):\n    def score(self, rows):  #!\n        return rows\n\n"
        f"{MODEL}    def fit(self, train, ctx):\n        return Scorer(Odd())"),
        [*RUN, "-m", "mine"], "Odd.score does not take what it is given",
    ),
    "a family that takes too little": (
        ("class Mine(Family):\n    def key(self, model):\n        return 1\n\n"
        "    def fit(self, models, train):  #!\n        return []\n\n"
        f"{MODEL}    family = Mine()"),
        [*RUN, "-m", "mine"], "define it as fit(self, models, train, ctx)",
    ),
    "a key that takes too little": (
        ("class Mine(Family):\n    def key(self):  #!\n        return 1\n\n"
            "    def fit(self, models, train, ctx):\n        return []\n\n"
        f"{MODEL}    family = Mine()"),
        [*RUN, "-m", "mine"], "define it as key(self, model)",
    ),
    "operations that take too little": (
        ("class Mine(Family):\n    def key(self, model):\n        return 1\n\n"
        "    def fit(self, models, train, ctx):\n        return []\n\n"
        "    def operations(self, models, train):  #!\n        return 1.0\n\n"
        f"{MODEL}    family = Mine()"),
        [*RUN, "-m", "mine", "--dry-run"], "define it as operations(self, models, train, ctx)",
    ),
    "terms that take too little": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(QuadraticLoss):\n"
        "    objective = property(lambda self: self)\n\n"
        "    def user_terms(self, lengths):  #!\n        return lengths"),
        [*RUN, "-m", "als[loss=odd]"], "define it as user_terms(self, lengths, items)",
    ),
    "grades that take too little": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(Loss):\n"
        "    response = Response('softplus')\n\n    def grade(self, positives):  #!\n"
        "        return 1.0"),
        [*RUN, "-m", "mf[loss=odd,epochs=1]"], "define it as grade(self, positives, means)",
    ),
    "a shift that fails": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(Loss):\n"
        "    response = Response('softplus')\n\n    def shift(self, positives):\n"
        "        return positives.no_such  #!\n\n    def grade(self, positives, means):\n"
        "        return 1.0"),
        [*RUN, "-m", "mf[loss=odd,epochs=1]"], "AttributeError",
    ),
    "a shift that takes too little": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(Loss):\n"
        "    response = Response('softplus')\n\n    def shift(self):  #!\n"
        "        return 0.0\n\n    def grade(self, positives, means):\n        return 1.0"),
        [*RUN, "-m", "mf[loss=odd,epochs=1]"], "define it as shift(self, positives)",
    ),
    "a response that fails": (
        ("@LOSSES.register('odd')\n@dataclass(frozen=True)\nclass Mine(Loss):\n"
        "    response = property(lambda self: self.no_such)  #!\n\n"
        "    def grade(self, positives, means):\n        return 1.0"),
        [*RUN, "-m", "mf[loss=odd,epochs=1]"], "AttributeError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_reported_with_file_and_line(fault, recbench, folder):
    code, words, says = FAULTS[fault]
    text = HEAD + code + "\n"
    (line,) = [n for n, words_of in enumerate(text.splitlines(), 1) if words_of.endswith("#!")]
    (folder / "mine.py").write_text(text)
    result = recbench(*words, "--plugin", "mine.py")
    assert result.exit_code in (1, 2, 3), result.output
    told = " ".join(result.stderr.split())
    assert f"mine.py, line {line})" in told, told
    assert says in told
    assert "Traceback" not in result.output


def test_a_fault_elsewhere_in_the_folder_is_that_files(recbench, folder, monkeypatch):
    monkeypatch.syspath_prepend(str(folder))
    (folder / "helper_of_mine.py").write_text("def help(n):\n    return 1 / n\n")
    (folder / "mine.py").write_text(
        f"{HEAD}from helper_of_mine import help\n\n"
        f"{MODEL}    def fit(self, train, ctx):\n        return help(0)\n"
    )
    result = recbench(*RUN, "-m", "mine", "--plugin", "mine.py")
    assert "ZeroDivisionError: division by zero (helper_of_mine.py, line 2)" in result.stderr


def test_a_model_without_a_fit_is_told_so(recbench, folder):
    (folder / "mine.py").write_text(f"{HEAD}{MODEL}")
    result = recbench(*RUN, "-m", "mine", "--plugin", "mine.py")
    assert result.exit_code == 1
    assert "mine has no fit: give its class a method fit(self, train, ctx)" in result.stderr


def test_recommend_tells_the_same(recbench, folder):
    (folder / "mine.py").write_text(
        f"{HEAD}{MODEL}    def fit(self, train, ctx):\n        return 7\n"
    )
    own = ["--data", "toy.csv", "--user", "u", "--item", "i"]
    words = ["--plugin", "mine.py", "-m", "mine", "-o", "lists.csv"]
    result = recbench("recommend", *own, *words)
    assert result.exit_code == 1, result.output
    assert "fit of mine returned int, not Scorer" in result.stderr
    assert "mine.py, line 11)" in result.stderr


def test_rows_keep_where_it_was(recbench, folder):
    (folder / "mine.py").write_text(f"{HEAD}{MODEL}    def fit(self, train, ctx):\n        1 / 0\n")
    recbench(*RUN, "-m", "mine", "-m", "popularity", "--plugin", "mine.py")
    rows = [json.loads(line) for line in (folder / "out" / "trials.jsonl").read_text().splitlines()]
    (failed,) = [row for row in rows if row["status"] == "failed"]
    assert failed["reason"] == "ZeroDivisionError: division by zero (mine.py, line 12)"
    assert any(row["status"] == "ok" for row in rows)


def test_errors_of_ours_name_no_file(recbench, folder):
    result = recbench(*RUN, "-m", "ease[l2=-1]")
    assert result.exit_code == 2
    assert ", line " not in result.stderr
