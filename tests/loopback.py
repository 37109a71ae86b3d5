"""An HTTP server on the loopback interface that misbehaves exactly as told."""

import http.server
import re
import ssl
import threading
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

BLOCK = 1 << 14


@dataclass
class Answer:
    """How one request is answered; by default as a good server would."""

    content: bytes = b""
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    ranges: bool = True
    conditional: bool = True
    """Whether If-Range is honoured."""
    cut: int | None = None
    """Close the connection after so many bytes of the body."""
    stall: int | None = None
    """Fall silent after so many bytes of the body."""
    announced: int | None = None
    """The Content-Length to claim instead of the true one; -1 claims none."""
    chunked: bool = False
    pause: float = 0.0
    """Seconds between two blocks."""


class Loopback:
    """Serves `answers[path]`, one after the other, the last one for ever."""

    def __init__(self, certificate: Path | None = None) -> None:
        self.answers: dict[str, list[Answer]] = {}
        self.requests: list[tuple[str, dict[str, str]]] = []
        self.sent: dict[str, int] = defaultdict(int)
        """Bytes of bodies sent, by path."""
        self.ended = threading.Event()
        self._lock = threading.Lock()
        handler = type("Bound", (_Handler,), {"loopback": self})
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self._server.daemon_threads = False
        self._scheme = "http"
        if certificate:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate)
            self._server.socket = context.wrap_socket(self._server.socket, server_side=True)
            self._server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes
            self._scheme = "https"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> "Loopback":
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.ended.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def serve(self, path: str, *answers: Answer) -> str:
        """Set the answers of a path and return its address."""
        self.answers[path] = list(answers)
        return self.url(path)

    def url(self, path: str) -> str:
        return f"{self._scheme}://127.0.0.1:{self._server.server_address[1]}{path}"

    def headers(self, name: str) -> Sequence[str | None]:
        """One header of every request so far."""
        return [headers.get(name) for _, headers in self.requests]

    def next_answer(self, path: str, headers: dict[str, str]) -> Answer:
        with self._lock:
            self.requests.append((path, headers))
            queue = self.answers.get(path, [Answer(status=404)])
            return queue.pop(0) if len(queue) > 1 else queue[0]

    def count(self, path: str, size: int) -> None:
        with self._lock:
            self.sent[path] += size


class _Handler(http.server.BaseHTTPRequestHandler):
    loopback: Loopback
    protocol_version = "HTTP/1.1"
    timeout = 2
    """Seconds an idle connection is kept."""

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        pass

    def handle(self) -> None:
        try:
            super().handle()
        except (ConnectionError, ssl.SSLError):
            self.close_connection = True

    def do_GET(self) -> None:
        answer = self.loopback.next_answer(self.path, dict(self.headers))
        start = self._start(answer)
        body = answer.content[start or 0 :]
        if start is not None and start >= len(answer.content):
            self._head(
                416, {"Content-Range": f"bytes */{len(answer.content)}", "Content-Length": "0"}
            )
            return
        headers = dict(answer.headers)
        if start is not None:
            last = len(answer.content) - 1
            headers["Content-Range"] = f"bytes {start}-{last}/{len(answer.content)}"
        self._length(answer, headers, len(body))
        self._head(206 if start is not None else answer.status, headers)
        self._body(answer, body)

    def _start(self, answer: Answer) -> int | None:
        """Where the range asked for starts, if it is to be honoured."""
        asked = re.fullmatch(r"bytes=(\d+)-", self.headers.get("Range", ""))
        if asked is None or not answer.ranges or answer.status != 200:
            return None
        condition = self.headers.get("If-Range")
        same = condition in (None, answer.headers.get("ETag"), answer.headers.get("Last-Modified"))
        return int(asked[1]) if same or not answer.conditional else None

    def _length(self, answer: Answer, headers: dict[str, str], size: int) -> None:
        if answer.chunked:
            headers["Transfer-Encoding"] = "chunked"
        elif answer.announced == -1:
            headers["Connection"] = "close"
            self.close_connection = True
        else:
            headers["Content-Length"] = str(size if answer.announced is None else answer.announced)

    def _head(self, status: int, headers: dict[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()

    def _body(self, answer: Answer, body: bytes) -> None:
        ends = [
            end for end in (answer.cut, answer.stall, answer.announced) if end not in (None, -1)
        ]
        end = min([len(body), *ends])
        for start in range(0, end, BLOCK):
            piece = body[start : min(start + BLOCK, end)]
            self.loopback.count(self.path, len(piece))
            self.wfile.write(b"%x\r\n%b\r\n" % (len(piece), piece) if answer.chunked else piece)
            if answer.pause:
                time.sleep(answer.pause)
        if answer.stall is not None:
            self.loopback.ended.wait(10)
        if answer.cut is not None or answer.stall is not None:
            self.close_connection = True
        elif answer.chunked:
            self.wfile.write(b"0\r\n\r\n")
