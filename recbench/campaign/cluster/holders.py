"""Workers of a Dask cluster as holders of an inverse; `recbench.linalg.held` says what they do.

Everything large is brought to a machine once, as the data of groups are, and read there by all of
its workers. Nothing else of any size passes the scheduler, but for lists.
"""

import pickle
import queue
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ALL_COMPLETED, CancelledError, Future, wait
from functools import partial
from typing import Any, Protocol

from recbench.campaign.cluster import holding
from recbench.campaign.cluster.cargo import Cargo, Unfit
from recbench.campaign.cluster.holding import Attendance, Berth, Brought, Lease
from recbench.campaign.cluster.likeness import blas_of, difference, kinds
from recbench.campaign.cluster.link import Answered, Heard, Lent, Lost
from recbench.campaign.executors import InProcess
from recbench.environment import describe
from recbench.errors import DataError, RecbenchError, counted
from recbench.files import digest_of
from recbench.linalg.held.heldtiles import Member
from recbench.linalg.held.holder import FAILED, Asked, Broken, Source, Taken
from recbench.linalg.held.layout import Layout
from recbench.linalg.types import Matrix, Progress, silent

LOOK = 0.5
"""Seconds between looks at which workers there are."""
PIECE = 8 << 20
"""Bytes that go in one message through the scheduler."""
PATIENCE = 600.0
"""Seconds to wait for workers, where those that are there are too few or too small."""
RETURN = 10.0
"""Seconds in which a worker that was lost may come back before the others go on."""
BUSY = 10.0
"""Seconds in which a worker that has nothing else to do says what it is."""
GONE = 3.0
"""Seconds in which the scheduler finds out that a worker is gone."""


class LendingLink(Protocol):
    """What holders ask of a cluster, beside what a `Link` offers for groups."""

    def workers(self) -> Mapping[str, str]:
        """The addresses of the workers, each with a name for the process there."""

    def ask(self, address: str, function: Any, *words: Any, then: Answered) -> Future[Any]:
        """Call a function on one worker, when it has nothing else to do."""

    def lend(self, address: str, kind: type, *words: Any) -> Lent:
        """Make an object on one worker, which is there as long as it is wanted here."""

    def beside(self, address: str, function: Any, *words: Any) -> Future[Any]:
        """Call a coroutine function on one worker at once, whatever that is at."""

    def close(self) -> None:
        """Leave."""


class DaskHolders:
    """The workers of a cluster."""

    def __init__(
        self,
        connect: Callable[[str, Heard], LendingLink],
        *,
        threads: int | None = None,
        announce: Callable[[str], None] = lambda text: None,
        patience: float = PATIENCE,
    ) -> None:
        """Connect, or raise; without a number of threads workers use those they started with."""
        self.threads, self._announce, self._patience = threads, announce, patience
        self.topic, self._said = f"recbench-{uuid.uuid4().hex}", queue.SimpleQueue[Any]()
        self.link = connect(self.topic, self._said.put)
        self.attending: dict[str, Attendance] = {}
        self.met: dict[str, Mapping[str, Any]] = {}
        """The environments of all that were ever in a team."""
        self._known: dict[str, str] = {}
        self._taken: set[str] = set()
        self._told, self._before = set[str](), 0
        self._in_vain: set[str] = set()
        """Whom others were waited for that did not come: not again for the next model."""

    def members(self, enough: Callable[[Sequence[Member]], bool]) -> Sequence[Member]:
        """Who is there and would make the same numbers."""
        start = time.monotonic()
        while True:
            members = self._present()
            able, waited = enough(members), time.monotonic() - start
            names = {member.name for member in members}
            if not able:
                self.announce(self._waiting_for(members))
            if self._taken and not able:
                start = time.monotonic()  # the other run has an end
            elif (
                waited > self._patience
                or (able and (len(members) >= self._before or waited > RETURN))
                or (members and names == self._in_vain)
            ):
                self._before, self._in_vain = len(members), set() if able else names
                return members
            time.sleep(LOOK)

    def _waiting_for(self, members: Sequence[Member]) -> str:
        if self._taken:
            have = "has" if len(self._taken) == 1 else "have"
            return f"{counted(len(self._taken), 'worker')} {have} tiles of another run: waiting"
        why = "the workers have no room for the inverse" if members else "there is no worker"
        return f"{why}: waiting for more of them"

    def _present(self) -> list[Member]:
        """Look who is there; meet those that are new, and ask all what they have now."""
        present = self._workers()
        self._taken = self._taken_of(present)
        for one in self._taken:
            del present[one]
            self._known.pop(one, None)  # to be asked again
        answers = {
            address: self.ask(address, holding.attend)
            for address, process in present.items() if self._known.get(address) != process
            or address in self.attending
        }  # fmt: skip
        self.attending = {}
        wait(answers.values(), BUSY)
        for address, answer in answers.items():
            if not answer.done():
                answer.cancel()
                self._known.pop(address, None)  # as well
                self.announce(f"worker {address} is at something else: it is not waited for")
                continue
            self._known[address] = present[address]
            try:
                self._meet(address, answer.result())
            except Lost as error:
                raise _without_scheduler(error) from error
            except (Exception, CancelledError) as error:  # noqa: BLE001 - it is told
                if address in self._workers():
                    self.announce(
                        f"worker {address} takes no part: {type(error).__name__}: {error}"
                    )
        self._tell_codes()
        mates = Counter(one.machine for one in self.attending.values())
        return [
            Member(address, min(one.allowed, one.free // mates[one.machine]))
            for address, one in self.attending.items()
        ]

    def _taken_of(self, addresses: Iterable[str]) -> set[str]:
        """Who of them has tiles of another run; asked beside whatever they are at."""
        asked = {
            one: self.link.beside(one, holding.taken, one, self.topic) for one in addresses
        }  # fmt: skip
        wait(asked.values(), BUSY)
        return {one for one, a in asked.items() if a.done() and not _error_of(a) and a.result()}

    def _meet(self, address: str, attendance: Attendance) -> None:
        why = difference(describe(), attendance.environment)
        if why:
            self.announce(f"a worker on {attendance.machine} takes no part: {why}")
        else:
            self.attending[address] = attendance

    def _tell_codes(self) -> None:
        codes = {blas_of(describe())} | {
            blas_of(one.environment) for one in self.attending.values()
        }
        if len(codes) > 1:
            self.announce(
                f"workers multiply matrices by different code ({' and '.join(sorted(codes))}): "
                "last digits depend on who has which tile"
            )

    def team(self, members: Sequence[Member], layout: Layout) -> "DaskTeam":
        """Make them the holders of a matrix of zeros."""
        for member in members:
            self.met[member.name] = self.attending[member.name].environment
        return DaskTeam(self, [member.name for member in members], layout)

    def close(self) -> None:
        """Leave the cluster."""
        self.link.close()

    def announce(self, text: str) -> None:
        """Tell the user, the first time."""
        if text not in self._told:
            self._told.add(text)
            self._announce(text)

    def ask(self, address: str, function: Any, *words: Any) -> Future[Any]:
        """Call a function on one worker, when it has nothing else to do."""
        try:
            return self.link.ask(address, function, *words, then=lambda _: None)
        except Lost as error:
            raise _without_scheduler(error) from error

    def _workers(self) -> dict[str, str]:
        try:
            return dict(self.link.workers())
        except Lost as error:
            raise _without_scheduler(error) from error

    def lost(self, addresses: Iterable[str]) -> list[str]:
        """Where the process that was met there is not any more."""
        present = self._workers()
        return [one for one in addresses if present.get(one) != self._known.get(one)]

    def heard(self) -> Iterable[Any]:
        """What holders have said of their progress since the last time."""
        return [self._said.get() for _ in range(self._said.qsize())]

    def homes(self, addresses: Iterable[str]) -> list[str]:
        """Of these workers one for each machine, or for each folder that several share."""
        found: dict[tuple[str, str], str] = {}
        for address in addresses:
            one = self.attending[address]
            found.setdefault((one.machine, one.store), address)
        return [*found.values()]


class Spreading(InProcess):
    """Fits in this process, but for inverses, which workers of a cluster hold together."""

    def crew(self) -> Sequence[Mapping[str, Any]]:
        """The kinds of machines that held tiles."""
        return kinds(self._holders.met)

    @property
    def _holders(self) -> DaskHolders:
        holders = self.worker.context.holders
        assert isinstance(holders, DaskHolders)
        return holders

    def close(self, *, wait: bool) -> None:
        """Leave the cluster; workers drop their tiles once nobody is there who wants them."""
        self._holders.close()


class DaskTeam:
    """Workers that hold one inverse."""

    def __init__(self, holders: DaskHolders, addresses: Sequence[str], layout: Layout) -> None:
        self._holders, self._addresses = holders, addresses
        self._homes, self._brought = holders.homes(addresses), list[Cargo]()
        self._token = f"{holders.topic}-{uuid.uuid4().hex}"
        self._leases = list[Lent]()
        try:
            # One after the other, by their names: of two runs that want the same workers, the one
            # that is first at the first of them gets all.
            for number, address in enumerate(addresses):
                berth = Berth(holders.topic, self._token, layout, addresses, number)
                self._leases.append(holders.link.lend(address, Lease, berth))
                self._one(self._leases[-1].made)
        except BaseException:
            self.close()
            raise

    def bring(self, thing: Source | Asked | Matrix) -> Brought:
        """Send it to one worker of every machine, piece by piece."""
        content = pickle.dumps(thing)
        cargo = Cargo(digest_of(content), len(content))
        self._brought.append(cargo)
        for start in range(0, len(content), PIECE):
            self._all(
                self._told(holding.take, self._token, cargo, start, content[start : start + PIECE])
            )
        return Brought(self._token, cargo)

    def _told(self, function: Any, *words: Any) -> list[Future[Any]]:
        """What one worker of every machine says to something."""
        return [self._holders.ask(address, function, *words) for address in self._homes]

    def ask(self, method: str, *words: Any, progress: Progress | None = None) -> Sequence[Any]:
        """Call a method of every holder; those that wait for one that is lost end by themselves."""
        given = self._token, self._holders.topic, self._holders.threads, method, *words
        asked = [self._holders.ask(address, holding.call, *given) for address in self._addresses]
        answers = self._all(asked, progress or silent)
        while self._brought:  # what it was brought for is done
            self._all(self._told(holding.forget, self._token, self._brought.pop()))
        return answers

    def strips(self, holder: int, *words: int) -> Callable[[], Matrix]:
        """Ask one holder, beside whatever it is at."""
        address = self._addresses[holder]
        coming = self._holders.link.beside(address, holding.strip, address, self._token, words)
        return partial(self._one, coming)

    def close(self) -> None:
        """Give the tiles back; what was brought and not used is removed with them."""
        for lease in self._leases:
            lease.give_back()

    def _one(self, coming: Future[Any]) -> Any:
        return self._all([coming])[0]

    def _all(self, asked: Sequence[Future[Any]], progress: Progress = silent) -> list[Any]:
        """What comes of all questions, or of the first that failed for a reason of its own."""
        done: dict[int, float] = {}
        under_way = True
        while under_way:
            under_way = bool(wait(asked, LOOK, ALL_COMPLETED).not_done)
            for token, number, far, whole in self._holders.heard():
                if token == self._token:  # of who has said nothing yet the mean is taken
                    done[number] = far / whole
                    total = whole * len(self._addresses)
                    progress(round(total * sum(done.values()) / len(done)), total)
            if under_way:
                self._refuse_lost(asked)
        errors = [_error_of(one) for one in asked]
        for error in errors:
            if isinstance(error, Unfit):
                raise DataError(str(error))
            if isinstance(error, RecbenchError | Taken):
                raise error
            if isinstance(error, Lost):
                raise _without_scheduler(error)
        for error in sorted(filter(None, errors), key=_hearsay):
            until = time.monotonic() + GONE
            while time.monotonic() < until:
                self._refuse_lost(asked)
                time.sleep(LOOK / 5)
            if isinstance(error, Broken):
                raise error
            raise DataError(f"a worker failed ({type(error).__name__}: {error})") from error
        return [one.result() for one in asked]

    def _refuse_lost(self, asked: Sequence[Future[Any]]) -> None:
        lost = self._holders.lost(self._addresses)
        if lost:
            for one in asked:
                one.cancel()
            raise Broken(f"worker {lost[0]} was lost")


def _hearsay(error: BaseException) -> int:
    """How little an error says: who failed by itself knows more than those that waited for it."""
    return isinstance(error, Broken) + (str(error) in (FAILED, holding.DROPPED))


def _error_of(answer: Future[Any]) -> BaseException | None:
    try:
        return answer.exception()
    except CancelledError as error:
        return error


def _without_scheduler(error: Lost) -> RecbenchError:
    return DataError(
        f"the scheduler does not answer ({error}); with --tiles-on-disk what was kept stays, and "
        "the same command goes on from there"
    )
