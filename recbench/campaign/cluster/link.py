"""The connection to a Dask scheduler: the only module that speaks to it."""

import asyncio
import logging
import platform
import uuid
import warnings
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from recbench.environment import to_install, version
from recbench.errors import UsageError

SILENCE = 20.0
"""Seconds without an answer after which a scheduler counts as lost."""
THERE = ("running", "paused")
"""What Dask calls workers that are there: it pauses one whose fit takes most of its memory."""
WANTED = "a-worker-that-is-free"
"""A resource that no worker has: what asks for it waits, which adaptive clusters look at."""

Answered = Callable[[Future[Any]], None]
"""Called, in any thread, with what came of a question."""
Heard = Callable[[tuple[Any, ...]], None]
"""Called, in any thread, with what a worker says meanwhile."""


class Lost(Exception):
    """The scheduler does not answer."""


class Link(Protocol):
    """What an executor asks of a cluster."""

    def workers(self) -> Mapping[str, str]:
        """The addresses of the workers, each with a name for the process there."""

    def ask(self, address: str, function: Any, *words: Any, then: Answered) -> Future[Any]:
        """Call a function on one worker; cancelling what is returned forgets about it."""

    def want(self, number: int) -> None:
        """Let the cluster know that so many groups have no worker."""

    def close(self) -> None:
        """Leave; what is under way is cancelled."""


@dataclass
class Lent:
    """Something that a worker keeps for this client."""

    remote: Any
    made: Future[None]
    """Ends once it is there, or says why it could not be made."""

    def give_back(self) -> None:
        """It is not wanted any more."""
        self.made.cancel()
        with suppress(Exception):
            self.remote.release()


class DaskLink:
    """A client of a Dask scheduler."""

    def __init__(self, address: str, topic: str, heard: Heard, timeout: float = SILENCE) -> None:
        try:
            from distributed import Client, versions
        except ImportError:
            raise UsageError(f"--executor dask needs an extra: {to_install('dask')}") from None
        connect: Any = Client  # distributed has no types
        # What it says of a scheduler or a worker that is lost is a traceback; whoever made the link
        # says more.
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)
        logging.getLogger("asyncio").addFilter(_is_news)
        try:
            with warnings.catch_warnings():  # versions are compared below
                warnings.simplefilter("ignore", versions.VersionMismatchWarning)
                self._client = connect(address, set_as_default=False, timeout=timeout)
        except (OSError, ValueError, ImportError, TypeError) as error:  # a TypeError: no TLS here
            raise UsageError(f"no Dask scheduler answers at {address} ({error})") from error
        try:
            _refuse_other_dask(address, self._client.get_versions()["scheduler"]["packages"])
        except OSError as error:  # it went in between
            self.close()
            raise UsageError(f"no Dask scheduler answers at {address} ({error})") from error
        except UsageError:
            self.close()
            raise
        self._client.subscribe_topic(topic, lambda event: heard(tuple(event[1])))
        self._wanted: list[Any] = []

    def workers(self) -> Mapping[str, str]:
        """Asked of the scheduler: what the client remembers may be old."""
        try:
            identity = self._client.sync(self._client.scheduler.identity, callback_timeout=SILENCE)
        except Exception as error:
            raise Lost(str(error)) from error
        return {
            address: str(worker["local_directory"])
            for address, worker in identity["workers"].items()
            if worker["status"] in THERE
        }

    def ask(self, address: str, function: Any, *words: Any, then: Answered) -> Future[Any]:
        """Submit it for this worker alone: should that be lost, Dask must not look for another."""
        try:
            remote = self._client.submit(function, *words, workers=[address], **_new())
        except Exception as error:
            raise Lost(str(error)) from error
        waiting = self._soon(self._answer(remote))
        waiting.add_done_callback(then)
        return waiting

    def _soon(self, work: Coroutine[Any, Any, Any]) -> Future[Any]:
        return asyncio.run_coroutine_threadsafe(work, self._client.loop.asyncio_loop)

    async def _answer(self, remote: Any) -> Any:
        """What a task returns, or raises."""
        from distributed import CancelledError

        try:
            return await self._client.gather(remote, asynchronous=True)
        except CancelledError as error:  # the client has lost the scheduler, and all that it knew
            raise Lost(str(error)) from None
        finally:  # or Dask has it done by whoever comes to the address of a worker that was lost
            remote.release()

    def lend(self, address: str, kind: type, *words: Any) -> "Lent":
        """Make an object on one worker, which is there as long as it is wanted here."""
        try:
            made = self._client.submit(kind, *words, workers=[address], actor=True, **_new())
        except Exception as error:
            raise Lost(str(error)) from error
        return Lent(made, self._soon(self._made(made)))

    async def _made(self, remote: Any) -> None:
        await self._client.gather(remote, asynchronous=True)

    def beside(self, address: str, function: Any, *words: Any) -> Future[Any]:
        """Call a coroutine function on one worker at once, whatever that is at."""
        return self._soon(self._run(address, function, words))

    async def _run(self, address: str, function: Any, words: tuple[Any, ...]) -> Any:
        run = self._client.run(function, *words, workers=[address], asynchronous=True)
        return (await run)[address]

    def want(self, number: int) -> None:
        """Keep as many tasks waiting for what nobody has."""
        del self._wanted[number:]  # Dask forgets a task that nobody refers to
        with suppress(Exception):  # who looks at the workers next will notice
            while len(self._wanted) < number:
                self._wanted.append(self._client.submit(int, resources={WANTED: 1}, **_new()))

    def close(self) -> None:
        """Say good-bye if there is anybody to say it to."""
        with suppress(Exception):
            self._client.close(timeout=2)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether it is more than that a task of distributed's own has ended with a lost worker."""
    error = record.exc_info[1] if record.exc_info else None
    return type(error).__name__ != "AllExit"


def _new() -> dict[str, Any]:
    """A task of its own; those with the same beginning are timed together."""
    return {"key": f"recbench-{uuid.uuid4().hex}", "pure": False}


def _refuse_other_dask(address: str, packages: Mapping[str, str | None]) -> None:
    """Compare versions while that can be told in a sentence: what they exchange is not stable."""
    here = {"distributed": version("distributed"), "Python": platform.python_version()}
    there = {"distributed": packages.get("distributed"), "Python": packages.get("python")}
    if here["distributed"] != there["distributed"] or _minor(here) != _minor(there):
        raise UsageError(
            f"the scheduler at {address} has {_words(there)}, and here is {_words(here)}; start "
            "both, and the workers, with the same versions"
        )


def _minor(versions: Mapping[str, str | None]) -> list[str]:
    return (versions["Python"] or "").split(".")[:2]


def _words(versions: Mapping[str, str | None]) -> str:
    return f"distributed {versions['distributed']}, Python {'.'.join(_minor(versions))}"
