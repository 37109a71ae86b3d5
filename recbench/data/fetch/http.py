"""One file over HTTP, whatever the network does: resume, retry, verify, try the next address.

The bytes arrive in a partial file of stable name, so that a process killed at any moment leaves a
beginning the next one goes on from. This module and no other opens sockets.
"""

import random
import re
import shutil
import socket
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import requests
import requests.adapters
import urllib3
import urllib3.connection
import urllib3.util.response

from recbench import __version__
from recbench.data.catalog import RemoteFile
from recbench.data.fetch.cache import (
    PartialFile,
    Place,
    Version,
    is_page,
    kinds_for,
    mismatch,
    no_room,
)
from recbench.linalg.types import Note

SHARE = 0.5
"""The share of the free disk that a file of unknown length may take."""
PATIENCE = 2.0
"""How much longer than one read the head of an answer may take."""
GLANCE = 0.5
"""Seconds after which addresses that could not be reached, none of them, are tried once more."""
PASSING = {408, 425, 429, 500, 502, 503, 504}
"""Answers that may be different in a moment."""


@dataclass(frozen=True)
class Policy:
    """How patient a transfer is; times are in seconds."""

    attempts: int = 4
    """Failures in a row without a new byte before an address is given up."""
    connect: float = 10.0
    read: float = 30.0
    """Silence after which a connection counts as stalled."""
    wait: float = 1.0
    """The first pause; each further one is twice as long."""
    longest_wait: float = 60.0
    """No pause is longer, whatever the server asks for."""
    redirects: int = 10
    block: int = 1 << 19
    sleep: Callable[[float], None] = time.sleep

    def pause(self, failures: int, seconds: float | None) -> None:
        """Sleep as the server asked, else ever longer, at random so that crowds disperse."""
        if seconds is None:
            seconds = self.wait * 2.0 ** (failures - 1) * random.uniform(0.5, 1)  # noqa: S311 - no secret
        self.sleep(min(seconds, self.longest_wait))


class Unusable(Exception):
    """This address will not give the file."""


class Passing(Exception):
    """A failure that may be gone at the next attempt."""

    def __init__(self, text: str, pause: float | None = None) -> None:
        super().__init__(text)
        self.pause = pause


class Unreached(Passing):
    """There is no such name, or no way to it: nobody answered."""


class Unreachable(Exception):
    """No address gave the file; holds each with its reason, and whether none could be reached."""

    def __init__(self, reasons: Sequence[tuple[str, str]], *, nobody: bool) -> None:
        super().__init__()
        self.reasons, self.nobody = reasons, nobody


class Session(requests.Session):
    """Knows redirects to http and https only, and never from https down to plain http."""

    def __init__(self) -> None:
        super().__init__()
        for scheme in ("http://", "https://"):
            self.mount(scheme, Adapter())

    def resolve_redirects(self, *_: Any, **__: Any) -> Any:
        """None: requests would read all that comes with a redirect, to its end if it has one."""
        return iter(())

    def get_redirect_target(self, resp: requests.Response) -> str | None:
        """Look at where a redirect leads before it is followed."""
        target = super().get_redirect_target(resp)
        if target:
            before, after = urlsplit(resp.url).scheme, urlsplit(urljoin(resp.url, target)).scheme
            if after not in ("http", "https") or (before, after) == ("https", "http"):
                resp.close()
                raise Unusable(f"it redirects from {before} to {after}, which is not allowed")
        return target


class Adapter(requests.adapters.HTTPAdapter):
    """Makes connections that do not wait for ever for the head of an answer."""

    def init_poolmanager(self, *args: Any, **named: Any) -> None:
        """For addresses that are asked directly."""
        super().init_poolmanager(*args, **named)
        self.poolmanager.pool_classes_by_scheme = POOLS

    def proxy_manager_for(self, *args: Any, **named: Any) -> Any:
        """For addresses behind a proxy."""
        manager = super().proxy_manager_for(*args, **named)
        manager.pool_classes_by_scheme = POOLS
        return manager


class Connection(urllib3.connection.HTTPConnection):
    """A plain connection."""

    def getresponse(self) -> Any:
        """The head of an answer, in time."""
        with in_time(self):
            return super().getresponse()


class SecureConnection(urllib3.connection.HTTPSConnection):
    """An encrypted connection."""

    def getresponse(self) -> Any:
        """The head of an answer, in time."""
        with in_time(self):
            return super().getresponse()


class Pool(urllib3.HTTPConnectionPool):
    """Plain connections."""

    ConnectionCls = Connection


class SecurePool(urllib3.HTTPSConnectionPool):
    """Encrypted ones."""

    ConnectionCls = SecureConnection


POOLS = {"http": Pool, "https": SecurePool}


@contextmanager
def in_time(connection: Any) -> Iterator[None]:
    """Hang up if this takes too long.

    A server that never is silent, as with `100 Continue` again and again, is not noticed by the
    timeout of a read.
    """

    def hang_up() -> None:
        with suppress(OSError):
            connection.sock.shutdown(socket.SHUT_RDWR)

    timer = threading.Timer(PATIENCE * float(connection.timeout), hang_up)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


@dataclass
class Transfer:
    """The attempts to get one file."""

    file: RemoteFile
    place: Place
    policy: Policy
    insecure: bool
    progress: Note

    def __post_init__(self) -> None:
        """Look up what the file will be verified by."""
        self.kinds = kinds_for(self.file)
        self.record = self.place.record()
        self.answered = False

    def run(self, urls: Sequence[str]) -> None:
        """Fetch, verify and install the file from the first address that can give it.

        While nobody has answered an address that cannot be reached is put off, and tried once more
        after all others: where there is no network that is soon known.
        """
        failures = dict[str, Unusable | Unreached]()
        self.session = Session()
        with self.session, PartialFile(self.place, self.kinds) as self.partial:
            begun = self.partial.version
            if begun and begun.url not in urls and not self.file.pinned:
                self.partial.discard()  # the beginning of something else of this name
            for again in (False, True):
                if again and not self.answered:
                    self.policy.pause(1, GLANCE)
                for url in urls:
                    if again and not isinstance(failures[url], Unreached):
                        continue
                    try:
                        return self._from(url)
                    except (Unusable, Unreached) as reason:
                        failures[url] = reason
        raise Unreachable(
            [(url, str(failures[url])) for url in urls], nobody=bool(urls) and not self.answered
        )

    def _from(self, url: str) -> None:
        """Get the file from one address; bytes put together from pieces get a second chance."""
        for _ in range(2):
            if not self._complete():
                self._persist(url)
            digests = self.partial.digests(self.kinds)
            wrong = mismatch(self.file, self.partial.held, digests, self.record)
            if wrong is None and is_page(self.file, self.place.partial):
                wrong = "it answers with a web page"
            if wrong is None:
                self.partial.synchronise()
                return self.place.install(self.place.partial, self.file, digests, url)
            pieced = self.partial.pieced
            self.partial.discard()
            if not pieced:
                break
        raise Unusable(wrong)

    @property
    def total(self) -> int | None:
        """The size of the file, as far as known."""
        size = self.partial.version.total if self.partial.version else None
        return self.file.bytes if size is None else size

    def _complete(self) -> bool:
        """Whether nothing is missing: the process was killed between the last byte and the end."""
        return self.partial.held > 0 and self.partial.held == self.total

    def _persist(self, url: str) -> None:
        """Try one address until it gives everything or nothing more."""
        failures = 0
        while True:
            furthest = self.partial.furthest
            try:
                return self._attempt(url)
            except Passing as trouble:
                if isinstance(trouble, Unreached) and not self.answered:
                    raise
                failures = 1 if self.partial.furthest > furthest else failures + 1
                if failures >= self.policy.attempts:
                    again = f", {failures} times in a row" if failures > 1 else ""
                    raise Unusable(f"{trouble}{again}") from trouble
                self.policy.pause(failures, trouble.pause)

    def _attempt(self, url: str) -> None:
        headers = {"Accept-Encoding": "identity", "User-Agent": f"recbench/{__version__}"}
        version = self.partial.version
        validator = version.validator if version and version.url == url else ""
        # A pinned digest decides in the end, so any server's bytes may follow any other's.
        if self.partial.held and (self.file.pinned or validator):
            headers["Range"] = f"bytes={self.partial.held}-"
            if not self.file.pinned:
                headers["If-Range"] = validator
        with self._get(url, headers) as response:
            if response.status_code == 206 and "Range" not in headers:
                raise Unusable("it sends a part of the file, which was not asked for")
            if self._accept(response, url):
                self._receive(response)

    def _get(self, url: str, headers: dict[str, str]) -> requests.Response:
        timeouts = (self.policy.connect, self.policy.read)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", urllib3.exceptions.InsecureRequestWarning)
                for _ in range(1 + self.policy.redirects):
                    response = self.session.get(
                        url, headers=headers, stream=True, timeout=timeouts,
                        verify=not self.insecure,
                    )  # fmt: skip
                    self.answered = True
                    target = self.session.get_redirect_target(response)
                    if target is None:
                        return response
                    response.close()
                    url = urljoin(url, target)
            raise Unusable(f"it redirects more than {self.policy.redirects} times")
        except (requests.ConnectionError, requests.Timeout) as error:
            raise self._trouble(error) from error
        except (requests.RequestException, ValueError) as error:
            raise Unusable(explain(error, self.policy)) from error

    def _trouble(self, error: requests.RequestException) -> Unusable | Passing:
        """What a connection that failed means."""
        reason = explain(error, self.policy)
        if isinstance(error, requests.exceptions.SSLError) and "CERTIFICATE" in reason:
            self.answered = True
            return Unusable(reason)
        if any(isinstance(cause, urllib3.exceptions.NewConnectionError) for cause in causes(error)):
            return Unreached(reason)
        self.answered = self.answered or not isinstance(error, requests.ConnectTimeout)
        return Passing(reason)

    def _accept(self, response: requests.Response, url: str) -> bool:
        """Fit the partial file to what an answer announces; False if no bytes are missing."""
        self._refuse(response)
        start, total = extent(response)
        offered = Version(
            url, response.headers.get("ETag", ""), response.headers.get("Last-Modified", ""), total
        )
        if self.file.bytes is not None and total not in (None, self.file.bytes):
            raise Unusable(f"it offers {total:,} bytes, {self.file.bytes:,} are expected")
        if response.status_code == 200:
            self.partial.discard()
        elif self._changed(offered, start):
            self.partial.discard()
            raise Passing("the file changed while it was being fetched")
        else:
            self.partial.pieced = True
        self._settle(response, offered)
        return response.status_code != 416

    def _refuse(self, response: requests.Response) -> None:
        """Turn away an answer that is not the file."""
        if garbled(response):
            raise Passing("it answers with headers that cannot be read")  # or that were cut
        if response.status_code in PASSING:
            raise Passing(f"{response.status_code} {response.reason}", retry_after(response))
        if response.status_code not in (200, 206, 416):
            raise Unusable(f"{response.status_code} {response.reason}")
        page = response.headers.get("Content-Type", "").startswith("text/html")
        if page and not self.file.pinned:
            raise Unusable("it answers with a web page")
        framing = response.headers.get("Transfer-Encoding", "chunked")
        if framing.strip().lower() != "chunked":  # then its end is not where it seems to be
            raise Unusable(f"it sends the file in {framing} transfer encoding")
        encoding = response.headers.get("Content-Encoding", "identity")
        if encoding != "identity" and not self.file.name.endswith((".gz", ".tgz", ".zip")):
            raise Unusable(f"it sends the file in {encoding} encoding, which was not asked for")

    def _changed(self, offered: Version, start: int | None) -> bool:
        """Whether a partial answer does not continue what is held."""
        before = self.partial.version
        if start is None:  # beyond the end: fine only if nothing is missing
            return offered.total != self.partial.held
        if start != self.partial.held or start >= (offered.total or 0):
            return True
        if self.file.pinned or before is None:
            return False
        return offered.contradicts(before)

    def _settle(self, response: requests.Response, offered: Version) -> None:
        """Note what is coming, and see that there is room for it."""
        chunked = getattr(response.raw, "chunked", False)  # its end is marked, a plain one is not
        if offered.total is None and not chunked and not (self.file.bytes or self.file.pinned):
            # Passing: the head of the answer may have been cut, and the length with it.
            raise Passing("it does not say how long the file is, so a cut would go unnoticed")
        self.partial.belongs_to(offered)
        missing = (self.total or 0) - self.partial.held
        if missing > shutil.disk_usage(self.place.folder).free:
            raise no_room(self.place, f"{missing / 1e6:,.1f} MB are missing")

    def _receive(self, response: requests.Response) -> None:
        total = self.total
        most = self.partial.held + int(SHARE * shutil.disk_usage(self.place.folder).free)
        for piece in self._pieces(response):
            if total is None and self.partial.held + len(piece) > most:
                self.partial.discard()
                raise Unusable(
                    f"it does not say how long the file is, and sends more than {most:,} bytes, "
                    f"{SHARE:.0%} of the free disk"
                )
            if total is not None and self.partial.held + len(piece) > total:
                self.partial.discard()
                raise Unusable(f"it sends more than the {total:,} bytes expected")
            self.partial.append(piece)
            self.progress(self.file.name, self.partial.held, total or 0)
        if self.partial.held < (1 if total is None else total):
            raise Passing(self._cut())

    def _pieces(self, response: requests.Response) -> Iterator[bytes]:
        try:
            # Unlike read, read1 returns what has arrived: a stall or a cut loses nothing.
            while piece := response.raw.read1(self.policy.block):
                yield piece
        except urllib3.exceptions.ProtocolError as error:
            raise Passing(self._cut()) from error
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise Passing(explain(error, self.policy)) from error

    def _cut(self) -> str:
        whole = f" of {self.total:,}" if self.total else ""
        return f"the connection closed after {self.partial.held:,}{whole} bytes"


def extent(response: requests.Response) -> tuple[int | None, int | None]:
    """Where the body starts and how long the whole file is."""
    if response.status_code == 200:
        length = response.headers.get("Content-Length", "")
        return 0, int(length) if re.fullmatch(r"\d{1,18}", length, re.ASCII) else None
    text = response.headers.get("Content-Range", "")
    if response.status_code == 416 and not text:
        return None, None
    # A part begins somewhere and says of how many bytes it is one; only what has no part may not.
    form = r"bytes (\d{1,18})-\d{1,18}/(\d{1,18})"
    if response.status_code == 416:
        form = r"bytes ()\*/(\d{1,18})"
    match = re.fullmatch(form, text, re.ASCII)
    if match is None:
        raise Unusable(f"its answer to a range has the Content-Range '{text[:60]}'")
    start, total = match.groups()
    return int(start) if start else None, int(total)


def garbled(response: requests.Response) -> bool:
    """Whether a line of the head is no header: what follows is lost, the length of the body too."""
    head = getattr(getattr(response.raw, "_original_response", None), "msg", None)
    if head is None:
        return False
    try:
        urllib3.util.response.assert_header_parsing(head)
    except urllib3.exceptions.HeaderParsingError:
        return True
    return False


def retry_after(response: requests.Response) -> float | None:
    """The pause a server asks for, given in seconds or as a date."""
    text = response.headers.get("Retry-After", "").strip()
    if text.isdecimal():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds())
    except (TypeError, ValueError, OverflowError):
        return None


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those it was made of, the innermost last."""
    inner: object = error
    while isinstance(inner, BaseException):
        yield inner
        inner = getattr(inner, "reason", None) or (inner.args[-1] if inner.args else None)


def explain(error: BaseException, policy: Policy) -> str:
    """The innermost reason of a network error, without object addresses."""
    if isinstance(error, requests.ConnectTimeout):
        return f"no connection within {policy.connect:g} s"
    if isinstance(error, requests.ReadTimeout | urllib3.exceptions.ReadTimeoutError):
        return f"nothing arrived for {policy.read:g} s"
    *_, error = causes(error)
    return (
        re.sub(r"^<[^>]*>:\s*|^\S*Connection\w*\([^)]*\):\s*", "", str(error))
        or type(error).__name__
    )
