import hashlib
import json

import pytest

from recbench.data.dataset import Dataset
from recbench.data.fetch import http


@pytest.fixture
def raw(folder):
    """A dataset of ratings in the user's own catalogue."""
    rows = [f"{u},{i},{(u * i) % 5 + 1}" for u in range(40) for i in range(20) if (u + i) % 3]
    (folder / "rows.csv").write_text("\n".join(["user,item,stars", *rows]) + "\n")
    (folder / "datasets.yaml").write_text(
        "mine:\n"
        "  title: Ratings\n"
        "  licence: mine\n"
        "  reader: delimited\n"
        "  options: {columns: {user: user, item: item, value: stars}}\n"
        "  files: [{name: rows.csv, path: rows.csv}]\n"
        "  positive: '>= 4'\n"
        "  filters: [{users: 5, items: 5}]\n"
        "  expected: {users: 40, items: 20, interactions: 999, verified: true}\n"
    )
    return folder


def test_counts_that_differ_are_an_error_unless_accepted_on_the_record(recbench, raw):
    refused = recbench("fetch", "mine")
    assert refused.exit_code == 3
    assert "expected 40 users x 20 items x 999 interactions" in refused.stderr
    assert not list((raw / "home").rglob("*.parquet"))
    accepted = recbench("fetch", "mine", "--accept-counts")
    assert accepted.exit_code == 0, accepted.output
    result = recbench("run", "-d", "mine", "-m", "popularity")
    assert result.exit_code == 0, result.output
    (manifest,) = raw.glob("results/*/manifest.json")
    run = json.loads(manifest.read_text())["runs"][0]
    assert "999" in run["dataset"]["provenance"]["deviation"]


def test_a_recipe_is_found_by_its_counts(recbench, raw):
    assert recbench("fetch", "mine", "--accept-counts").exit_code == 0
    (path,) = (raw / "home").rglob("mine-1.parquet")
    data = Dataset.load(path)
    target = f"{data.n_users},{data.n_items},{len(data)}"
    found = json.loads(recbench("recipe-search", "mine", "--target", target, "--json").stdout)
    assert all(line["off by"] == 0 for line in found)
    assert any("value>=4" in line["recipe"] for line in found)
    nearest = recbench("recipe-search", "mine", "--target", "39,20,300")
    assert nearest.exit_code == 0, nearest.output
    assert "the nearest ones" in nearest.stdout


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--target", "1,2"], "--target takes USERS,ITEMS,INTERACTIONS"),
        (["--target", "1,2,x"], "--target takes USERS,ITEMS,INTERACTIONS"),
        (["--target", "0,2,3"], "positive counts"),
        (["--target", "1,2,3", "--users", "5"], "--users takes LOW:HIGH"),
        (["--target", "1,2,3", "--items", "9:2"], "--items must rise"),
    ],
)
def test_a_wrong_search_is_one_sentence(recbench, raw, words, says):
    result = recbench("recipe-search", "mine", *words)
    assert result.exit_code == 2
    assert says in result.stderr


def test_prepared_data_have_no_recipe_to_search(recbench):
    result = recbench("recipe-search", "debian", "--target", "1,2,3")
    assert result.exit_code == 2
    assert "comes prepared" in result.stderr


def test_a_dry_run_says_what_would_be_fetched(recbench):
    result = recbench("fetch", "ml-20m", "netflix", "--dry-run")
    assert result.exit_code == 0, result.output
    assert "ml-20m.zip (198.7 MB, to fetch)" in result.stdout
    assert "by hand:" in result.stdout


def test_offline_names_the_file_that_is_missing(recbench, monkeypatch):
    monkeypatch.setenv("RECBENCH_OFFLINE", "1")
    result = recbench("run", "-d", "ml-1m", "-m", "ease")
    assert result.exit_code == 3
    assert "ml-1m.zip" in result.stderr


@pytest.fixture
def published(folder):
    """A dataset of two files that nobody gives at the moment, and the files as published."""
    text = {"train.txt": "1 10 11 12\n2 10 12\n3 11 12\n", "test.txt": "1 13\n2 11\n3 10\n"}
    pairs = {
        name: "".join(f"{line.split()[0]} {item}\n" for line in words.splitlines()
                      for item in line.split()[1:])
        for name, words in text.items()
    }  # fmt: skip
    train, test = (hashlib.sha256(words.encode()).hexdigest() for words in pairs.values())
    files = "".join(
        f"    - {{name: {name}, urls: ['http://127.0.0.1:1/{name}'], "
        f"sha256: {hashlib.sha256(words.encode()).hexdigest()}}}\n"
        for name, words in text.items()
    )
    (folder / "datasets.yaml").write_text(
        "pair:\n  title: Two files\n  licence: none\n  reader: adjacency\n"
        f"  options: {{parts: [train, test]}}\n  split: given\n  files:\n{files}"
        "  expected: {users: 3, items: 4, interactions: 10, verified: true, fingerprints: "
        f"{{train: {train}, test: {test}}}}}\n"
    )
    (folder / "got").mkdir()
    return text


def test_files_of_the_same_content_are_taken_and_told(recbench, folder, published):
    for name, words in published.items():  # lines in another order, and with the ends of Windows
        mixed = "\r\n".join([*words.split("\n")[2::-1], ""])
        (folder / "got" / name).write_bytes(mixed.encode())
    done = recbench("fetch", "pair", "--from", "got/train.txt")
    assert done.exit_code == 0, done.output
    assert "got/train.txt is not train.txt of pair: its SHA-256 is" in done.stderr
    assert "its interactions are the published ones, by their fingerprint" in done.stderr
    assert "3 users x 4 items, 10 interactions" in done.stdout
    (path,) = (folder / "home").rglob("pair-1.parquet")
    assert Dataset.load(path).provenance["by content"] == ["train.txt", "test.txt"]
    assert recbench("fetch", "pair").exit_code == 0, "it is here, and needs no network"
    again = recbench("fetch", "pair", "--from", "elsewhere")
    assert "pair is here already: --from is not looked at; --force reads it" in again.stderr


def test_files_of_other_content_are_refused(recbench, folder, published):
    for name, words in published.items():
        (folder / "got" / name).write_text(words.replace("12", "14"))
    refused = recbench("fetch", "pair", "--from", "got")
    assert refused.exit_code == 3
    assert "got/train.txt is not train.txt of pair: its SHA-256 is" in refused.stderr
    assert "the train interactions of pair are not the published ones" in refused.stderr
    assert not list((folder / "home").rglob("*.parquet"))


def test_one_file_beside_the_other_is_enough_and_alone_it_is_not(recbench, folder, published):
    train, test = published
    (folder / "got" / train).write_text(published[train])
    alone = recbench("fetch", "pair", "--from", "got/train.txt")
    assert alone.exit_code == 3
    assert "pair needs train.txt, test.txt" in alone.stderr
    (folder / "got" / test).write_text(published[test])
    both = recbench("fetch", "pair", "--from", "got/test.txt")
    assert both.exit_code == 0, both.output
    assert "by their fingerprint" not in both.stderr
    (folder / "got" / "notes.txt").write_text("no data")
    assert recbench("fetch", "pair", "-f", "--from", "got/notes.txt").exit_code == 3


def test_without_a_network_fetch_says_what_to_do_by_hand(recbench, published, monkeypatch):
    monkeypatch.setattr(http, "GLANCE", 0)
    alone = recbench("fetch", "pair")
    assert alone.exit_code == 3
    assert "there is no network here, or none that leads to it" in alone.stderr
    assert "train.txt from http://127.0.0.1:1/train.txt" in alone.stderr
    assert "type: recbench fetch pair --from train.txt" in alone.stderr


def test_a_split_is_exported(recbench, folder):
    result = recbench("export", "debian", "--to", "lightgcn", "--split", "weak", "-o", "out")
    assert result.exit_code == 0, result.output
    assert (folder / "out" / "train.txt").exists()


def test_a_configuration_file_says_what_options_say(recbench, own, folder):
    words = ["run", *own, "-m", "ease", "--grid", "l2=1,10", "-k", "ndcg@10", "--format", "csv"]
    expected = recbench(*words)
    printed = recbench(*words, "--print-config")
    assert printed.exit_code == 0, printed.output
    (folder / "campaign.yaml").write_text(printed.stdout)
    assert recbench("run", "-c", "campaign.yaml").stdout == expected.stdout
    won = recbench(
        "run", "-c", "campaign.yaml", "-m", "popularity", "--grid", "ease.l2=1", "-m", "ease"
    )
    assert "popularity" in won.stdout


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("modle: ease", "unknown option 'modle'; did you mean 'model'?"),
        ("- ease", "must be a mapping"),
        ("a: [", "is not YAML"),
        (None, "No such file"),
        ("seed: {a: 1}", "'seed' takes one value"),
        ("model:", "'model' has no value"),
        ("json: true", "unknown option 'json'"),
    ],
)
def test_a_wrong_configuration_is_one_sentence(recbench, folder, text, says):
    if text is not None:
        (folder / "c.yaml").write_text(text)
    result = recbench("run", "-c", "c.yaml")
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_dry_run_of_a_grid_shows_its_fits(recbench, own, folder):
    result = recbench("run", *own, "-m", "deql-l2", "--grid", "b=0.1:2", "-m", "ease", "-n")
    assert result.exit_code == 0, result.output
    assert "10 trials in 2 fits" in result.stdout
    assert not (folder / "results").exists()
