"""Where things come from, as BibTeX."""

import re
from pathlib import Path

import pytest

from recbench.data.catalog import load_catalog
from recbench.registry import LOSSES, METRICS, MODELS, SPLITS
from recbench.report import cite

UNWRITTEN = {"file", "given"}
"""What no paper has introduced."""


def keys_in(text):
    return re.findall(r"^@\w+\{(\S+?),", text, re.MULTILINE)


@pytest.mark.parametrize("registry", [MODELS, LOSSES, SPLITS, METRICS], ids=lambda r: r.kind)
def test_everything_of_ours_has_an_entry(registry):
    for name in registry.names():
        if registry.source(name).startswith("recbench "):
            keys = keys_in(cite.of_name(name))
            assert len(keys) == len(set(keys)) >= 1, name
            assert ("recbench" in keys) == (name in UNWRITTEN), name


def test_every_dataset_has_an_entry():
    for name in load_catalog(None):
        assert keys_in(cite.of_name(name)), name


def test_a_line_names_the_works_it_should():
    assert cite.works("Steck (2019), Embarrassingly Shallow Autoencoders for Sparse Data") == [
        "steck2019ease"
    ]
    assert cite.works("Moon et al. (2023), It's Enough: Relaxing Diagonal Constraints") == [
        "moon2023rdlae"
    ]
    assert cite.works("Somebody (2020), A paper of their own") == []
    assert cite.works("") == []
    for thing in (MODELS.get(name) for name in MODELS.names()):
        lines = [line for line in re.split(r";|\n", thing.cite) if line]
        assert len(cite.works(thing.cite)) == len(lines), thing.name


def test_the_loss_of_a_model_is_cited_as_well():
    assert keys_in(cite.of_name("lightgcn[loss=mine-plus]")) == [
        "he2020lightgcn",
        "jin2023debiased",
    ]
    assert keys_in(cite.of_name("ndcg@20")) == ["jarvelin2002cumulated"]


def test_entries_are_whole_and_have_what_a_bibliography_needs():
    for key, entry in cite.references().items():
        assert entry.count("{") == entry.count("}"), key
        assert re.search(r"year = \{\d{4}\}", entry), key
        assert ("author = {" in entry) or key == "landscape2022", key
    listed = (cite.files("recbench.report") / "references.bib").read_text(encoding="utf-8")
    assert len(cite.references()) == listed.count("\n@") + 1
    assert set(cite.METRICS_FROM.values()) <= set(cite.references())


def test_a_campaign_cites_all_that_it_rests_on(recbench):
    run = recbench(
        "run", "-d", "synthetic:users=60,items=30,interactions=900", "--split", "strong",
        "-m", "ease", "-m", "als[loss=ials,factors=4]", "-k", "ndcg@10,recall@5", "-o", "out",
    )  # fmt: skip
    assert run.exit_code == 0, run.output
    result = recbench("cite", "out")
    assert result.exit_code == 0, result.output
    assert set(keys_in(result.stdout)) == {
        "recbench", "liang2018vae", "jarvelin2002cumulated", "herlocker2004evaluating",
        "steck2019ease", "rendle2022ials",
    }  # fmt: skip
    assert result.stderr == ""


def test_data_that_nobody_can_cite_are_named(recbench):
    Path("mine.csv").write_text(
        "user,item\n" + "".join(f"u{n % 20},i{n % 7}\n" for n in range(120))
    )
    made = recbench("run", "--data", "mine.csv", "-m", "popularity", "-o", "out")
    assert made.exit_code == 0, made.output
    result = recbench("cite", "out")
    assert "recbench" in keys_in(result.stdout)
    assert "no entry for the dataset mine" in result.stderr
