"""Own files as they come: separators, encodings, dates, and other formats by name."""

import csv
import io
import json

import pytest

import toys

ROWS = [(f"u{u}", f"ä{i}", 1 + (u * i) % 5, 1 + (u + i) % 28) for u in range(30) for i in range(9)]


def written(path, between, encoding="utf-8", date="2024-03-{:02}"):
    lines = [between.join(("who", "what", "stars", "when"))]
    lines += [between.join((u, i, str(s), date.format(d))) for u, i, s, d in ROWS]
    path.write_bytes(("\n".join(lines) + "\n").encode(encoding))


COLUMNS = ("--user", "who", "--item", "what")


def run(recbench, *words):
    return recbench("run", *words, "-m", "popularity", "-k", "ndcg@5", "--split", "weak", "-f")


@pytest.mark.parametrize("between", [",", ";", "|", "\t", " ", "::"])
@pytest.mark.parametrize("ending", ["csv", "txt", "dat"])
def test_separators_are_found(between, ending, recbench, folder):
    path = folder / f"mine.{ending}"
    written(path, between)
    result = run(recbench, "--data", str(path), *COLUMNS)
    assert result.exit_code == 0, result.output
    assert "30 users x 9 items, 270 interactions" in result.stderr


def test_a_comma_inside_of_a_cell_does_not_mislead(recbench, folder):
    lines = [f"{u};{i};1,5" for u, i, _, _ in ROWS]
    (folder / "mine.csv").write_text("who;what;how much, in all\n" + "\n".join(lines) + "\n")
    result = run(recbench, "--data", "mine.csv", *COLUMNS)
    assert result.exit_code == 0, result.output
    assert "30 users x 9 items" in result.stderr


def test_a_name_that_is_not_there_is_looked_for_in_the_right_columns(recbench, folder):
    written(folder / "mine.csv", ";")
    result = run(recbench, "--data", "mine.csv", "--user", "whom", "--item", "what")
    assert result.exit_code == 3
    assert "no column 'whom'; did you mean 'who'?" in result.stderr


def test_other_encodings(recbench, folder):
    written(folder / "mine.csv", ";", "latin-1")
    refused = run(recbench, "--data", "mine.csv", *COLUMNS)
    assert refused.exit_code == 3
    assert "pass encoding=latin-1" in refused.stderr
    assert "--reader 'delimited[...]'" in refused.stderr
    result = run(
        recbench, "--data", "mine.csv", *COLUMNS, "--reader", "delimited[encoding=latin-1]"
    )
    assert result.exit_code == 0, result.output


@pytest.mark.parametrize("date", ["{:02}/03/2024", "{:02}.03.2024 17:30", "{:02}-03-2024 17:30:05"])
def test_dates_that_begin_with_the_day(date, recbench, folder):
    written(folder / "mine.csv", ",", date=date)
    words = ["--data", "mine.csv", *COLUMNS, "--time", "when", "-m", "popularity"]
    split = ["--split", "temporal[test=2024-03-20]"]
    refused = recbench("run", *words, *split)
    assert refused.exit_code == 3
    assert "dates=day-first" in refused.stderr
    result = recbench("run", *words, *split, "--reader", "delimited[dates=day-first]")
    assert result.exit_code == 0, result.output
    wrong = recbench("run", *words, *split, "--reader", "delimited[dates=month-first]")
    assert wrong.exit_code == 3


def test_another_format_by_name(recbench, folder):
    lines = [f"{u} " + " ".join(str(i) for i in range(u % 7 + 3)) for u in range(40)]
    (folder / "train.txt").write_text("\n".join(lines) + "\n")
    result = run(recbench, "--data", "train.txt", "--reader", "adjacency")
    assert result.exit_code == 0, result.output
    assert "40 users x 9 items" in result.stderr


def test_a_reader_that_does_not_exist(recbench, folder):
    written(folder / "mine.csv", ",")
    for words, says in (
        (["--reader", "delimitted"], "did you mean 'delimited'?"),
        (["--reader", "delimited[encodin=x]"], "encodin"),
        (["--reader", "delimited[encoding"], "is not NAME"),
    ):
        result = run(recbench, "--data", "mine.csv", *COLUMNS, *words)
        assert result.exit_code == 2, result.output
        assert says in result.stderr


def test_the_split_of_an_own_file_is_exported(recbench, folder):
    written(folder / "mine.csv", ";")
    words = ["export", "--data", "mine.csv", *COLUMNS, "--time", "when", "--split", "last"]
    result = recbench(*words, "-o", "out")
    assert result.exit_code == 0, result.output
    rows = [(folder / "out" / f"{part}.csv").read_text().splitlines() for part in ("train", "test")]
    assert [len(lines) - 1 for lines in rows] == [30 * 7, 30]
    assert recbench("export").exit_code == 2
    assert recbench("export", "debian", "--data", "mine.csv").exit_code == 2
    assert "--user belongs to --data" in recbench("export", "debian", "--user", "who").stderr


def test_two_files_of_one_name_share_no_folder_no_table_and_no_model(recbench, folder):
    for name, tastes in (("a", toys.two_tastes()), ("b", toys.two_tastes(90, 25, seed=1))):
        (folder / name).mkdir()
        (folder / name / "orders.csv").write_text(toys.csv_of(tastes))
        words = ["run", "--data", f"{name}/orders.csv", "--user", "u", "--item", "i", "-m", "ease"]
        ran = recbench(*words, "-k", "ndcg@10", "--save", "models")
        assert ran.exit_code == 0, ran.output
        assert "finished trial" not in ran.stderr
    folders = sorted(path.name for path in (folder / "results").iterdir())
    assert folders == ["orders-9460cda0-strong", "orders-a419b0fc-strong"]
    saved = sorted(path.name for path in (folder / "models").iterdir())
    assert saved == ["orders-9460cda0-ease", "orders-a419b0fc-ease"]
    paths = [f"results/{name}" for name in folders]
    (row,) = csv.DictReader(io.StringIO(recbench("show", *paths, "--format", "csv").stdout))
    assert {"orders-9460cda0 ndcg@10", "orders-a419b0fc ndcg@10"} <= set(row)


def test_one_file_prepared_in_two_ways_is_two_datasets(recbench, folder):
    rows = [f"{u},{i},{(u * i) % 5 + 1}" for u in range(60) for i in range(15)]
    (folder / "stars.csv").write_text("\n".join(["user,item,stars", *rows]) + "\n")
    for least in ("2", "4"):
        words = ["run", "--data", "stars.csv", "--value", "stars", "--min", least]
        ran = recbench(*words, "-m", "popularity", "-o", "out")
        assert ran.exit_code == 0, ran.output
        assert "; called stars-" in ran.stderr
    log = (folder / "out" / "trials.jsonl").read_text().splitlines()
    assert len({json.loads(line)["dataset"] for line in log}) == 2
