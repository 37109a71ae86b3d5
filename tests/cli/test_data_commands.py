import json

import pytest


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
    from recbench.data.dataset import Dataset

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
