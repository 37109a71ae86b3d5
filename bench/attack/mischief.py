"""Values that no honest file has, and ways to put one of them into a JSON or YAML document."""

import copy
import json
import random
from pathlib import Path
from typing import Any

ODD: tuple[Any, ...] = (
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, -(2**63) - 1, 10**400, 0.5, -0.0, 1e308,
    float("nan"), float("inf"), float("-inf"), "", " ", "x", "ok", "valid", "9" * 400, "\x00",
    "\x1b[31mred", "\ud800", "ä" * 40, "../../etc/passwd", "/dev/null", "=1+1", "a" * 5000,
    "1e999", "nan", "2026-01-01", [], {}, [None], [[]], [1, "x"], [{}], {"": None}, {"x": 1},
    {"ndcg@10": "high"}, {"ndcg@10": None}, ["a", "b", "c"], {"a": {"b": {"c": []}}},
)  # fmt: skip


def places(document: Any, trail: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to every value in a document."""
    found = [trail] if trail else []
    if isinstance(document, dict):
        for key in document:
            found += places(document[key], (*trail, key))
    elif isinstance(document, list):
        for index in range(len(document)):
            found += places(document[index], (*trail, index))
    return found


def bent(dice: random.Random, document: Any) -> tuple[Any, str]:
    """A copy in which a value or two are odd, gone, or doubled; and what was done."""
    changed, said = copy.deepcopy(document), []
    for _ in range(dice.choice([1, 1, 1, 2])):
        where = places(changed)
        if not where:
            break
        *trail, last = dice.choice(where)
        holder = changed
        for step in trail:
            holder = holder[step]
        act = dice.random()
        path = ".".join(map(str, [*trail, last]))
        if act < 0.15:
            del holder[last]
            said.append(f"no {path}")
        elif act < 0.2 and isinstance(holder, dict):
            holder[dice.choice(["x", "", "schema", "\ud800", "__class__"])] = dice.choice(ODD)
            said.append(f"more in {path}")
        else:
            value = copy.deepcopy(dice.choice(ODD))
            holder[last] = value
            said.append(f"{path}={str(value)[:30]!r}")
    return changed, " and ".join(said)


def dumped(document: Any) -> str:
    """As JSON; numbers of any length are written."""
    import sys

    limit = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(0)
    try:
        return json.dumps(document)
    finally:
        sys.set_int_max_str_digits(limit)


def nested(dice: random.Random) -> str:
    """JSON that is deep, or has a number longer than Python reads."""
    depth = dice.choice([50, 2000, 200_000])
    return dice.choice(["[" * depth, "[" * depth + "]" * depth, '{"a":' * depth, "9" * 6000])


TOY = "toy.csv"


def campaign(folder: Path) -> None:
    """A finished campaign on toy data in folder/whole, of three models, with traces."""
    import toys
    from bench.attack.suite import command

    (folder / TOY).write_text(toys.csv_of(toys.two_tastes(60, 20)), encoding="utf-8")
    done = command(*RUN, "-o", str(folder / "whole"))
    assert done.code == 0, done


RUN = [
    "run", "-q", "--data", TOY, "--user", "u", "--item", "i", "-k", "ndcg@10", "--trace",
    "-m", "ease", "-m", "popularity", "-m", "ials", "--set", "ials.factors=2",
    "--set", "ials.iterations=2", "--grid", "ease.l2=1,10",
]  # fmt: skip


MODELS = ("weights", "constant", "tiles")


def models(folder: Path) -> None:
    """A saved model of each kind, by the name of its kind."""
    import numpy as np

    from recbench.data.open import OwnFile, open_file
    from recbench.models.context import Context
    from recbench.models.save import Recommender, fit
    from recbench.models.scorers import ItemItem, Scorer

    data = open_file(OwnFile(Path(TOY), user="u", item="i"))
    weights = ItemItem(np.random.default_rng(0).random((data.n_items, data.n_items)))
    Recommender("mine", Scorer(weights), data.item_ids).save(folder / "weights")
    fit("popularity", data).save(folder / "constant")
    fit("ease[l2=1]", data, Context(scratch=folder.parent / "tiles")).save(folder / "tiles")


def fetched(folder: Path) -> None:
    """A catalogue with `toy`, which was taken from a file and prepared."""
    from bench.attack.suite import command

    (folder / "datasets.yaml").write_text(CATALOGUE, encoding="utf-8")
    done = command("fetch", "toy", "--from", TOY)
    assert done.code == 0, done


URL = "http://127.0.0.1:9/toy.csv"
CATALOGUE = f"""
toy:
  title: A toy
  licence: mine
  reader: delimited
  options: {{columns: {{user: u, item: i}}}}
  files: [{{name: toy.csv, urls: ["{URL}"]}}]
"""
