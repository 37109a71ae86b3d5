"""Groups of trials on a cluster whose workers come and go.

One thread knows everything: it looks at which workers there are, has new ones greet, brings the
data to their machines and gives out groups. What others have to say reaches it through a queue, so
nothing is locked. A group is with one worker at a time; if that is lost it goes to another.
"""

import pickle
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from recbench.campaign.cluster import there
from recbench.campaign.cluster.cargo import Cargo, Unfit, share
from recbench.campaign.cluster.likeness import blas_of, difference, kinds
from recbench.campaign.cluster.link import Heard, Link, Lost
from recbench.campaign.cluster.places import Place, Places
from recbench.campaign.cluster.there import Greeting, Room, Terms
from recbench.campaign.executors import Parcel, Pending, WorkerDied
from recbench.campaign.needs import Needs
from recbench.campaign.slots import Said
from recbench.campaign.tasks import Task
from recbench.campaign.worker import Job, Outcome
from recbench.environment import describe
from recbench.errors import DataError, Refused, UsageError, counted

LOOK = 0.5
"""Seconds between looks at which workers there are."""
PIECE = 8 << 20
"""Bytes of the data that go in one message: the scheduler passes it on, and has it in memory."""
TRIES = 3
"""Workers that a group may lose before it is to blame."""
PATIENCE = 600.0
"""Seconds to wait for a scheduler that is lost, or for a worker that has room for a group."""
LEAVE = 5.0
"""Seconds for a cluster to be told that nobody needs it any more."""

Connect = Callable[[str, Heard], Link]
"""Makes a link, given a topic and who is told what workers say of it."""


@dataclass(eq=False)
class _Group:
    """A group on its way."""

    job: Job
    future: Pending = field(default_factory=Future)
    lost: int = 0
    """How many workers were lost that were at it."""

    @property
    def title(self) -> str:
        """What a reader is told of it."""
        return self.job.trials[0].model.brief


@dataclass(eq=False)
class _Member:
    """A worker, from when it is seen until it is gone."""

    address: str
    process: str
    """Another process may come at the same address."""
    greeting: Greeting | None = None
    group: _Group | None = None
    asked: Future[Any] | None = None
    """What it was asked last."""
    unfit: bool = False

    @property
    def home(self) -> tuple[str, str] | None:
        """The machine, and the folder there that data are kept in."""
        return (self.greeting.machine, self.greeting.store) if self.greeting else None


class Cluster:
    """Works on the workers of a cluster."""

    weighs = True

    def __init__(
        self,
        parcel: Parcel,
        connect: Connect,
        *,
        threads: int | None = None,
        extras: Iterable[str] = (),
        folder: Path | None = None,
        scratch: Path | None = None,
        announce: Callable[[str], None] = lambda text: None,
        patience: float = PATIENCE,
    ) -> None:
        """Connect, or raise; `folder` is one that workers may see, too, `scratch` is theirs.

        Without a number of threads every worker uses those that it was started with. `extras` are
        packages that the models need and others do not.
        """
        self._parcel, self._threads = parcel, threads
        self._folder, self._scratch = folder, scratch
        self._connect, self._announce, self._patience = connect, announce, patience
        self._topic = f"recbench-{parcel.key}"
        self._said, self._inbox = queue.SimpleQueue[Said](), queue.SimpleQueue[Any]()
        self._link: Link | None = connect(self._topic, self._hear)
        self._cargo: Cargo | None = None
        self._extras = tuple(extras)
        self._environment = describe(packages=self._extras)
        self._members, self._places = dict[str, _Member](), Places()
        self._waiting = list[_Group]()
        self._met = dict[str, Greeting]()  # all that were ready at some time
        self._sent = Counter[str]()
        self._bringing = dict[tuple[str, str], _Member]()  # by home: whom the data are sent to
        self._brought = set[tuple[str, str]]()
        self._told = set[str]()
        self._count, self._ready = 0, -1
        self._stuck: float | None = None  # since when there is no way on
        self._ended = False
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def takes(self, task: Task, ahead: Sequence[Task], running: int) -> bool:
        """Two for each worker: a cluster that can grow does so by what waits."""
        return running < 2 * max(1, self._count)

    @property
    def sent(self) -> Mapping[str, int]:
        """By worker: the bytes of data that it was sent."""
        return dict(self._sent)

    def submit(self, job: Job) -> Pending:
        """Have a group done when there is a worker for it."""
        group = _Group(job)
        self._inbox.put(partial(self._accept, group))
        return group.future

    def heard(self) -> Iterable[Said]:
        """What workers said of their progress."""
        return [self._said.get() for _ in range(self._said.qsize())]

    def crew(self) -> Sequence[Mapping[str, Any]]:
        """The kinds of machines, with the workers of each."""
        return kinds({address: met.environment for address, met in self._met.items()})

    def close(self, *, wait: bool) -> None:
        """Leave the cluster; a worker that is at a group ends it, and nobody hears of it."""
        self._inbox.put(partial(self._leave, tidy=wait))
        self._thread.join(2 * LEAVE)

    # The thread

    def _serve(self) -> None:
        looked = -LOOK
        try:
            while not self._ended:
                try:
                    self._listen()
                    if self._ended or not self._laden():
                        continue
                    if self._link is None or time.monotonic() - looked >= LOOK:
                        self._look()
                        looked = time.monotonic()
                    self._give_out()
                except Lost:
                    self._forget_scheduler()
        except BaseException as error:  # noqa: BLE001 - whatever it was, the run must hear it
            self._fail(error)

    def _listen(self) -> None:
        """Take what has come in, or wait a while for something."""
        with suppress(queue.Empty):
            self._inbox.get(timeout=LOOK)()
            while not self._ended:
                self._inbox.get_nowait()()

    def _fail(self, error: BaseException) -> None:
        """Tell whoever waits, now or later, that nothing will come."""
        busy = [member.group for member in self._members.values() if member.group]
        self._members.clear()
        self._waiting += busy
        while not self._ended:
            for group in self._waiting:
                group.future.set_exception(error)
            self._waiting.clear()
            self._inbox.get()()

    def _leave(self, *, tidy: bool) -> None:
        self._ended = True
        if self._cargo is not None and self._cargo.shared is not None:
            with suppress(OSError):
                self._cargo.shared.unlink(missing_ok=True)
        if self._link is None:
            return
        if tidy:
            homes = {m.home: m.address for m in self._members.values() if m.home in self._brought}
            with suppress(Lost):
                answers = [self._link.ask(address, there.forget, self._cargo, then=lambda _: None)
                           for address in homes.values()]  # fmt: skip
                wait(answers, LEAVE)
        self._link.close()

    def _hear(self, message: tuple[Any, ...]) -> None:
        """What a worker says by itself; called by another thread."""
        if message[0] == "log":
            self._announce(message[1])
        else:
            self._said.put((message[1], message[2], message[3]))

    def _tell(self, text: str) -> None:
        """Say something the first time."""
        if text not in self._told:
            self._told.add(text)
            self._announce(text)

    def _accept(self, group: _Group) -> None:
        """Take a group."""
        self._waiting.append(group)

    def _laden(self) -> bool:
        """With the first group the results folder is there, and the data go into it."""
        if self._cargo is None and self._waiting:
            self._cargo = share(self._parcel, self._folder, self._scratch)
        return self._cargo is not None

    # Workers come and go

    def _look(self) -> None:
        """See who is there."""
        if self._link is None:
            self._reconnect()
        if self._link is None:
            return
        present = self._link.workers()
        for member in list(self._members.values()):
            if present.get(member.address) != member.process:
                self._part_with(member)
        for address, process in present.items():
            if address not in self._members:
                self._members[address] = _Member(address, process)
                asked = self._cargo, self._extras
                self._ask(self._members[address], there.greet, *asked, then=self._greeted)
        self._count = sum(not member.unfit for member in self._members.values())
        ready = len(self._places)
        if ready != self._ready and (ready or not present):
            self._ready = ready
            machines = counted(self._places.machines, "machine")
            self._announce(
                f"{counted(ready, 'worker')} ready, on {machines}" if ready
                else "the cluster has no workers: waiting for the first"
            )  # fmt: skip

    def _part_with(self, member: _Member) -> None:
        """A worker is gone; what it was at goes to another, but not for ever."""
        group = self._let_go(member)
        del self._members[member.address]
        if group is None:
            return
        group.lost += 1
        if group.lost < TRIES:
            self._announce(
                f"worker {member.address} was lost while it was at {group.title}: "
                "another one begins it again"
            )
            self._waiting.insert(0, group)
        else:
            group.future.set_exception(WorkerDied(f"{group.lost} workers were lost"))

    def _let_go(self, member: _Member) -> _Group | None:
        """Have nothing more of a worker; give back the group that it was at."""
        self._places.remove(member.address)
        if member.asked is not None:
            member.asked.cancel()
        if member.home and self._bringing.get(member.home) is member:
            del self._bringing[member.home]
            mates = [mate for mate in self._mates(member) if mate is not member]
            if mates:
                self._bring(mates[0])
        group, member.group = member.group, None
        return group

    def _mates(self, member: _Member) -> list[_Member]:
        """The workers of the same machine that have greeted and are not ready yet."""
        return [
            mate for mate in self._members.values()
            if mate.home == member.home and not mate.unfit and mate.address not in self._places
        ]  # fmt: skip

    def _dismiss(self, member: _Member, why: str) -> None:
        """Have nothing to do with a worker that could spoil numbers, or make none."""
        member.unfit = True
        group = self._let_go(member)
        self._waiting[:0] = [group] if group else []
        where = member.greeting.machine if member.greeting else member.address
        self._tell(f"a worker on {where} takes no part: {why}")
        if all(other.unfit for other in self._members.values()):
            raise DataError(f"no worker of the cluster can take part; the last, on {where}: {why}")

    def _ask(self, member: _Member, function: Any, *words: Any, then: Any) -> None:
        """Ask a worker; its answer is for this thread, if it is still there then."""
        if self._link is None:
            raise Lost

        def deliver(answer: Future[Any]) -> None:
            self._inbox.put(partial(self._receive, member, answer, then))

        member.asked = self._link.ask(member.address, function, *words, then=deliver)

    def _receive(self, member: _Member, answer: Future[Any], then: Any) -> None:
        if self._members.get(member.address) is not member or answer.cancelled():
            return
        error = answer.exception()
        if error is None:
            then(member, answer.result())
        elif isinstance(error, Lost):
            raise error
        elif type(error).__name__ == "KilledWorker":  # the next look will not find it
            return
        elif member.group is None or isinstance(error, Unfit):
            known = isinstance(error, Unfit)
            self._dismiss(member, str(error) if known else f"{type(error).__name__}: {error}")
        else:  # of the group itself: it would be the same anywhere
            self._free(member).future.set_exception(error)

    def _greeted(self, member: _Member, greeting: Greeting) -> None:
        """Compare versions before there is any work, then see that the data are there."""
        member.greeting = greeting
        why = difference(self._environment, greeting.environment)
        if why:
            self._dismiss(member, why)
        elif greeting.has_cargo:
            self._ask(member, there.open_up, self._cargo, then=self._opened)
        elif member.home not in self._bringing:
            self._bring(member)

    def _bring(self, member: _Member) -> None:
        assert member.home is not None
        self._brought.add(member.home)
        self._bringing[member.home] = member
        self._send(member, 0)

    def _send(self, member: _Member, start: int) -> None:
        """Send the data piece by piece; then all workers of that machine have them."""
        content = self._parcel.pickled
        if start < len(content):
            piece = content[start : start + PIECE]
            self._sent[member.address] += len(piece)

            def go_on(member: _Member, _: None) -> None:
                self._send(member, start + len(piece))

            self._ask(member, there.take, self._cargo, start, piece, then=go_on)
            return
        self._bringing.pop(member.home or ("", ""), None)
        for mate in self._mates(member):
            self._ask(mate, there.open_up, self._cargo, then=self._opened)

    def _opened(self, member: _Member, room: Room) -> None:
        """A worker is ready."""
        if member.greeting is None or member.address in self._places:
            return
        place = Place(member.address, member.greeting.machine, room.memory, room.disk)
        self._places.add(place, room.free)
        self._met[member.address] = member.greeting
        codes = {blas_of(met.environment) for met in self._met.values()}
        if len(codes) > 1:
            self._tell(
                f"workers multiply matrices by different code ({' and '.join(sorted(codes))}): "
                "last digits depend on who fits, and manifest.json says who there was"
            )

    # Groups go out and come back

    def _give_out(self) -> None:
        """Give groups that wait to workers that are free."""
        if self._link is None:
            return
        given = list(self._places.assign(group.job.needs for group in self._waiting))
        pairs = [(self._waiting[number], place) for number, place in given]
        for group, place in pairs:
            self._members[place.address].group = group
            self._waiting.remove(group)
        for group, place in pairs:
            terms = Terms(self._topic, place.number, self._threads)
            words = self._cargo, pickle.dumps(group.job), terms
            self._ask(self._members[place.address], there.fit, *words, then=self._done)
        self._link.want(len(self._waiting))
        self._refuse_too_large()

    def _free(self, member: _Member) -> _Group:
        """The group that a worker was at: it is ready for another."""
        group, member.group = member.group, None
        assert group is not None
        self._places.release(member.address)
        return group

    def _done(self, member: _Member, result: tuple[list[Outcome], int]) -> None:
        outcomes, disk = result
        self._places.release(member.address, disk)
        self._free(member).future.set_result(outcomes)

    def _refuse_too_large(self) -> None:
        """Give up groups that no worker has room for, once that is so for long."""
        large = [group for group in self._waiting if not self._places.could_hold(group.job.needs)]
        if not large or not len(self._places):
            self._stuck = None
            return
        self._stuck = self._stuck or time.monotonic()
        words = f"{large[0].title} {_too_much(large[0].job.needs, self._places.most)}"
        self._tell(f"{words}: waiting for one that has")
        if time.monotonic() - self._stuck > self._patience:
            for group in large:
                self._waiting.remove(group)
                words = _too_much(group.job.needs, self._places.most)
                group.future.set_exception(Refused(words))

    # The scheduler

    def _forget_scheduler(self) -> None:
        """Begin again, once there is a scheduler, what was under way: nobody knows of it now."""
        self._announce("the scheduler does not answer: waiting for it to come back")
        self._stuck = time.monotonic()
        if self._link is not None:
            self._link.close()
        self._link = None
        self._waiting[:0] = [m.group for m in self._members.values() if m.group is not None]
        self._members.clear()
        self._places.clear()
        self._bringing.clear()
        self._count = 0

    def _reconnect(self) -> None:
        try:
            self._link = self._connect(self._topic, self._hear)
        except UsageError as error:
            if time.monotonic() - (self._stuck or 0.0) > self._patience:
                raise DataError(
                    f"{error}, for {self._patience / 60:.0f} minutes; what is finished is kept: "
                    "the same command goes on from there"
                ) from error
        else:
            self._stuck = None
            self._announce("the scheduler is back")


def _too_much(needs: Needs, most: Needs) -> str:
    """What a group needs, beside the most that there is."""
    wanted, found = needs.memory or 0, most.memory or 0
    what = "memory"
    if wanted <= found:
        wanted, found, what = needs.disk, most.disk, "scratch space"
    return (
        f"needs {wanted / 1e9:.1f} GB of {what}, and no worker has more than {found / 1e9:.1f} GB"
    )
