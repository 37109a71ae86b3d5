import csv
import gzip
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from recbench.data import catalog as catalog_module
from recbench.data.catalog import Entry, RemoteFile, load_catalog, read_catalog
from recbench.data.recipe import Filter, Recipe
from recbench.errors import UsageError
from recbench.registry import READERS

ROOT = Path(__file__).resolve().parents[2]
CATALOG = load_catalog(None)
SHARED = ROOT.parent / "shared" / "published" / "published.csv"


def write(folder: Path, text: str) -> Path:
    path = folder / "datasets.yaml"
    path.write_text(text, encoding="utf-8")
    return path


TOY = """
toy:
  title: Toy
  reader: delimited
  licence: mine
  files:
    - {name: a.csv, urls: [https://example.org/a.csv], bytes: 12}
"""


def test_an_entry_needs_little_and_fills_in_the_rest(tmp_path):
    entry = read_catalog(write(tmp_path, TOY), tmp_path)["toy"]
    file = RemoteFile("a.csv", ("https://example.org/a.csv",), bytes=12)
    assert entry == Entry("toy", "Toy", "delimited", "mine", (file,))
    assert (entry.folder, entry.published_as, entry.size, entry.revision) == ("toy", "toy", 12, 1)
    assert entry.recipe == Recipe()
    assert hash(entry) == hash(entry)


def test_every_key_is_read(tmp_path):
    text = (
        TOY
        + """
  options: {delimiter: tab, columns: {user: 0, item: 1}}
  positive: ">= 3.5"
  dedup: no
  filters:
    - {users: 5, items: 2, mode: pass, order: users-first}
    - {users: 3}
  split: strong[heldout=10]
  expected: {users: 1, items: 2, interactions: 3, verified: true, fingerprints: {test: abc}}
  terms: {text: Be kind., accept: true, steps: [Ask.]}
  cite: "@misc{toy}"
  page: https://example.org
  limits: {max_bytes: 1_000, max_ratio: 5}
  notes: None.
  published: [deql]
  published_as: toys
  folder: shared-toys
  other_layouts:
    - - {name: b.csv, path: here/b.csv}
  revision: 2
"""
    )
    entry = read_catalog(write(tmp_path, text), Path("/base"))["toy"]
    filters = (Filter(5, 2, "pass", "users-first"), Filter(3))
    assert entry.recipe == Recipe((">=", 3.5), dedup=False, filters=filters)
    assert entry.options == {"delimiter": "tab", "columns": {"user": 0, "item": 1}}
    assert entry.expected is not None
    assert (entry.expected.verified, entry.expected.fingerprints) == (True, {"test": "abc"})
    assert (entry.terms.accept, entry.terms.steps) == (True, ("Ask.",))
    assert (entry.limits.max_bytes, entry.limits.max_ratio) == (1000, 5.0)
    assert entry.layouts[1][0].path == Path("/base/here/b.csv")
    assert (entry.folder, entry.published_as, entry.revision) == ("shared-toys", "toys", 2)


BROKEN = [
    ("reeder: csv", "toy: unknown key 'reeder'; did you mean 'reader'?"),
    ("expected: {user: 1}", "toy.expected: unknown key 'user'; did you mean 'users'?"),
    ("expected: {users: 1, items: 2}", "toy.expected: 'interactions' is missing"),
    ("expected: {users: many, items: 2, interactions: 3}", "must be a whole number, not 'many'"),
    ("expected: {users: yes, items: 2, interactions: 3}", "must be a whole number, not True"),
    ("expected: 5", "toy.expected: must be a mapping"),
    ("revision: 1.5", "toy.revision: must be a whole number, not 1.5"),
    ("dedup: 1", "toy.dedup: must be true or false, not 1"),
    ("notes: [a]", "toy.notes: must be text, not ['a']"),
    ("published: deql", "toy.published: must be a list"),
    ("positive: at least 4", "toy.positive: 'at least 4' is no rule; write an operator and a"),
    ("filters: [{user: 5}]", "toy.filters[0]: unknown key 'user'; did you mean 'users'?"),
    ("filters: [{users: true}]", "toy.filters[0].users: must be a whole number, not"),
    ("other_layouts: [[{name: ../b}]]", "toy.other_layouts[0][0]: '../b' is no plain file name"),
    ("other_layouts: [[{name: .b}]]", "'.b' is no plain file name"),
    ("other_layouts: [[{name: b}, {name: b.json}]]", "toy: two files have the same name, or"),
    ("other_layouts: [[{name: b, urls: [ftp://x/b]}]]", "'ftp://x/b' is neither http nor https"),
    ("other_layouts: [[{name: b, md5: ABC}]]", "md5 must be 32 lower-case hexadecimal digits"),
    ("terms: {accept: true}", "toy: terms.accept needs terms.steps"),
    ("folder: ../up", "toy: '../up' must be lower-case letters, digits"),
    ("title: Again", "toy.title: given a second time on line 8"),
    ("bad: [", "is not YAML that may be read"),
]


@pytest.mark.parametrize(("line", "expected"), BROKEN)
def test_a_broken_entry_says_where_and_what(tmp_path, line, expected):
    path = write(tmp_path, f"{TOY}  {line}\n")
    with pytest.raises(UsageError, match=re.escape(expected)) as caught:
        read_catalog(path, tmp_path)
    assert str(caught.value).startswith(str(path))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Toy: {title: t, reader: r, licence: l}", "Toy: 'Toy' must be lower-case"),
        ("other: {title: t, licence: l}", "other: 'reader' is missing"),
        ("other: [1]", "other: must be a mapping"),
        ("5: {title: t}", "top level: must be text, not 5"),
        ("- a list", "top level: must be a mapping"),
    ],
)
def test_a_broken_catalogue_says_where_and_what(tmp_path, text, expected):
    path = write(tmp_path, text)
    with pytest.raises(UsageError, match=re.escape(f"{path}: {expected}")):
        read_catalog(path, tmp_path)


def test_a_file_must_come_from_somewhere(tmp_path):
    text = TOY.replace("urls: [https://example.org/a.csv], ", "")
    with pytest.raises(UsageError, match=r"toy: a.csv has neither urls nor a path"):
        read_catalog(write(tmp_path, text), tmp_path)


def test_a_catalogue_may_be_empty(tmp_path):
    assert read_catalog(write(tmp_path, "# nothing yet\n"), tmp_path) == {}


def test_yaml_cannot_run_code(tmp_path):
    path = write(tmp_path, TOY + "  options: !!python/object/apply:os.getcwd []\n")
    with pytest.raises(UsageError, match="could not determine a constructor"):
        read_catalog(path, tmp_path)


def test_anchors_shorten_and_underscored_keys_are_no_datasets(tmp_path):
    text = (
        "_base: &base {title: T, reader: r, licence: l}\na: {<<: *base, title: A}\nb: {<<: *base}\n"
    )
    entries = read_catalog(write(tmp_path, text), tmp_path)
    assert {name: entry.title for name, entry in entries.items()} == {"a": "A", "b": "T"}


def test_the_users_own_entries_join_and_win(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(READERS._loaded, "toy-reader", object())
    assert load_catalog() == CATALOG
    mine = TOY.replace("delimited", "toy-reader")
    write(tmp_path, mine + mine.replace("toy:", "ml-20m:").replace("title: Toy", "title: My own"))
    entries = load_catalog()
    assert len(entries) == len(CATALOG) + 1
    assert (entries["ml-20m"].title, entries["toy"].title) == ("My own", "Toy")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("reader: delimitd", "toy.reader: unknown reader 'delimitd'; did you mean 'delimited'?"),
        ("reader: delimited\n  positive: '!= 3'", "toy: unknown operator '!='"),
        (
            "reader: delimited\n  filters: [{mode: twice}]",
            "toy.filters[0].mode: unknown value 'twice'; known: fixpoint, pass",
        ),
    ],
)
def test_names_in_the_users_own_entries_are_looked_up(tmp_path, monkeypatch, line, expected):
    monkeypatch.setitem(READERS._loaded, "delimited", object())
    path = write(tmp_path, TOY.replace("reader: delimited", line))
    entries = load_catalog(path)
    assert entries["ml-20m"] == CATALOG["ml-20m"]  # whatever is wrong with another
    with pytest.raises(UsageError, match=re.escape(expected)):
        entries["toy"]


def test_a_catalogue_asked_for_must_exist(tmp_path):
    with pytest.raises(UsageError, match="there is no catalogue"):
        load_catalog(tmp_path / "none.yaml")


def test_the_catalogue_in_the_wheel_is_looked_at_first(tmp_path, monkeypatch):
    package = tmp_path / "recbench"
    package.mkdir()
    monkeypatch.setattr(catalog_module, "PACKAGE", package)
    write(tmp_path, TOY)
    assert list(load_catalog(None)) == ["toy"]
    write(package, TOY.replace("toy:", "wheel:"))
    assert list(load_catalog(None)) == ["wheel"]


def test_reading_the_catalogue_does_not_load_numpy():
    code = "import sys, recbench.data.catalog as c; c.load_catalog(); print('numpy' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


WANTED = (
    "gowalla yelp2018 amazon-book gowalla-snap ml-20m netflix msd ml-10m ml-100k ml-1m ml-25m "
    "ml-32m yelp amazon-electronics-2014 amazon-games-2014 amazon-beauty-2014 amazon-books-2014 "
    "amazon-electronics-2018 amazon-games-2018 amazon-beauty-2018 amazon-books-2018 "
    "amazon-luxury-beauty-2018 steam simplewiki lastfm citeulike-a pinterest"
)


def test_the_promised_datasets_are_there():
    assert set(WANTED.split()) <= set(CATALOG)


@pytest.mark.parametrize("entry", CATALOG.values(), ids=list(CATALOG))
def test_every_entry_is_complete(entry):
    assert entry.reader == "embedded" or entry.reader in READERS.names()
    assert isinstance(entry.recipe, Recipe)
    assert entry.title
    assert entry.licence
    assert entry.split.partition("[")[0] in {"strong", "weak", "given", "user-ratio"}
    assert entry.files or entry.reader == "embedded"
    for file in entry.files:
        assert not file.expired_certificate or file.pinned
        assert all(url.rpartition("/")[2] == file.name for url in file.urls)


@pytest.mark.parametrize("name", [name for name in CATALOG if CATALOG[name].split == "given"])
def test_given_splits_name_their_parts(name):
    assert CATALOG[name].options["parts"] == ["train", "test"]


def test_only_what_was_computed_is_called_verified():
    verified = {
        name for name, entry in CATALOG.items() if entry.expected and entry.expected.verified
    }
    assert verified - {"debian", "debian-links"} == {"gowalla", "ml-20m", "citeulike-a"}


def test_entries_that_share_a_folder_share_its_files():
    for entry in CATALOG.values():
        assert CATALOG[entry.folder].files == entry.files


@pytest.mark.shared
@pytest.mark.skipif(
    not SHARED.exists(), reason="the published tables are not beside the repository"
)
def test_every_published_table_has_its_dataset():
    with SHARED.open(encoding="utf-8", newline="") as stream:
        printed = {(row["paper"], row["dataset"]) for row in csv.DictReader(stream)}
    covered = {
        (paper, entry.published_as) for entry in CATALOG.values() for paper in entry.published
    }
    assert covered == printed


CSV_HEADER = "userId,movieId,rating,timestamp\n1,2,3.5,1112486027\n"
SAMPLES: dict[str, tuple[str, str]] = {
    "ml-20m": ("ml-20m/ratings.csv", CSV_HEADER),
    "ml-25m": ("ml-25m/ratings.csv", CSV_HEADER),
    "ml-32m": ("ml-32m/ratings.csv", CSV_HEADER),
    "ml-10m": ("ml-10M100K/ratings.dat", "1::2::3.5::1112486027\n"),
    "ml-1m": ("ml-1m/ratings.dat", "1::2::3::1112486027\n"),
    "ml-100k": ("ml-100k/u.data", "1\t2\t3\t1112486027\n"),
    "msd": ("train_triplets.txt", "1\t2\t3\n"),
    "lastfm": ("user_artists.dat", "userID\tartistID\tweight\n1\t2\t3\n"),
    "gowalla-snap": ("", "1\t2010-10-19T23:55:27Z\t30.2\t-97.7\t2\n"),
    "amazon-games-2014": ("", "1,2,5.0,1369699200\n"),
    "amazon-games-2018": ("", "2,1,5.0,1369699200\n"),
    "citeulike-a": ("", "1 7\n1 2\n"),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_reader_options_fit_the_documented_format(tmp_path, name):
    entry = CATALOG[name]
    member, text = SAMPLES[name]
    path = tmp_path / entry.files[0].name
    if member:
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("README.txt", "not this one")
            archive.writestr(member, text)
    else:
        path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    rows = READERS.get(entry.reader)([path], entry.options, entry.limits).table
    assert (rows["user"].to_pylist()[-1], rows["item"].to_pylist()[-1]) == (1, 2)
    assert ("value" in rows.column_names) == (
        entry.positive is not None or name not in {"gowalla-snap", "citeulike-a"}
    )


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("gowalla", ("0 5 6\n", "0 7\n")),
        ("pinterest", ("0\t5\t1\t3\n0\t6\t1\t3\n", "0\t7\t1\t3\n")),
    ],
)
def test_given_files_are_read_as_parts(tmp_path, name, lines):
    entry = CATALOG[name]
    paths = [tmp_path / file.name for file in entry.files]
    for path, text in zip(paths, lines, strict=True):
        path.write_text(text)
    rows = READERS.get(entry.reader)(paths, entry.options, entry.limits).table
    assert rows.select(["user", "item", "part"]).to_pylist() == [
        {"user": 0, "item": 5, "part": 0},
        {"user": 0, "item": 6, "part": 0},
        {"user": 0, "item": 7, "part": 2},
    ]


def documented(marker: str) -> list[str]:
    """The YAML blocks of the documentation."""
    text = (ROOT / "docs" / "datasets.md").read_text(encoding="utf-8")
    return re.findall(rf"```{marker}\n(.*?)```", text, flags=re.DOTALL)


def test_the_documented_entries_are_valid_and_short(tmp_path):
    entries: dict[str, Any] = {}
    for block in documented("yaml"):
        entries |= load_catalog(write(tmp_path, block))
        assert len(block.strip().splitlines()) <= 12
    assert {"my-shop", "my-split"} <= set(entries)


def test_a_working_copy_of_recbench_is_not_a_catalogue_of_ones_own(tmp_path, monkeypatch):
    shipped = Path(__file__).resolve().parents[2] / "datasets.yaml"
    (tmp_path / "datasets.yaml").write_bytes(shipped.read_bytes())
    monkeypatch.chdir(tmp_path)
    assert load_catalog() == load_catalog(None)
    (tmp_path / "datasets.yaml").write_bytes(shipped.read_bytes() + b"\n# a note\n")
    assert load_catalog().keys() == load_catalog(None).keys()
