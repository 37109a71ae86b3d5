"""Two projects may call different data the same: neither ever gets the other's."""

import json
import os
import shutil

import pytest

from loopback import Answer, Loopback

ENTRY = "my-shop:\n  title: Shop\n  licence: mine\n  reader: delimited\n  files: [{files}]\n"
ROWS = {"a": range(30), "b": range(5, 40), "c": range(7, 31)}


def rows(name: str) -> str:
    lines = [f"u{u},i{i}" for u in ROWS[name] for i in range(12) if (u + i) % 3]
    return "\n".join(["user,item", *lines]) + "\n"


@pytest.fixture
def project(folder, monkeypatch, recbench):
    """Make a project with a catalogue, go there, and say what `fetch` gets."""

    def enter(name: str, files: str = "{name: orders.csv, path: orders.csv}") -> str:
        place = folder / name
        place.mkdir(exist_ok=True)
        if not (place / "orders.csv").exists():
            (place / "orders.csv").write_text(rows(name))
        (place / "datasets.yaml").write_text(ENTRY.format(files=files))
        monkeypatch.chdir(place)
        result = recbench("fetch", "my-shop")
        assert result.exit_code == 0, result.output
        return result.stdout

    return enter


def of(folder, name: str) -> str:
    """The fingerprint of the rows, found without the catalogue."""
    from recbench.data.open import OwnFile, open_file

    (folder / f"{name}.csv").write_text(rows(name))
    return open_file(OwnFile(folder / f"{name}.csv")).fingerprint[:12]


def test_a_dataset_is_found_by_what_made_it_not_by_its_name(project, folder):
    assert of(folder, "a") in project("a")
    assert of(folder, "b") in project("b")
    assert of(folder, "a") in project("a")


def test_an_older_file_in_its_place_is_another_file(project, folder):
    project("a")
    old = folder / "old.csv"
    old.write_text(rows("b"))
    os.utime(old, (10**9, 10**9))
    shutil.copy2(old, folder / "a" / "orders.csv")
    assert of(folder, "b") in project("a")


def test_two_addresses_are_two_files_also_if_one_was_fetched_before(project, folder, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Loopback() as server:
        urls = {name: server.serve(f"/{name}", Answer(rows(name).encode())) for name in "ab"}
        for name in "abab":
            got = project(name, f"{{name: orders.csv, urls: ['{urls[name]}']}}")
            assert of(folder, name) in got, name
        assert len(server.requests) == 2


def test_a_record_of_a_version_before_tells_by_its_source(project, folder, monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Loopback() as server:
        urls = {name: server.serve(f"/{name}", Answer(rows(name).encode())) for name in "ab"}
        files = {name: f"{{name: orders.csv, urls: ['{urls[name]}']}}" for name in "ab"}
        project("a", files["a"])
        path = folder / "home" / "raw" / "my-shop" / "orders.csv.json"
        record = json.loads(path.read_text())
        del record["origins"]
        path.write_text(json.dumps(record))
        for name in "ba":
            assert of(folder, name) in project(name, files[name])
        assert len(server.requests) == 2


def test_what_a_version_before_prepared_is_opened_where_digests_vouch_for_it(
    project, folder, monkeypatch
):
    import hashlib

    digest = hashlib.sha256(rows("a").encode()).hexdigest()
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Loopback() as server:
        url = server.serve("/a", Answer(rows("a").encode()))
        pinned = f"{{name: orders.csv, urls: ['{url}'], sha256: {digest}}}"
        project("a", pinned)
        (path,) = (folder / "home" / "prepared").rglob("*.parquet")
        path.rename(folder / "home" / "prepared" / path.name)
        shutil.rmtree(folder / "home" / "raw")
        server.serve("/a", Answer(status=404))
        assert of(folder, "a") in project("a", pinned)
    assert of(folder, "b") in project("b")


def test_another_revision_of_the_reader_prepares_anew(project, folder, recbench, monkeypatch):
    from recbench.data.readers import delimited

    project("a")
    monkeypatch.setattr(delimited.read, "revision", 2, raising=False)
    assert "its reader's revision changed" in recbench("fetch", "my-shop").stderr
    assert "changed" not in recbench("fetch", "my-shop").stderr


def test_flipped_bytes_are_found_though_size_and_time_are_right(
    project, folder, recbench, monkeypatch
):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with Loopback() as server:
        url = server.serve("/a", Answer(rows("a").encode()))
        whole = project("a", f"{{name: orders.csv, urls: ['{url}']}}")
        path = folder / "home" / "raw" / "my-shop" / "orders.csv"
        before = path.stat()
        content = bytearray(path.read_bytes())
        content[15] ^= 1
        path.write_bytes(content)
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        result = recbench("fetch", "-f", "my-shop")
        assert result.exit_code == 0, result.output
        assert result.stdout == whole
        assert path.read_bytes() == rows("a").encode()
        assert len(server.requests) == 2
