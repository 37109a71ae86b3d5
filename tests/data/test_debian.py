"""The dataset that comes with the package, and the script that makes it."""

import gzip
import hashlib
import importlib.util
import lzma
import sys
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from recbench.data.dataset import Dataset, load_embedded
from recbench.errors import DataError

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "make_debian.py"
spec = importlib.util.spec_from_file_location("make_debian", SCRIPT)
make_debian = importlib.util.module_from_spec(spec)
spec.loader.exec_module(make_debian)

STANZA = """Package: editor
Version: 1.0
Architecture: amd64
Depends: libc6 (>= 2.36), python3:any (>= 3.10~), libgui0 | libgui-ng,
 awk,
Pre-Depends: dpkg (>= 1.15.6~)
Recommends: editor (= 1.0), mail-transport-agent | exim4
Suggests: games
Description: edits
 Depends: is a word that may begin a line here
"""


def index(packages=8, names=7):
    """An index whose packages all ask for the same names, and one that asks for little."""
    wanted = ", ".join(f"lib{n}" for n in range(names))
    stanza = "Package: tool{}\nArchitecture: {}\nDepends: {}\n"
    stanzas = [stanza.format(n, "all" if n % 3 else "riscv64", wanted) for n in range(packages)]
    return "\n".join([*stanzas, stanza.format("-lonely", "all", "lib0")]).encode()


def release(content):
    """The release file that lists an index."""
    digest = hashlib.sha256(content).hexdigest()
    return (
        "Origin: Debian\nVersion: 99.1\nCodename: toy\nDate: Sat, 11 Jul 2026 10:16:37 UTC\n"
        f"SHA256:\n {digest} {len(content)} main/binary-riscv64/Packages\n"
    )


def pairs(text):
    return list(make_debian.pairs(make_debian.stanzas(text)))


def test_relations_give_the_first_name_of_each_group():
    names = ["libc6", "python3", "libgui0", "awk", "dpkg", "mail-transport-agent"]
    assert pairs(STANZA) == [("editor", name) for name in names]


def test_stanzas_are_parted_by_blank_lines():
    assert pairs("Package: a\nDepends: b\n\n\nPackage: b\nDepends: c\n \nPackage: c\n") == [
        ("a", "b"),
        ("b", "c"),
    ]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Package: a\nDepends: (>= 1)\n", "does not begin with a package name"),
        ("Depends: b\n", "without a Package field"),
    ],
)
def test_what_is_no_index_is_refused(text, message):
    with pytest.raises(DataError, match=message):
        pairs(text)


def test_an_empty_index_is_refused():
    with pytest.raises(DataError, match="no packages"):
        make_debian.make(b"\n", release(b"\n"))


def test_packages_become_users_of_the_core():
    data = make_debian.make(index(), release(index()))
    assert data.user_ids.to_pylist() == [f"tool{n}" for n in range(8)]
    assert data.item_ids.to_pylist() == [f"lib{n}" for n in range(7)]
    assert len(data) == 8 * 7
    about = dict(data.provenance)
    assert about.pop("index_sha256") == hashlib.sha256(index()).hexdigest()
    assert about == {
        "origin": "Debian",
        "version": "99.1",
        "codename": "toy",
        "date": "Sat, 11 Jul 2026 10:16:37 UTC",
        "architecture": "riscv64",
        "packages": 9,
        "recipe": "distinct; users>=5,items>=5",
        "rows": {"read": 57, "distinct": 57, "filtered": 56},
    }


def test_an_index_of_another_release_is_refused():
    with pytest.raises(DataError, match="does not list an index"):
        make_debian.make(index(), release(index(5)))


@pytest.mark.parametrize(
    ("name", "pack"),
    [("Packages", bytes), ("Packages.gz", gzip.compress), ("Packages.xz", lzma.compress)],
)
def test_the_script_reads_packed_indexes(tmp_path, name, pack):
    (tmp_path / name).write_bytes(pack(index()))
    assert run(tmp_path, str(tmp_path / name)) == Dataset.load(tmp_path / "out").fingerprint


def test_the_script_reads_standard_input_and_gives_the_same_bytes(tmp_path):
    run(tmp_path, "-", index())
    first = (tmp_path / "out").read_bytes()
    run(tmp_path, "-", index())
    assert (tmp_path / "out").read_bytes() == first


def run(folder, where, stdin=None):
    (folder / "Release").write_text(release(index()))
    words = [where, str(folder / "Release"), "--output", str(folder / "out")]
    result = CliRunner().invoke(make_debian.main, words, input=stdin)
    assert result.output == f"out: 8 users x 7 items, 56 interactions, {size(folder):,} bytes\n"
    return make_debian.make(index(), release(index())).fingerprint


def size(folder):
    return (folder / "out").stat().st_size


def test_lz4_without_its_package_says_what_to_do(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "lz4", None)
    monkeypatch.setitem(sys.modules, "lz4.frame", None)
    (tmp_path / "Packages.lz4").write_bytes(b"")
    (tmp_path / "Release").write_text("")
    words = [str(tmp_path / name) for name in ("Packages.lz4", "Release")]
    result = CliRunner().invoke(make_debian.main, words)
    assert result.exit_code == 1
    assert "install it, or unpack the index first" in result.output


def test_the_file_that_comes_with_the_package():
    data = load_embedded("debian")
    assert data.name == "debian"
    assert (data.n_users, data.n_items, len(data)) == (16_600, 5_219, 160_185)
    assert data.fingerprint == "3f102abf8a9a0182c835df6144cee471e3f8838b1a48ccc28c5b6950a5c43e6b"
    assert data.provenance["codename"] == "bookworm"
    for side in (data.user, data.item):
        assert np.bincount(side).min() >= make_debian.CORE


def test_links_are_between_packages():
    tools = ", ".join(f"tool{n}" for n in range(8))
    text = "\n".join(f"Package: tool{n}\nDepends: awk, {tools}\n" for n in range(8)).encode()
    data = make_debian.make(text, release(text), links=True)
    assert data.name == "debian-links"
    assert data.graph
    assert data.user_ids == data.item_ids
    assert (data.matrix.toarray() == 1 - np.eye(8)).all()


def test_the_graph_that_comes_with_the_package():
    data = load_embedded("debian-links")
    assert (data.n_users, data.n_items, len(data)) == (14_240, 4_480, 137_090)
    assert data.fingerprint == "c53c26ff5cf060dd2cb71febd2a01daddc381b2fde5018ce8d151281b8925a1f"
    assert data.graph
    assert np.count_nonzero(data.own_items >= 0) == 1_903
    assert not np.any(data.own_items[data.user] == data.item)
    debian = load_embedded("debian")
    pairs = [
        {
            *zip(
                d.user_ids.take(d.user).to_pylist(),
                d.item_ids.take(d.item).to_pylist(),
                strict=True,
            )
        }
        for d in (data, debian)
    ]
    assert pairs[0] <= pairs[1]


@pytest.mark.parametrize("name", ["debian", "debian-links"])
def test_the_files_that_come_with_the_package_are_small(name):
    assert len((files("recbench.data") / "embedded" / f"{name}.parquet").read_bytes()) < 1_000_000
