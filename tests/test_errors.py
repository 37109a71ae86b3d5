"""Sentences: they lead on, are of sane length, and nothing in them speaks to the terminal."""

import pytest

from recbench.errors import ELSEWHERE, closest, printable, reason_of, unknown
from recbench.published.rows import load
from recbench.registry import LOSSES, METRICS, MODELS, SPLITS

KINDS = {"model": MODELS, "metric": METRICS, "split": SPLITS, "loss": LOSSES}


@pytest.mark.parametrize(
    ("kind", "typed", "meant"),
    [
        ("model", "eas", "ease"),
        ("model", "EASE", "ease"),
        ("model", "edlea", "edlae"),
        ("model", "lightgnc", "lightgcn"),
        ("model", "mf_bpr", "mf-bpr"),
        ("model", "pop", "popularity"),
        ("model", "toppop", "popularity"),
        ("model", "easer", "ease"),
        ("model", "svd", "regularized-pca"),
        ("metric", "ndgc", "ndcg"),
        ("metric", "HR", "hit"),
        ("metric", "prec", "precision"),
        ("split", "leave-one-out", "last"),
        ("split", "ratio", "user-ratio"),
        ("loss", "sparse", "sparsemax"),
        ("model", "multdae", "mult-dae"),
        ("model", "Mult_VAE", "mult-vae"),
        ("model", "mf-mse", "mse"),
    ],
)
def test_what_was_meant_is_named(kind, typed, meant):
    assert str(unknown(kind, typed, KINDS[kind].names())).endswith(f"did you mean '{meant}'?")


@pytest.mark.parametrize(
    ("kind", "typed", "told"),
    [
        ("model", "transformer", "`recbench list models` shows what there is"),
        ("model", "ndcg", "`recbench list models` shows what there is"),
        ("loss", "focal-tversky", "`recbench list losses` shows what there is"),
        ("word", "q", "known: one, two"),
    ],
)
def test_what_is_like_nothing_is_not_guessed(kind, typed, told):
    names = KINDS[kind].names() if kind in KINDS else ["two", "one"]
    assert str(unknown(kind, typed, names)) == f"unknown {kind} '{typed}'; {told}"


def test_of_very_many_names_some_are_told():
    told = str(unknown("item", "!", map(str, range(5000))))
    assert told.startswith("unknown item '!'; there are 5,000, such as 0, 1, 10, 100,")
    assert len(told) < 300


def test_names_from_elsewhere_lead_to_names_that_exist():
    known = {name for registry in KINDS.values() for name in registry.names()}
    assert set(ELSEWHERE.values()) <= known
    assert not ELSEWHERE.keys() & known


def test_what_others_say_is_made_printable():
    assert printable("a\x1b[31mb\tc\nd\x00\x7f ä") == "a?[31mb\tc\nd?? ä"


def test_words_without_end_are_cut():
    assert printable(f"it is {'a' * 5000} no") == f"it is {'a' * 60}… no"
    path = "/".join(["folder"] * 60)
    assert printable(path) == path
    assert printable(f"no{' ' * 5000}file") == f"no{' ' * 60}…file"


def test_an_error_without_a_text_still_has_a_kind():
    class Odd(Exception):
        __str__ = None

    assert reason_of(Odd("x")) == "Odd: "
    assert reason_of(ValueError("x\x1b")) == "ValueError: x?"


def test_every_model_that_a_paper_prints_is_led_to_ours():
    names = MODELS.names()
    for row in load():
        typed = row.model.lower().replace("_", "-")
        assert typed in names or closest(typed, names) == row.our_model
