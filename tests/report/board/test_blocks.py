from dataclasses import replace

import pytest

from boards import RESULT, STRONG, row, source
from recbench.report.board.blocks import Block, blocks, canonical, printed
from recbench.report.board.families import FAMILIES, family
from toys import RUN, trial


def test_trials_stand_together_only_on_the_same_data_split_and_part():
    rows = [
        RESULT,
        replace(RESULT, trial="t2", split="weak"),
        replace(RESULT, trial="t3", dataset="other"),
    ]
    validated = replace(RESULT, trial="t5", part="valid")
    made = blocks([
        source(*rows),
        source(replace(RESULT, trial="t4", fingerprint="g"), name="changed"),
        source(validated, name="only-validated"),
        source(replace(RESULT, model="dlae"), name="together"),
    ])  # fmt: skip
    assert sorted((b.key, len(b.lines)) for b in made) == [
        (("other", "f", "strong", "test"), 1),
        (("toy", "f", "strong", "test"), 2),
        (("toy", "f", "strong", "valid"), 1),
        (("toy", "f", "weak", "test"), 1),
        (("toy", "g", "strong", "test"), 1),
    ]
    by_key = {b.key: b for b in made}
    first = by_key["toy", "f", "strong", "test"]
    assert first.differs_from(by_key["toy", "f", "weak", "test"]) == "another split"
    assert first.differs_from(by_key["toy", "f", "strong", "valid"]) == "another part"
    assert "content" in first.differs_from(by_key["toy", "g", "strong", "test"])


def test_a_line_is_the_trial_that_validation_chose_and_says_among_how_many():
    rows = [trial(n, n / 10) for n in (1, 2, 3)]
    rows += [replace(trial(n, 0.9 - n / 10), part="test") for n in (1, 3)]
    alone = replace(RESULT, model="dlae", text="dlae", trial="d")
    (block,) = blocks([source(*rows, alone)])
    lines = {line.first.model: line for line in block.lines}
    assert lines["ease"].first.trial == "t3", "not t1, which is better on test"
    assert lines["ease"].tried == 3
    assert lines["dlae"].tried == 0


def test_what_was_only_validated_stands_apart():
    running = [
        trial(1, 0.7),
        replace(trial(1, 0.6), part="test"),
        replace(trial(2, 0.8), model="dlae"),
    ]
    made = {block.key[3]: block for block in blocks([source(*running)])}
    assert [line.first.model for line in made["test"].lines] == ["ease"]
    assert [line.first.model for line in made["valid"].lines] == ["dlae"]


def test_a_metric_that_selected_and_was_not_measured_on_test_does_not_hide_the_others():
    (block,) = blocks([source(RESULT, select="ndcg@100")])
    assert block.select == "ndcg@20"


def test_addresses_within_the_page_are_never_shared():
    odd = [replace(RESULT, trial=name, model=name, text=name) for name in ("a b", "a/b", "a-b")]
    (block,) = blocks([source(*odd), source(*odd, name="mine!")])
    ids = [line.id for line in block.lines]
    assert len(set(ids)) == 6
    assert all(one.replace("-", "").isalnum() for one in ids)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({}, ""),
        ({"our_split": "weak"}, "another split: weak"),
        ({"part": "valid"}, "printed of the validation part"),
        ({"metric": "recall@20"}, "recall@20 was not measured"),
        ({"our_model": "dlae"}, "not run here"),
    ],
)
def test_a_printed_number_stands_beside_ours_or_it_is_said_why_not(changes, why):
    (block,) = blocks([source(replace(RESULT, split=STRONG))])
    (one,) = printed(block, [row(**changes), row(our_dataset="elsewhere")])
    assert one.why == why
    assert bool(one.lines) == (not why)


def test_data_that_only_have_the_name_of_a_known_dataset_get_no_printed_numbers():
    mine = replace(RESULT, dataset="gowalla", split=canonical("given"))
    data = {**RUN["dataset"], "name": "gowalla"}
    known = {**data, "users": 29858, "items": 40981, "interactions": 1027370}
    for dataset, why in ((data, "not known to be the same data"), (known, "")):
        (block,) = blocks([source(mine, dataset=dataset)])
        (one,) = printed(block, [row(our_dataset="gowalla", our_split="given")])
        assert one.why == why
    nobody_knows = Block(block.key, None, block.lines, block.metrics, block.select)
    (one,) = printed(nobody_knows, [row(our_dataset="gowalla", our_split="given")])
    assert one.why


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("ease", "linear autoencoders"),
        ("lr-dlae", "spectral and low-rank"),
        ("edlae-admm", "spectral and low-rank"),
        ("rg2-svd", "alternating least squares"),
        ("lightgcn+uib", "trained by gradients"),
        ("popularity", "others"),
        ("of-somebody", "others"),
    ],
)
def test_models_are_grouped_as_in_the_documentation(model, words):
    assert family(model) == words
    assert words in FAMILIES
