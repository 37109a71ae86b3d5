import json
import shutil
from pathlib import Path

import pytest

from recbench.campaign.folder import Campaign
from toys import RUN, trial


def results(folder: Path) -> Path:
    """A folder of results as `recbench run` leaves it."""
    campaign = Campaign(folder)
    campaign.create()
    campaign.add_run({**RUN, "dtype": "float32"})
    campaign.record(trial(1, 0.5, part="test", run="a", fit_seconds=1.5, parameters={"l2": 1}))
    campaign.write_table("ndcg@20")
    return folder


def test_a_log_and_the_tables_made_from_it_give_the_same_page(recbench, folder):
    kept = results(folder / "results" / "mine")
    assert recbench("board").exit_code == 0
    page = (folder / "site" / "index.html").read_bytes()
    (kept / "trials.jsonl").unlink()
    shutil.rmtree(kept / "per-user")
    done = recbench("board", "results/mine", "-o", "other")
    assert done.stdout.strip() == str(Path("other") / "index.html")
    assert (folder / "other" / "index.html").read_bytes() == page


def damage(folder: Path) -> dict[str, str]:
    """Folders of which nothing can be shown, and what is said of them."""
    base, said = folder / "results", {}

    def bad(name: str, words: str) -> Path:
        said[name] = words
        return results(base / name)

    (bad("manifest", "manifest.json is damaged") / "manifest.json").write_text('{"runs": 3}')
    (bad("newer", "upgrade recbench") / "manifest.json").write_text('{"schema": 99}')
    (bad("nothing", "no finished trial") / "trials.jsonl").write_bytes(b"\x00\xff\n{}\n[[[[")
    table = bad("table", "metrics.csv is not a table")
    (table / "trials.jsonl").unlink()
    (table / "metrics.csv").write_bytes(b"\xff\xfe")
    costs = bad("costs", "costs.csv")
    (costs / "trials.jsonl").unlink()
    (costs / "costs.csv").write_bytes(b"\xff")
    said["foreign"] = "neither trials.jsonl nor metrics.csv is in it"
    (base / "foreign").mkdir()
    (base / "foreign" / "cat.png").write_bytes(b"\x89PNG")
    said["strange"] = "is not as recbench writes it"
    (base / "strange").mkdir()
    (base / "strange" / "metrics.csv").write_text("epoch,loss\n1,0.5\n")
    (base / "published").mkdir()
    return said


def test_damaged_and_foreign_folders_are_named_and_left_out(recbench, folder):
    results(folder / "results" / "good")
    said = damage(folder)
    done = recbench("board")
    assert done.exit_code == 0
    assert done.exception is None
    page = (folder / "site" / "index.html").read_text()
    for name, words in said.items():
        (line,) = [line for line in done.stderr.splitlines() if f"left out: {name}: " in line]
        assert words in line
        assert f"<li>{name}: " in page
    assert "published" not in done.stderr
    assert "0.5000" in page


def test_what_is_damaged_in_part_is_shown_with_its_doubts(recbench, folder):
    kept = results(folder / "results" / "mine")
    with (kept / "trials.jsonl").open("a") as log:
        log.write('{"trial": "t9"\n')
    manifest = json.loads((kept / "manifest.json").read_text())
    manifest["runs"][0]["command"] = ["changed"]
    (kept / "manifest.json").write_text(json.dumps(manifest))
    assert recbench("board").exit_code == 0
    page = (folder / "site" / "index.html").read_text()
    assert "1 damaged lines of" in page
    assert "was changed or damaged since it was written" in page


def test_two_folders_of_one_name_are_told_apart(recbench, folder):
    for parent in ("a", "b"):
        results(folder / parent / "run")
    assert recbench("board", "a", "b").exit_code == 0
    page = (folder / "site" / "index.html").read_text()
    assert "<h3>run</h3>" in page
    assert "<h3>b/run</h3>" in page


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["nowhere"], 3, "nowhere is not a folder"),
        ([], 3, "`recbench run` makes results/"),
        (["empty"], 3, "there are no results in empty"),
        (["one", "-o", "toy.csv"], 3, "toy.csv cannot be written"),
        (["one", "--published", "toy.csv"], 3, "toy.csv, line 2"),
    ],
)
def test_wrong_words_get_a_sentence(recbench, folder, words, code, said):
    results(folder / "one")
    (folder / "empty").mkdir()
    done = recbench("board", *words)
    assert done.exit_code == code
    assert said in done.stderr
    assert not (folder / "site").exists()


def test_printed_numbers_of_ones_own_stand_beside(recbench, folder):
    results(folder / "one")
    lines = "metric,value,our_dataset,our_split,our_model\nndcg@20,0.123,toy,strong,ease\n"
    (folder / "my.csv").write_text(lines)
    assert recbench("board", "one", "--published", "my.csv").exit_code == 0
    page = (folder / "site" / "index.html").read_text()
    assert ">0.123</td>" in page
