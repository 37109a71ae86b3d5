"""Servers that lie, stall, cut, repeat and go on for ever: the file as it is, or a sentence.

Each try is a server with a script of answers, drawn by dice, before it the body that it should
send. Whatever is taken over must be that body, byte for byte.
"""

import hashlib
import logging
import os
import random
import socket
import threading
import time
from contextlib import suppress
from pathlib import Path

from bench.attack.suite import SECONDS, Said, Verdict, fresh, sentence_of
from recbench.data.catalog import Entry, RemoteFile
from recbench.data.fetch import http
from recbench.data.fetch.http import Policy
from recbench.data.fetch.raw import fetch

BODY = b"user,item\n" + b"".join(b"%d,%d\n" % (n, n * n) for n in range(400))
POLICY = Policy(attempts=3, connect=2, read=0.3, redirects=3, sleep=lambda seconds: None)
STATUS = (
    b"200 OK", b"200 OK", b"200 OK", b"206 Partial Content", b"206 Partial Content", b"416 Range",
    b"301 Moved", b"302 Found", b"404 Gone", b"429 Many", b"503 Busy", b"500 \x1b[31mred\x1b[0m",
    b"204 No Content", b"304 Not Modified", b"999 Odd", b"-1 Odd", b"200", b"abc OK",
    b"100 Continue", b"200 \xff\xfe", b"200 " + b"x" * 70_000,
)  # fmt: skip
HEADERS = (
    b"ETag: \"1\"", b"ETag: W/\"1\"", b"ETag: \"2\"", b"ETag: \xff\x1b[2J", b"Last-Modified: never",
    b"Last-Modified: Thu, 19 Nov 2026 07:00:00 GMT", b"Retry-After: 1",
    b"Retry-After: " + b"9" * 5000, b"Retry-After: Thu, 99 Nov 99999 99:99:99 GMT",
    b"Retry-After: -1", b"Retry-After: \xb2", b"Retry-After: Thu, 01 Jan 0001 00:00:00 +9999",
    b"Retry-After: Thu, 31 Dec 9999 23:59:59 -2359", b"Content-Type: text/html",
    b"Content-Type: \x1b]0;x\x07", b"Content-Encoding: gzip", b"Content-Encoding: \x1b[31m",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: odd", b"Connection: close",
    b"Set-Cookie: " + b"a=b; " * 1000, b"no colon", b": no name", b" folded",
    b"X: " + b"x" * 70_000, b"Location: /f", b"Location: http://[::1", b"Location: ftp://x/y",
    b"Location: http://127.0.0.1:99999/", b"Location: http://\xff\xfe/", b"Location: //\x1b[31m/",
    b"Location: http://a..b/", b"Location: http://" + b"a" * 300 + b"/",
    b"Location: file:///etc/passwd", b"Location: ", b"Location: http://127.0.0.1:1/",
)  # fmt: skip
LENGTHS = (
    b"%d" % len(BODY), b"%d" % len(BODY), b"%d" % (len(BODY) + 9), b"9" * 5000, b"-1", b"+5", b"",
    b"0x10", b"1e3", b"\xb2", b"%d, %d" % (len(BODY), len(BODY)), b"9" * 18, b"NaN",
)  # fmt: skip
RANGES = (
    b"bytes %d-%d/%d", b"bytes %d-%d/%d", b"bytes %d-%d/*", b"bytes %d-%d/9999999999999999999999",
    b"bytes 99999999999999999999-%d%d/%d", b"bytes %d %d %d", b"byte %d-%d/%d", b"bytes %d-%d/%d,x",
)  # fmt: skip


class Attack:
    """One server."""

    patience = SECONDS

    def set_up(self, folder: Path) -> None:
        """Listen."""
        logging.disable()
        os.environ["NO_PROXY"] = "127.0.0.1"
        http.PATIENCE = 1.0
        self.folder = folder
        (folder / "empty").mkdir()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}/f"
        self.serving = random.Random(0)

    def attempt(self, dice: random.Random) -> Verdict:
        """Fetch from a server with these dice, once or again after it failed."""
        home = fresh(self.folder / "home", self.folder / "empty")
        self.serving = random.Random(dice.random())
        pins = {"sha256": hashlib.sha256(BODY).hexdigest()} if dice.random() < 0.4 else {}
        size = {"bytes": len(BODY)} if dice.random() < 0.3 else {}
        file = RemoteFile("toy.csv", (self.url,), **pins, **size)
        entry = Entry("toy", "Toy", "delimited", "none", files=(file,))
        said: Said | None = None
        for _ in range(dice.choice([1, 1, 2, 3])):
            said = sentence_of(lambda: fetch(entry, home, policy=POLICY)[0].read_bytes())
            if said.out:
                break
        assert said is not None
        return said.verdict(f"{pins and 'pinned'} {size}", repr(BODY))

    def _accept(self) -> None:
        while True:
            connection, _ = self.listener.accept()
            threading.Thread(target=self._answer, args=[connection], daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            connection.settimeout(3)
            for _ in range(3):
                asked = connection.recv(1 << 16)
                if not asked:
                    return
                connection.sendall(b"".join(self._script(asked)))
                if self.serving.random() < 0.15:
                    time.sleep(0.5)  # longer than anybody listens
                if self.serving.random() < 0.6:
                    return

    def _script(self, asked: bytes) -> list[bytes]:
        """The bytes of an answer: honest ones, cut, or with something odd in them."""
        dice = self.serving
        start = 0
        if b"Range: bytes=" in asked:
            start = int(asked.partition(b"Range: bytes=")[2].partition(b"-")[0])
        status = b"206 Partial" if start and dice.random() < 0.6 else dice.choice(STATUS)
        if dice.random() < 0.35:
            status = b"206 Partial" if start else b"200 OK"
        body = BODY[start:] if status.startswith(b"206") else BODY
        head = [b"HTTP/1.%d %s" % (dice.choice([1, 1, 1, 0]), status)]
        length = dice.choice(LENGTHS) if dice.random() < 0.3 else b"%d" % len(body)
        if dice.random() < 0.9:
            head.append(b"Content-Length: " + length)
        if status.startswith((b"206", b"416")):
            form = dice.choice(RANGES) if dice.random() < 0.4 else RANGES[0]
            numbers = (start, len(BODY) - 1, len(BODY))
            head.append(b"Content-Range: " + form % numbers[: form.count(b"%d")])
        if dice.random() < 0.5:
            head.append(b'ETag: "1"')
        head += dice.choices(HEADERS, k=dice.choice([0, 0, 1, 2]))
        end = dice.choice([b"\r\n", b"\r\n", b"\r\n", b"\n"])
        if any(line.startswith(b"Transfer-Encoding: chunked") for line in head):
            size = dice.choice([b"%x" % len(body), b"%x" % len(body), b"-5", b"zz", b"f" * 5000])
            body = size + b"\r\n" + body + b"\r\n0\r\n\r\n"
        whole = end.join(head) + end + end + body
        if dice.random() < 0.25:
            whole = whole[: dice.randrange(len(whole))]
        return [whole]
