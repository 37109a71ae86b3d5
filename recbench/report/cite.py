"""What to cite: BibTeX entries of models, losses, metrics, splits and datasets.

A class says where it comes from in a line that people read, `cite`: authors, a year in brackets and
a title, or as much of the title as fits. `references.bib` has the entries. The line of a plugin is
found there if it names one of these works; otherwise it is left to the plugin's users.
"""

import re
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

from recbench import __version__
from recbench.brackets import name_in
from recbench.campaign.folder import Campaign
from recbench.data.catalog import load_catalog
from recbench.data.open import SYNTHETIC
from recbench.environment import source
from recbench.errors import UsageError
from recbench.params import classes_within
from recbench.registry import LOSSES, MODELS, SPLITS, parse_described

METRICS_FROM = {
    "coverage": "ge2010coverage",
    "f1": "herlocker2004evaluating",
    "gini": "fleder2009blockbuster",
    "hit": "deshpande2004itemknn",
    "map": "manning2008ir",
    "mrr": "voorhees1999trec8",
    "ndcg": "jarvelin2002cumulated",
    "ndcg-ngcf": "wang2019ngcf",
    "novelty": "zhou2010dilemma",
    "popularity": "steck2011popularity",
    "precision": "herlocker2004evaluating",
    "rbp": "moffat2008rbp",
    "recall": "herlocker2004evaluating",
    "recall-capped": "liang2018vae",
}
"""Where metrics come from; some are older than any paper, then it is one that explains them."""


@cache
def references() -> Mapping[str, str]:
    """All entries by key."""
    text = (files("recbench.report") / "references.bib").read_text(encoding="utf-8")
    return entries(text)


def entries(text: str) -> dict[str, str]:
    """The entries of a BibTeX text by key."""
    found = re.finditer(r"^@\w+\{(\S+?),.*?^\}", text, re.MULTILINE | re.DOTALL)
    return {entry[1]: entry[0] for entry in found}


def _plain(text: str) -> str:
    """Nothing but letters and digits: titles are printed in many ways."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


@cache
def _titles() -> Mapping[str, str]:
    """The key of each title."""
    titles = {}
    for key, entry in references().items():
        line = re.search(r"^  title = \{(.*)\},?$", entry, re.MULTILINE)
        assert line is not None
        titles[_plain(line[1])] = key
    return titles


def works(cite: str) -> list[str]:
    """The keys of the works that such a line names; several have ; or a new line between."""
    keys = []
    for one in re.split(r";|\n", cite):
        title = _plain(re.sub(r"^.*?\(\d{4}\),", "", one))
        if title:
            keys += [k for t, k in _titles().items() if t.startswith(title) or title.startswith(t)]
    return keys


def of_thing(thing: Any, settings: Mapping[str, str] | None = None) -> list[str]:
    """The works behind a class, and behind the parts that these settings give it."""
    parts = classes_within(thing, settings or {}) if isinstance(thing, type) else [thing]
    return [key for part in parts for key in works(getattr(part, "cite", ""))]


def own_entry() -> str:
    """That of recbench itself, as it is installed."""
    where = source()
    commit = f"commit {where['commit'][:12]}" if where.get("commit") else ""
    lines = [
        "author = {{The recbench maintainers}}",
        "title = {recbench: a benchmark suite for implicit-feedback recommenders}",
        f"version = {{{__version__}}}",
        *([f"note = {{{commit}}}"] if commit else []),
        "license = {Apache-2.0}",
    ]
    return "@software{recbench,\n  " + ",\n  ".join(lines) + "\n}"


def bibtex(keys: Iterable[str], others: Iterable[str] = ()) -> str:
    """These entries and other BibTeX texts, each once."""
    chosen = {key: references()[key] for key in keys}
    for text in others:
        chosen = {**entries(text), **chosen}
    return "\n\n".join(chosen.values())


def of_name(name: str) -> str:
    """Where everything of this name comes from; what has no paper is recbench's own."""
    bare, keys = name_in(name), list[str]()
    for registry in (MODELS, LOSSES, SPLITS):
        if bare in registry.names():
            keys += of_thing(*parse_described(name, registry))
    if bare in METRICS_FROM:
        keys.append(METRICS_FROM[bare])
    entry = load_catalog().get(name)
    texts = [entry.cite] if entry is not None and entry.cite else []
    return bibtex(keys, texts or ([] if keys else [own_entry()]))


def of_campaign(campaign: Campaign) -> tuple[str, list[str]]:
    """Everything that a results folder rests on: recbench, data, splits, metrics and models.

    The names of the datasets that have no entry are told beside it.
    """
    keys, texts, unknown = list[str](), [own_entry()], list[str]()
    catalog = load_catalog()
    for run in campaign.manifest()["runs"]:
        name = run["dataset"]["name"]
        entry = catalog.get(name)
        if entry is not None and entry.cite:
            texts.append(entry.cite)
        elif name.partition(":")[0] != SYNTHETIC:
            unknown.append(name)
        keys += _of_described(run["split"], SPLITS)
        keys += [
            METRICS_FROM[name] for name in map(name_in, run["metrics"]) if name in METRICS_FROM
        ]
    for text in dict.fromkeys(row.text for row in campaign.rows().values()):
        keys += _of_described(text, MODELS)
    return bibtex(keys, texts), list(dict.fromkeys(unknown))


def _of_described(text: str, registry: Any) -> list[str]:
    try:
        return of_thing(*parse_described(text, registry))
    except UsageError:  # of a plugin that is not here
        return []
