"""Servers that mean harm, byte by byte: each costs a sentence, and neither memory nor disk."""

import hashlib
import resource
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from types import SimpleNamespace

import pytest

from recbench.data.catalog import Entry, RemoteFile
from recbench.data.fetch import http
from recbench.data.fetch.http import Policy
from recbench.data.fetch.raw import fetch
from recbench.errors import DataError

BODY = b"user,item\n1,2\n3,4\n"
OK = b"HTTP/1.1 200 OK\r\n"
POLICY = Policy(attempts=1, connect=2, read=1, redirects=3, sleep=lambda seconds: None)
Script = Callable[[socket.socket], object]


@pytest.fixture
def serve(monkeypatch) -> Iterator[Callable[[Script], str]]:
    """Answer every connection by a script; return the address."""
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    listener = socket.create_server(("127.0.0.1", 0))
    threads: list[threading.Thread] = []

    def answer(script: Script, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(5)
            connection.recv(1 << 16)
            script(connection)

    def accept(script: Script) -> None:
        with suppress(OSError):
            while True:
                connection, _ = listener.accept()
                threads.append(threading.Thread(target=answer, args=[script, connection]))
                threads[-1].start()

    def start(script: Script) -> str:
        threads.append(threading.Thread(target=accept, args=[script]))
        threads[-1].start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/f"

    yield start
    listener.shutdown(socket.SHUT_RDWR)
    listener.close()
    for thread in threads:
        thread.join()


def get(url: str, home, name: str = "toy.csv", policy: Policy = POLICY, **file) -> bytes:
    entry = Entry(
        "toy", "Toy", "delimited", "none", files=(RemoteFile(name, (url,), **file),)
    )  # fmt: skip
    (path,) = fetch(entry, home, policy=policy)
    return path.read_bytes()


def says(*parts: bytes) -> Script:
    return lambda connection: connection.sendall(b"".join(parts))


def endless(head: bytes, piece: bytes, seconds: float = 20) -> Script:
    def script(connection: socket.socket) -> None:
        connection.sendall(head)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            connection.sendall(piece)

    return script


def length(body: bytes) -> bytes:
    return b"Content-Length: %d\r\n" % len(body)


PAGE = b"\n<!DOCTYPE html>\n<html><body>log in</body></html>\n"
PART = b"HTTP/1.1 206 Partial Content\r\n"


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (OK + length(PAGE) + b"\r\n" + PAGE, "a web page"),
        (OK + length(PAGE) + b"Content-Type: text/plain\r\n\r\n" + PAGE, "a web page"),
        (PART + length(BODY) + b"Content-Range: bytes 0-17/18\r\n\r\n" + BODY, "not asked for"),
        (PART + length(BODY) + b"Content-Range: bytes */18\r\n\r\n" + BODY, "not asked for"),
        (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n" + BODY, "how long the file is"),
        (b"HTTP/1.1 404 \x1b[31mred\r\n\r\n", "404 ?[31mred"),
        (OK + length(BODY) + b"Transfer-Encoding: odd\r\n\r\n" + BODY, "odd transfer encoding"),
        (OK + length(BODY) + b"odd\r\nTransfer-Encoding: chunked\r\n\r\n" + BODY, "headers that"),
    ],
)
def test_what_is_not_the_file_is_not_taken(serve, tmp_path, answer, said):
    with pytest.raises(DataError) as caught:
        get(serve(says(answer)), tmp_path)
    assert said in str(caught.value)
    assert "\x1b" not in str(caught.value)
    assert not list(tmp_path.rglob("toy.csv"))


@pytest.mark.parametrize("known", [{}, {"sha256": hashlib.sha256(BODY).hexdigest()}])
@pytest.mark.parametrize("cut", [9, 20, 30])
def test_an_answer_that_was_cut_in_its_head_is_asked_for_again(serve, tmp_path, cut, known):
    whole = OK + length(BODY) + b"\r\n" + BODY
    answers = iter([whole[:cut], whole])
    url = serve(lambda connection: connection.sendall(next(answers, b"")))
    again = replace(POLICY, attempts=2)
    assert get(url, tmp_path, policy=again, **known) == BODY


def test_a_rest_that_begins_behind_the_end_is_none(serve, tmp_path):
    """The first answer is cut in a chunk that holds more than the file; the second says so."""
    chunk = BODY + b"more"
    first = OK + b'ETag: "1"\r\nTransfer-Encoding: chunked\r\n\r\nff\r\n' + chunk
    form = b'ETag: "1"\r\nContent-Length: 0\r\nContent-Range: bytes %d-%d/%d\r\n\r\n'
    second = PART + form % (len(chunk), len(BODY) - 1, len(BODY))
    answers = iter([first, second, OK + length(BODY) + b"\r\n" + BODY])
    url = serve(lambda connection: connection.sendall(next(answers, b"")))
    assert get(url, tmp_path, policy=replace(POLICY, attempts=3)) == BODY


def test_a_page_may_be_what_is_wanted(serve, tmp_path):
    answer = OK + length(PAGE) + b"\r\n" + PAGE
    assert get(serve(says(answer)), tmp_path, name="toy.html") == PAGE


def test_a_page_saved_by_a_browser_is_not_taken_over(tmp_path):
    (tmp_path / "toy.csv").write_bytes(PAGE)
    entry = Entry("toy", "Toy", "delimited", "none", files=(RemoteFile("toy.csv", ("http://x",)),))
    with pytest.raises(DataError, match="it is a web page"):
        fetch(entry, tmp_path / "home", source=tmp_path / "toy.csv")


@pytest.mark.parametrize("total", ["*", "9" * 5000])
def test_a_part_of_unknown_length_is_not_the_rest(serve, tmp_path, total):
    """The first answer is cut; the second goes on, and does not say where it would end."""
    first = OK + b'ETag: "1"\r\nContent-Length: 18\r\n\r\n' + BODY[:5]
    second = PART + b'ETag: "1"\r\nContent-Range: bytes 5-9/%b\r\n' % total.encode()
    answers = iter([first, second + length(BODY[5:10]) + b"\r\n" + BODY[5:10]])
    url = serve(lambda connection: connection.sendall(next(answers, b"")))
    for _ in range(2):
        with pytest.raises(DataError):
            get(url, tmp_path)
    assert not list(tmp_path.rglob("toy.csv"))


def test_what_comes_with_a_redirect_is_not_read(serve, tmp_path):
    head = b"HTTP/1.1 302 Found\r\nLocation: /f\r\n\r\n"
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.monotonic()
    with pytest.raises(DataError, match="redirects more than 3 times"):
        get(serve(endless(head, bytes(1 << 20))), tmp_path)
    assert time.monotonic() - start < 10
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # KB


@pytest.mark.parametrize("piece", [b"HTTP/1.1 100 Continue\r\n\r\n", b""])
def test_the_head_of_an_answer_must_come_in_time(serve, tmp_path, monkeypatch, piece):
    monkeypatch.setattr(http, "PATIENCE", 0.2)
    slow = b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: y\r\n" % n for n in range(50))

    def drip(connection: socket.socket) -> None:
        for mark in slow:
            connection.sendall(bytes([mark]))
            time.sleep(0.02)

    start = time.monotonic()
    with pytest.raises(DataError, match="could not be fetched"):
        get(serve(endless(b"", piece) if piece else drip), tmp_path)
    assert time.monotonic() - start < 5


@pytest.mark.parametrize("chunked", [True, False])
def test_an_endless_body_leaves_half_of_the_disk(serve, tmp_path, monkeypatch, chunked):
    free = SimpleNamespace(free=1 << 22)
    monkeypatch.setattr(http, "shutil", SimpleNamespace(disk_usage=lambda path: free))
    piece = b"x" * 10_000
    head = OK + (b"Transfer-Encoding: chunked\r\n\r\n" if chunked else b"\r\n")
    script = endless(head, b"2710\r\n" + piece + b"\r\n" if chunked else piece)
    known = {} if chunked else {"sha256": "0" * 64}  # else an unmarked end is not believed at all
    with pytest.raises(DataError, match=r"sends more than 2,\d+,\d+ bytes, 50% of the free disk"):
        get(serve(script), tmp_path, **known)
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.stat().st_size > 99]
