"""`recbench recommend`, from data, saved models and files to lists."""

import json

import pandas as pd
import pytest

import toys
from recbench.models.save import fit


@pytest.fixture
def saved(folder):
    """A saved model, and what it recommends by itself."""
    made = fit("ease[l2=5]", toys.two_tastes())
    made.save(folder / "model")
    return made


def lists(result):
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


OWN = ("--data", "toy.csv", "--user", "u", "--item", "i")


def test_a_history_gets_what_the_model_recommends(recbench, saved):
    expected = [item for item, _ in saved.recommend([0, 2], 4)]
    for source in (("--saved", "model"), ("-m", "ease[l2=5]", *OWN)):
        rows = lists(recbench("recommend", *source, "--history", "0,2", "-n", "4", "--json"))
        assert [row["item"] for row in rows] == expected
        assert [row["rank"] for row in rows] == [1, 2, 3, 4]
        assert {row["user"] for row in rows} == {"0,2"}


def test_users_of_the_data_by_name_and_from_a_file(recbench, saved, folder):
    (folder / "some.txt").write_text("u003\n\nu001\n")
    typed = recbench("recommend", "--saved", "model", "--for", "u003", "--for", "u001", "--json")
    read = recbench("recommend", "--saved", "model", "--for-file", "some.txt", "--json")
    assert lists(typed) == lists(read)
    first = next(saved.for_users(["u003"]))
    assert [(r["item"], r["score"]) for r in lists(typed) if r["user"] == "u003"] == first


@pytest.mark.parametrize("ending", ["csv", "json", "jsonl", "parquet"])
def test_lists_for_everybody_go_to_a_file(ending, recbench, saved, folder):
    result = recbench("recommend", "--saved", "model", "-n", "3", "-o", f"lists.{ending}")
    assert result.exit_code == 0, result.output
    assert "120 lists: lists." in result.stderr
    read = {
        "csv": pd.read_csv, "json": pd.read_json, "parquet": pd.read_parquet,
        "jsonl": lambda path: pd.read_json(path, lines=True),
    }  # fmt: skip
    frame = read[ending](folder / f"lists.{ending}")
    assert list(frame) == ["user", "rank", "item", "score"]
    expected = [item for best in saved.for_users(k=3) for item, _ in best]
    assert frame["item"].tolist() == expected


def test_the_folder_of_a_file_is_made(recbench, saved, folder):
    result = recbench("recommend", "--saved", "model", "--for", "u003", "-o", "new/lists.csv")
    assert result.exit_code == 0, result.output
    assert len(pd.read_csv(folder / "new" / "lists.csv")) == 10


def test_histories_from_a_file_and_names(recbench, saved, folder):
    (folder / "baskets.csv").write_text("who;what\nx;0\nx;2\ny;7\nx;999\n")
    (folder / "names.csv").write_text("id,title\n" + "".join(f"{i},item {i}\n" for i in range(30)))
    words = ["--histories", "baskets.csv", "--user", "who", "--item", "what"]
    result = recbench("recommend", "--saved", "model", *words, "--names", "names.csv", "--json")
    rows = lists(result)
    assert [r["item"] for r in rows if r["user"] == "x"] == [i for i, _ in saved.recommend([0, 2])]
    assert all(row["name"] == f"item {row['item']}" for row in rows)
    assert "1 interaction with items that the model does not have" in result.stderr


def test_a_few_lists_are_a_table(recbench, saved):
    result = recbench("recommend", "--saved", "model", "--history", "0,2")
    assert "Recommended by ease[l2=5]" in result.stdout
    assert "score" in result.stdout


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        ([], 2, "which model?"),
        (["-m", "ease", "--saved", "model"], 2, "give one of the two"),
        (["-m", "easy", *OWN], 2, "unknown model 'easy'"),
        (["-m", "file:toy.csv", *OWN, "--history", "1"], 2, "file:toy is lists already"),
        (["-m", "neumf", *OWN, "--history", "1"], 2, "nobody by what he has: give users"),
        (["-m", "neumf", *OWN, "--histories", "toy.csv"], 2, "instead of --histories"),
        (["--saved", "model", "--history", " ,"], 2, "--history is empty"),
        (["--saved", "nothing"], 3, "holds no model"),
        (["--saved", "model"], 2, "lists for 120 users: give a file"),
        (["-m", "popularity", *OWN], 2, "lists for 120 users: give a file"),
        (["--saved", "model", "-o", "lists.doc"], 2, "must end in .csv"),
        (["--saved", "model", "--history", "77"], 2, "unknown item '77'"),
        (["--saved", "model", "--history", "bread"], 2, "whole numbers"),
        (["--saved", "model", "--for", "me"], 2, "unknown user 'me'"),
        (["--saved", "model", "--for", "u001", "--history", "1"], 2, "give one of --for,"),
        (["--saved", "model", "--for-file", "none.txt"], 3, "cannot be read"),
        (
            ["--saved", "model", "--histories", "toy.csv", "--user", "u", "--item", "what"],
            3,
            "no column 'what'",
        ),
        (["--saved", "model", "--histories", "none.csv"], 3, "cannot be read"),
        (["--saved", "model", "--data", "toy.csv"], 2, "--data belongs to --model"),
        (["--saved", "model", "--user", "u"], 2, "--user belongs to --model"),
        (["--saved", "model", "--history", "1", "--names", "none.csv"], 3, "cannot be read"),
    ],
)
def test_mistakes_are_sentences(words, code, says, recbench, saved):
    result = recbench("recommend", *words)
    assert result.exit_code == code, result.output
    assert says in result.stderr
    assert "Traceback" not in result.stderr


def test_a_model_that_would_ask_validation_when_to_stop_is_refused(recbench):
    words = ("recommend", "-m", "mf[patience=1,epochs=100]", *OWN, "--history", "0,2")
    result = recbench(*words)
    assert result.exit_code == 2, result.output
    assert "mf has patience, and there is no validation for it to ask" in result.stderr
