import errno
import hashlib
import io
import json
import logging
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest
import requests

from loopback import Answer, Loopback
from recbench.data.catalog import Entry, LicenceTerms, RemoteFile
from recbench.data.fetch.cache import PartialFile
from recbench.data.fetch.http import Policy, Session, Unusable
from recbench.data.fetch.raw import fetch, plan, raw_folder
from recbench.errors import DataError, UsageError
from recbench.files import home_folder

CONTENT = random.Random(1).randbytes(300_000)
OTHER = random.Random(2).randbytes(300_000)
SHA256 = hashlib.sha256(CONTENT).hexdigest()
VERSION = {"ETag": '"one"', "Last-Modified": "Wed, 01 Jan 2025 00:00:00 GMT"}
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def server() -> Iterator[Loopback]:
    with Loopback() as running:
        yield running


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RECBENCH_HOME", "RECBENCH_OFFLINE", "RECBENCH_MIRROR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.setenv(name, "127.0.0.1")


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def get(tmp_path: Path, pauses: list[float]) -> Callable[..., bytes]:
    """Fetch a one-file dataset with short timeouts and no real pauses; return its content."""

    def run(urls: str | list[str], attempts: int = 3, read: float = 5, **more: Any) -> bytes:
        file = {key: more.pop(key) for key in tuple(more) if key in RemoteFile.__dataclass_fields__}
        policy = Policy(attempts=attempts, connect=2, read=read, redirects=4, sleep=pauses.append)
        (path,) = fetch(one_file(urls, **file), tmp_path, policy=policy, **more)
        return path.read_bytes()

    return run


def one_file(urls: str | list[str], **file: Any) -> Entry:
    listed = (urls,) if isinstance(urls, str) else tuple(urls)
    return dataset(RemoteFile("toy.bin", listed, **file))


def dataset(*files: RemoteFile, **more: Any) -> Entry:
    return Entry("toy", "Toy", "delimited", "none", files=files, **more)


def target(home: Path) -> Path:
    return home / "raw" / "toy" / "toy.bin"


def record(home: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(target(home).with_name("toy.bin.json").read_text())
    return found


def test_a_file_is_fetched_once_recorded_and_alone(server, get, tmp_path):
    url = server.serve("/f", Answer(CONTENT))
    seen: list[tuple[str, int, int]] = []
    got = get(url, sha256=SHA256, progress=lambda *step: seen.append(step))
    assert got == CONTENT
    assert get(url, sha256=SHA256) == CONTENT
    assert len(server.requests) == 1
    assert seen[-1] == ("toy.bin", len(CONTENT), len(CONTENT))
    assert [step[1] for step in seen] == sorted(step[1] for step in seen)
    assert (record(tmp_path)["bytes"], record(tmp_path)["digests"]) == (
        len(CONTENT),
        {"sha256": SHA256},
    )
    names = {path.name for path in target(tmp_path).parent.iterdir()}
    assert names - {".toy.bin.lock"} == {"toy.bin", "toy.bin.json"}


@pytest.mark.parametrize("pinned", [True, False])
@pytest.mark.parametrize("percent", [1, 50, 99])
def test_a_cut_connection_is_resumed_without_sending_a_byte_twice(server, get, percent, pinned):
    cut = len(CONTENT) * percent // 100
    good = Answer(CONTENT, headers=VERSION)
    url = server.serve("/f", Answer(CONTENT, headers=VERSION, cut=cut), good)
    assert get(url, sha256=SHA256 if pinned else None) == CONTENT
    assert server.sent["/f"] == len(CONTENT)
    assert server.headers("Range") == [None, f"bytes={cut}-"]
    assert server.headers("If-Range") == [None, None if pinned else '"one"']


def test_a_later_process_goes_on_where_an_earlier_one_stopped(server, get, tmp_path):
    url = server.serve("/f", Answer(CONTENT, headers=VERSION, cut=1000))
    with pytest.raises(DataError, match=r"closed after 1,000 of 300,000 bytes"):
        get(url, attempts=1)
    assert not target(tmp_path).exists()
    (planned,) = plan(one_file(url, bytes=len(CONTENT)), tmp_path)
    assert (planned.here, planned.held, planned.size) == (False, 1000, len(CONTENT))
    server.serve("/f", Answer(CONTENT, headers=VERSION))
    assert get(url) == CONTENT
    assert server.sent["/f"] == len(CONTENT)


def test_nothing_is_asked_for_when_only_the_last_step_is_missing(
    server, get, tmp_path, monkeypatch
):
    url = server.serve("/f", Answer(CONTENT, headers=VERSION))
    with monkeypatch.context() as broken:
        broken.setattr(
            "recbench.data.fetch.cache.Place.install",
            lambda *_: os.kill(os.getpid(), signal.SIGINT),
        )
        with pytest.raises(KeyboardInterrupt):
            get(url)
    assert not target(tmp_path).exists()
    assert get(url) == CONTENT
    assert len(server.requests) == 1


def test_a_server_without_ranges_sends_everything_again(server, get):
    cut = Answer(CONTENT, ranges=False, cut=200_000)
    url = server.serve("/f", cut, Answer(CONTENT, ranges=False))
    assert get(url, sha256=SHA256) == CONTENT
    assert server.sent["/f"] == 200_000 + len(CONTENT)


def test_a_server_that_always_cuts_is_given_up_when_it_makes_no_progress(server, get, pauses):
    url = server.serve("/f", Answer(CONTENT, ranges=False, cut=200_000))
    with pytest.raises(DataError, match=r"3 times in a row"):
        get(url, sha256=SHA256)
    assert len(server.requests) == 3
    assert 0.5 <= pauses[0] <= 1 <= pauses[1] <= 2


def test_every_new_byte_earns_new_attempts(server, get):
    url = server.serve("/f", Answer(CONTENT, headers=VERSION, cut=30_000))
    assert get(url, attempts=2) == CONTENT
    assert len(server.requests) == 10


@pytest.mark.parametrize("conditional", [True, False])
def test_a_file_that_changes_between_attempts_is_started_over(server, get, conditional):
    changed = Answer(OTHER, headers={"ETag": '"two"'}, conditional=conditional)
    url = server.serve("/f", Answer(CONTENT, headers={"ETag": '"one"'}, cut=1000), changed)
    assert get(url) == OTHER


def test_a_mixture_of_two_versions_is_started_over_when_its_digest_is_wrong(server, get):
    url = server.serve("/f", Answer(OTHER, cut=1000), Answer(CONTENT))
    assert get(url, sha256=SHA256) == CONTENT
    assert server.headers("Range") == [None, "bytes=1000-", None]


def test_a_shrunken_file_is_started_over(server, get):
    url = server.serve(
        "/f", Answer(CONTENT, headers=VERSION, cut=1000), Answer(b"short", conditional=False)
    )
    assert get(url) == b"short"


def test_a_wrong_file_is_not_used_and_the_next_address_is_tried(server, get, tmp_path):
    bad, good = server.serve("/bad", Answer(OTHER)), server.serve("/good", Answer(CONTENT))
    assert get([bad, good], sha256=SHA256) == CONTENT
    assert record(tmp_path)["source"] == good


def test_another_address_continues_what_one_began(server, get):
    dead = server.serve("/dead", Answer(CONTENT, cut=100_000), Answer(status=410))
    alive = server.serve("/alive", Answer(CONTENT))
    assert get([dead, alive], sha256=SHA256) == CONTENT
    assert server.sent["/alive"] == len(CONTENT) - 100_000


def test_without_a_digest_addresses_are_not_mixed(server, get):
    dead = server.serve("/dead", Answer(OTHER, headers=VERSION, cut=100_000), Answer(status=410))
    alive = server.serve("/alive", Answer(CONTENT, headers=VERSION))
    assert get([dead, alive]) == CONTENT
    assert server.sent["/alive"] == len(CONTENT)


@pytest.mark.parametrize(
    ("kind", "digest"),
    [
        ("md5", hashlib.md5(CONTENT).hexdigest()),
        ("git_blob", hashlib.sha1(b"blob %d\0" % len(CONTENT) + CONTENT).hexdigest()),
        ("bytes", len(CONTENT)),
    ],
)
def test_every_kind_of_evidence_is_checked(server, get, tmp_path, kind, digest):
    url = server.serve("/f", Answer(OTHER + b"!"))
    with pytest.raises(DataError, match="expected"):
        get(url, **{kind: digest})
    server.serve("/f", Answer(CONTENT))
    assert get(url, **{kind: digest}) == CONTENT
    assert record(tmp_path)["digests"].get(kind, digest) == digest


def test_an_error_names_every_address_its_reason_and_the_next_step(server, get):
    missing, wrong = server.url("/missing"), server.serve("/wrong", Answer(OTHER))
    closed = "http://127.0.0.1:1/f"
    with pytest.raises(DataError) as caught:
        get([missing, wrong, closed], sha256=SHA256)
    text = str(caught.value)
    assert f"{missing}: 404 Not Found" in text
    assert (
        f"{wrong}: its SHA-256 is {hashlib.sha256(OTHER).hexdigest()}, {SHA256} is expected" in text
    )
    assert f"{closed}: Failed to establish a new connection:" in text
    assert text.endswith("recbench fetch toy --from FILE")


@pytest.mark.parametrize(
    ("status", "after", "pause"), [(429, "7", 7), (503, "3600", 60), (503, "-1", None)]
)
def test_a_busy_server_is_waited_for_as_it_asks(server, get, pauses, status, after, pause):
    busy = Answer(status=status, headers={"Retry-After": after})
    url = server.serve("/f", busy, Answer(CONTENT))
    assert get(url, sha256=SHA256) == CONTENT
    assert pauses == [pause] if pause else 0.5 <= pauses[0] <= 1


def test_a_busy_server_may_name_a_date(server, get, pauses):
    soon = format_datetime(datetime.now(UTC) + timedelta(seconds=30), usegmt=True)
    url = server.serve("/f", Answer(status=503, headers={"Retry-After": soon}), Answer(CONTENT))
    assert get(url, sha256=SHA256) == CONTENT
    assert 0 < pauses[0] <= 30


def test_redirects_are_followed_but_not_for_ever(server, get):
    server.serve("/there", Answer(CONTENT))
    url = server.serve("/f", Answer(status=302, headers={"Location": "/there"}))
    assert get(url, sha256=SHA256) == CONTENT
    loop = server.serve("/loop", Answer(status=302, headers={"Location": "/loop"}))
    with pytest.raises(DataError, match="redirects more than 4 times"):
        get(loop, sha256="0" * 64)


@pytest.mark.parametrize("where", ["ftp://127.0.0.1/f", "file:///etc/passwd", "javascript:0"])
def test_redirects_lead_to_http_only(server, get, where):
    url = server.serve("/f", Answer(status=302, headers={"Location": where}))
    scheme = where.partition(":")[0]
    with pytest.raises(DataError, match=f"redirects from http to {scheme}, which is not allowed"):
        get(url)


def test_redirects_do_not_drop_encryption():
    response = requests.Response()
    response.status_code, response.url = 302, "https://example.org/f"
    response.raw = io.BytesIO()
    response.headers["Location"] = "http://example.org/f"
    with pytest.raises(Unusable, match="from https to http, which is not allowed"):
        Session().get_redirect_target(response)


def test_a_stalled_connection_is_taken_up_again(server, get):
    url = server.serve(
        "/f", Answer(CONTENT, headers=VERSION, stall=77_777), Answer(CONTENT, headers=VERSION)
    )
    assert get(url, read=0.2) == CONTENT
    assert server.headers("Range") == [None, "bytes=77777-"]


def test_a_server_that_never_answers_is_given_up(server, get):
    url = server.serve("/f", Answer(CONTENT, stall=0, announced=9))
    with pytest.raises(DataError, match=r"nothing arrived for 0\.1 s, 2 times in a row"):
        get(url, read=0.1, attempts=2)


@pytest.mark.parametrize("evidence", [{"sha256": SHA256}, {"bytes": len(CONTENT)}])
def test_a_length_that_is_too_short_is_noticed(server, get, evidence):
    url = server.serve("/f", Answer(CONTENT, announced=250_000))
    with pytest.raises(DataError, match="expected"):
        get(url, **evidence)


def test_a_chunked_answer_needs_no_length(server, get):
    url = server.serve("/f", Answer(CONTENT, chunked=True))
    assert get(url) == CONTENT


def test_a_chunked_answer_that_is_cut_is_noticed(server, get):
    url = server.serve("/f", Answer(CONTENT, chunked=True, cut=1000), Answer(CONTENT, chunked=True))
    assert get(url) == CONTENT
    assert len(server.requests) == 2


def test_an_answer_whose_end_is_not_marked_needs_a_digest(server, get):
    url = server.serve("/f", Answer(CONTENT, announced=-1))
    with pytest.raises(DataError, match="a cut would go unnoticed"):
        get(url)
    assert get(url, sha256=SHA256) == CONTENT


def test_an_endless_answer_is_stopped(server, get):
    url = server.serve("/f", Answer(CONTENT * 3, chunked=True))
    with pytest.raises(DataError, match=r"more than the 300,000 bytes expected"):
        get(url, bytes=len(CONTENT), sha256=SHA256)


def test_an_unwanted_encoding_is_refused(server, get):
    url = server.serve("/f", Answer(CONTENT, headers={"Content-Encoding": "gzip"}))
    with pytest.raises(DataError, match="gzip encoding"):
        get(url, sha256=SHA256)


def test_a_login_page_is_not_taken_for_the_file(server, get, tmp_path):
    page = {"Content-Type": "text/html; charset=utf-8"}
    url = server.serve("/f", Answer(b"<html>Log in</html>", headers=page))
    with pytest.raises(DataError, match="it answers with a web page"):
        get(url)
    assert {path.name for path in target(tmp_path).parent.iterdir()} <= {".toy.bin.lock"}
    server.serve("/f", Answer(CONTENT, headers=page))
    assert get(url, sha256=SHA256) == CONTENT


def test_an_empty_file_is_a_file(server, get):
    assert get(server.serve("/f", Answer(b""))) == b""


def test_the_first_copy_is_trusted_aloud_and_must_match_from_then_on(server, get, tmp_path, caplog):
    url = server.serve("/f", Answer(CONTENT))
    assert get(url) == CONTENT
    assert SHA256 in caplog.text
    target(tmp_path).unlink()
    server.serve("/f", Answer(OTHER))
    with pytest.raises(
        DataError, match=r"(?s)not the file fetched on .*; if the publisher changed"
    ):
        get(url)
    target(tmp_path).with_name("toy.bin.json").unlink()
    assert get(url) == OTHER


@pytest.mark.parametrize(
    "changes", [{"origins": [{}]}, {"digests": 7}, {"bytes": "x"}, {"bytes": 10**30}, {"more": 1}]
)
def test_a_record_with_a_field_of_another_type_is_none(server, get, tmp_path, caplog, changes):
    url = server.serve("/f", Answer(CONTENT))
    assert get(url) == CONTENT
    path = target(tmp_path).with_name("toy.bin.json")
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    caplog.clear()
    assert get(url) == CONTENT
    assert "trusting this first copy" in caplog.text
    assert record(tmp_path)["digests"]["sha256"] == SHA256


def test_a_damaged_file_is_replaced(server, get, tmp_path, caplog):
    url = server.serve("/f", Answer(CONTENT))
    assert get(url) == CONTENT
    target(tmp_path).write_bytes(OTHER)
    with pytest.raises(DataError, match="is damaged, and no network may be used"):
        get(url, offline=True)
    assert get(url) == CONTENT
    assert "is not usable" in caplog.text


def test_a_file_put_in_place_by_hand_is_verified_and_recorded(get, tmp_path):
    target(tmp_path).parent.mkdir(parents=True)
    target(tmp_path).write_bytes(CONTENT)
    assert get("http://127.0.0.1:1/f", sha256=SHA256, offline=True) == CONTENT
    assert record(tmp_path)["digests"]["sha256"] == SHA256


def test_what_a_record_says_of_a_file_does_not_speak_to_the_terminal(get, server, tmp_path, caplog):
    url = server.serve("/f", Answer(CONTENT))
    get(url)
    path = target(tmp_path).with_name("toy.bin.json")
    path.write_text(json.dumps(record(tmp_path) | {"digests": {"sha256": "\x1b[31mred"}}))
    with pytest.raises(DataError, match="not the file fetched"):
        get(url)
    assert "that one's was ?[31mred" in caplog.text


def test_the_size_of_a_file_is_verified_wherever_it_was_found(get, tmp_path, caplog):
    """In place, given by hand, pointed at: a size is evidence, also where no digest is pinned."""
    short = tmp_path / "toy.bin"
    short.write_bytes(CONTENT[:-1])
    wrong = "it is 299,999 bytes long, 300,000 are expected"
    pointed = dataset(RemoteFile("toy.bin", path=short, bytes=len(CONTENT)))
    with pytest.raises(DataError, match=f"not the file the catalogue describes: {wrong}"):
        fetch(pointed, tmp_path)
    with pytest.raises(DataError, match=f"is not toy.bin of toy: {wrong}"):
        fetch(one_file("http://127.0.0.1:1/f", bytes=len(CONTENT)), tmp_path, source=short)
    target(tmp_path).write_bytes(CONTENT[:-1])
    with pytest.raises(DataError, match="is damaged, and no network may be used"):
        get("http://127.0.0.1:1/f", bytes=len(CONTENT), offline=True)
    assert f"is not usable: {wrong}" in caplog.text
    short.write_bytes(CONTENT)
    assert fetch(pointed, tmp_path) == (short,)


def test_offline_is_an_error_that_names_both_ways_out(get, monkeypatch):
    url = "http://127.0.0.1:1/f"
    expected = (
        "no network may be used; with a network type: recbench fetch toy; without:\non another "
        f"machine get\n  toy.bin from {url}\n"
        "bring it here and type: recbench fetch toy --from toy.bin"
    )
    with pytest.raises(DataError, match=expected):
        get(url, offline=True)
    monkeypatch.setenv("RECBENCH_OFFLINE", "1")
    with pytest.raises(DataError, match=expected):
        get(url)


def closed() -> str:
    """An address where nobody listens."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{taken.getsockname()[1]}"


def test_where_nobody_can_be_reached_the_way_by_hand_is_told_at_once(tmp_path, pauses):
    places, policy = (closed(), closed()), Policy(sleep=pauses.append)
    files = [
        RemoteFile(name, tuple(f"{place}/{name}" for place in places)) for name in ("a.txt", "b.7z")
    ]
    with pytest.raises(DataError) as caught:
        fetch(dataset(*files), tmp_path, policy=policy)
    first, *others = str(caught.value).splitlines()
    assert "toy cannot be fetched: there is no network here, or none that leads to it" in first
    assert "Connection refused" in first
    assert others == [
        "on another machine get",
        *(
            f"  {word}"
            for name in ("a.txt", "b.7z")
            for word in (f"{name} from {places[0]}/{name}", f"  or {places[1]}/{name}")
        ),
        "bring them, in one folder, here and type: recbench fetch toy --from a.txt",
    ]
    assert sum(pauses) < 1, "it waited for a network that is not there"
    for file in files:
        (tmp_path / file.name).write_text(file.name)
    paths = fetch(dataset(*files), tmp_path / "home", source=tmp_path / "a.txt")
    assert [path.read_text() for path in paths] == ["a.txt", "b.7z"]


def test_a_server_that_comes_back_is_waited_for_where_there_is_a_network(server, get, pauses):
    gone, there = f"{closed()}/f", server.serve("/f", *[Answer(status=503)] * 3)
    with pytest.raises(DataError) as caught:
        get([gone, there])
    assert "no network here" not in str(caught.value)
    assert f"{gone}: Failed to establish" in str(caught.value)
    assert "3 times in a row" in str(caught.value).partition(there)[0]


@pytest.mark.parametrize("variable", [True, False])
def test_a_mirror_is_tried_first(server, get, monkeypatch, tmp_path, variable):
    server.serve("/m/toy/toy.bin", Answer(CONTENT))
    mirror, url = server.url("/m/"), server.serve("/f", Answer(CONTENT))
    if variable:
        monkeypatch.setenv("RECBENCH_MIRROR", mirror)
    assert get(url, sha256=SHA256, mirror=None if variable else mirror) == CONTENT
    assert [path for path, _ in server.requests] == ["/m/toy/toy.bin"]
    (planned,) = plan(one_file(url), tmp_path, mirror=mirror)
    assert planned.urls == (server.url("/m/toy/toy.bin"), url)


def test_a_mirror_without_the_file_is_passed_over(server, get):
    url = server.serve("/f", Answer(CONTENT))
    assert get(url, sha256=SHA256, mirror=server.url("/nothing")) == CONTENT


def test_a_mirror_is_an_address(get):
    with pytest.raises(UsageError, match="http or https address, not '/mnt/data'"):
        get("http://127.0.0.1:1/f", mirror="/mnt/data")


BOUND = LicenceTerms(
    "You must agree with the owner.", accept=True, steps=("Open the page.", "Press the button.")
)


def test_data_under_terms_is_only_taken_by_hand(tmp_path):
    entry = dataset(RemoteFile("toy.bin", sha256=SHA256), terms=BOUND)
    with pytest.raises(DataError) as caught:
        fetch(entry, tmp_path, mirror="http://127.0.0.1:1")
    assert str(caught.value).splitlines() == [
        "toy must be fetched by hand: You must agree with the owner.",
        "  1. Open the page.",
        "  2. Press the button.",
        "then type: recbench fetch toy --from toy.bin",
    ]
    hand = tmp_path / "renamed by a browser.bin"
    hand.write_bytes(CONTENT)
    (path,) = fetch(entry, tmp_path, source=hand)
    assert path.read_bytes() == CONTENT
    hand.unlink()
    assert fetch(entry, tmp_path) == (path,)


def test_files_given_by_hand_are_verified(tmp_path):
    entry = one_file("http://127.0.0.1:1/f", sha256=SHA256)
    hand = tmp_path / "toy.bin"
    hand.write_bytes(OTHER)
    with pytest.raises(DataError, match=r"is not toy.bin of toy: its SHA-256 is"):
        fetch(entry, tmp_path / "home", source=hand)
    assert list(raw_folder(entry, tmp_path / "home").glob("[!.]*")) == []
    with pytest.raises(DataError, match="there is no such file or folder"):
        fetch(entry, tmp_path / "home", source=tmp_path / "absent")
    with pytest.raises(DataError, match=r"toy needs toy.bin, not found there"):
        fetch(entry, tmp_path / "home", source=tmp_path / "home")


@pytest.mark.parametrize("folder", ["", "toy"])
@pytest.mark.parametrize("linking", [True, False])
def test_a_folder_gives_the_files_it_has_by_name(tmp_path, monkeypatch, folder, linking):
    files = (RemoteFile("a.txt", sha256=hashlib.sha256(b"a").hexdigest()), RemoteFile("b.txt"))
    entry = dataset(*files, terms=BOUND)
    source = tmp_path / "source" / folder
    source.mkdir(parents=True)
    (source / "a.txt").write_bytes(b"a")
    with pytest.raises(DataError, match=r"needs a.txt, b.txt"):
        fetch(entry, tmp_path, source=tmp_path / "source")
    (source / "b.txt").write_bytes(b"b")
    if not linking:
        monkeypatch.setattr(os, "link", refuse(errno.EXDEV))
    paths = fetch(entry, tmp_path, source=tmp_path / "source")
    assert [path.read_bytes() for path in paths] == [b"a", b"b"]
    assert fetch(entry, tmp_path, source=tmp_path / "source") == paths
    assert sorted(path.name for path in source.iterdir()) == ["a.txt", "b.txt"]


def refuse(number: int) -> Callable[..., None]:
    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    return fail


def test_another_layout_will_do(tmp_path):
    parts = (RemoteFile("part1.txt"), RemoteFile("part2.txt"))
    entry = dataset(RemoteFile("all.tar"), other_layouts=(parts,), terms=BOUND)
    for file in parts:
        (tmp_path / file.name).write_text(file.name)
    paths = fetch(entry, tmp_path / "home", source=tmp_path)
    assert [path.name for path in paths] == ["part1.txt", "part2.txt"]
    assert fetch(entry, tmp_path / "home") == paths


def test_a_local_file_is_used_where_it_lies(tmp_path):
    mine = tmp_path / "mine.csv"
    entry = dataset(RemoteFile("mine.csv", path=mine, sha256=SHA256))
    with pytest.raises(DataError, match="does not exist"):
        fetch(entry, tmp_path)
    mine.write_bytes(OTHER)
    with pytest.raises(DataError, match="not the file the catalogue describes"):
        fetch(entry, tmp_path)
    mine.write_bytes(CONTENT)
    assert fetch(entry, tmp_path) == (mine,)
    assert plan(entry, tmp_path)[0].path == mine


def test_insecure_needs_a_digest(get):
    with pytest.raises(UsageError, match="--insecure needs a digest"):
        get("https://127.0.0.1:1/f", insecure=True, bytes=3)


@pytest.mark.skipif(not shutil.which("openssl"), reason="makes a certificate with openssl")
def test_a_bad_certificate_is_refused_unless_a_digest_protects(get, tmp_path, pauses):
    pem = tmp_path / "server.pem"
    words = (
        "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 1 -subj /CN=x"
    )
    subprocess.run(
        [*words.split(), "-keyout", pem, "-out", tmp_path / "c.pem"],
        check=True,
        capture_output=True,
    )
    pem.write_text(pem.read_text() + (tmp_path / "c.pem").read_text())
    with Loopback(certificate=pem) as server:
        url = server.serve("/f", Answer(CONTENT))
        with pytest.raises(DataError) as caught:
            get(url, sha256=SHA256, expired_certificate="It expires each August")
        assert "CERTIFICATE_VERIFY_FAILED" in str(caught.value)
        assert "It expires each August; a digest is pinned, so --insecure is safe" in str(
            caught.value
        )
        assert pauses == []
        assert get(url, sha256=SHA256, insecure=True) == CONTENT


def test_too_little_room_is_said_before_anything_is_sent(server, get, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(10, 9, 1))
    url = server.serve("/f", Answer(CONTENT))
    with pytest.raises(
        DataError, match=r"no room for toy.bin in .*: 0.3 MB are missing, 0.0 MB are free"
    ):
        get(url)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EACCES])
def test_a_disk_that_refuses_is_a_sentence(server, get, monkeypatch, number):
    monkeypatch.setattr(PartialFile, "append", refuse(number))
    url = server.serve("/f", Answer(CONTENT))
    with pytest.raises(
        DataError, match="no room for toy.bin" if number == errno.ENOSPC else "cannot write"
    ):
        get(url)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0, reason="mounts a file system: root only"
)
def test_a_full_disk_keeps_what_it_has(server, get, tmp_path, monkeypatch):
    disk = tmp_path / "raw" / "toy"
    disk.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("no file system may be mounted here")
    try:
        url = server.serve("/f", Answer(CONTENT, headers=VERSION))
        with pytest.raises(DataError, match=r"0\.3 MB are missing"):
            get(url)
        monkeypatch.setattr(shutil, "disk_usage", lambda _: shutil._ntuple_diskusage(9, 0, 10**9))
        with pytest.raises(DataError, match="the disk filled up"):
            get(url)
        assert not target(tmp_path).exists()
        subprocess.run(["mount", "-o", "remount,size=2m", str(disk)], check=True)
        before = server.sent["/f"]
        assert get(url) == CONTENT
        assert server.sent["/f"] - before < len(CONTENT)
    finally:
        subprocess.run(["umount", str(disk)], check=True)


CHILD = """
    import sys
    from pathlib import Path
    from recbench.data.catalog import Entry, RemoteFile
    from recbench.data.fetch.raw import fetch
    home, url, digest = sys.argv[1:]
    file = RemoteFile("toy.bin", (url,), sha256=digest or None)
    fetch(Entry("toy", "Toy", "delimited", "none", files=(file,)), Path(home))
"""


def start(home: Path, url: str, digest: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-c", textwrap.dedent(CHILD), str(home), url, digest]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE)


def finish(child: subprocess.Popen[bytes]) -> tuple[int, str]:
    _, errors = child.communicate(timeout=60)
    return child.returncode, errors.decode()


@pytest.mark.slow
def test_two_processes_fetch_a_file_once(server, tmp_path):
    url = server.serve("/f", Answer(CONTENT, pause=0.02))
    children = [start(tmp_path, url, SHA256) for _ in range(2)]
    assert [finish(child)[0] for child in children] == [0, 0]
    assert target(tmp_path).read_bytes() == CONTENT
    assert len(server.requests) == 1


@pytest.mark.slow
@pytest.mark.parametrize("digest", [SHA256, ""])
def test_killed_at_any_moment_a_rerun_ends_in_the_right_file(server, tmp_path, digest):
    url = server.serve("/f", Answer(CONTENT, headers=VERSION, pause=0.004))
    moments = random.Random(len(digest))
    for _ in range(4):
        before = len(server.requests)
        child = start(tmp_path, url, digest)
        while len(server.requests) == before and child.poll() is None:
            time.sleep(0.002)
        time.sleep(moments.uniform(0, 0.1))
        child.kill()
        finish(child)
        assert not target(tmp_path).exists() or target(tmp_path).read_bytes() == CONTENT
    code, errors = finish(start(tmp_path, url, digest))
    assert code == 0, errors
    assert target(tmp_path).read_bytes() == CONTENT
    assert record(tmp_path)["digests"]["sha256"] == SHA256


def test_the_home_folder_can_be_moved(monkeypatch):
    assert home_folder().name == "recbench"
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    assert home_folder() == Path("/caches/recbench")
    monkeypatch.setenv("RECBENCH_HOME", "/big")
    assert home_folder() == Path("/big")


def test_messages_go_to_one_logger(server, get, caplog):
    with caplog.at_level(logging.WARNING, logger="recbench.fetch"):
        get(server.serve("/f", Answer(CONTENT)))
    assert {entry.name for entry in caplog.records} == {"recbench.fetch"}
