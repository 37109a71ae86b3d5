"""Machines that are not as they should be: terminals, disks, memory, limits, names, signals.

Each try is a process of its own, in an environment that is spoilt in one way or two. It answers as
ever or with a sentence, and its exit code says which. It is a whole process if what is spoilt
matters before recbench is loaded or after its last line; else it may be a copy of a loaded one.
"""

import os
import random
import resource
import shutil
import signal
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from bench.attack import mischief
from bench.attack.process import Process, Start
from bench.attack.suite import LONGEST_SENTENCE, Verdict, clean, fresh

WORDS = (
    ("--help",), ("--version",), ("list", "models"), ("list", "datasets", "--json"),
    ("show", "out"), ("show", "--json", "out"), ("show", "--format", "latex", "out"),
    ("show", "--trials", "--format", "csv", "out"), ("report", "out"), ("info", "debian"),
    ("compare", "-o", "out", "ease", "popularity"), ("export", "toy", "-o", "exported"),
    ("fetch", "-f", "toy"), (*mischief.RUN, "-o", "new"),
    (*mischief.RUN, "-o", "out"), ("completion", "bash"), ("cite", "out"),
    ("recommend", "-m", "popularity", "--data", mischief.TOY, "--user", "u", "--item", "i"),
    ("recommend", "-m", "ials[factors=2]", "-d", "toy", "-o", "new", "--for", "1"),
    ("recipe-search", "--help"),
)  # fmt: skip
SLOW = ((*mischief.RUN, "-o", "new", "-j", "2"), ("doctor",))
"""One starts whole processes, the other measures: one of them is tried in one of a hundred."""
WHOLE = 0.05
"""The share of tries that are whole processes although they need not be."""
MUTE = (signal.SIGPIPE, signal.SIGXFSZ)
"""Signals that end a process of the shell's without a word, as they should where they may."""


@dataclass
class Place(Start):
    """What a process finds when it starts."""

    folder: Path = Path()
    kill: tuple[float, int] | None = None
    silent: bool = False
    """Whether nobody can hear what is said."""


def _limit(kind: int, *numbers: int) -> Callable[[Place, random.Random], None]:
    def spoil(place: Place, dice: random.Random) -> None:
        number = dice.choice(numbers)
        place.whole |= kind == resource.RLIMIT_AS  # threads of libraries begin anew in a copy
        place.before.append(lambda: resource.setrlimit(kind, (number, number)))

    return spoil


def _variables(*, early: bool = False, **names: str) -> Callable[[Place, random.Random], None]:
    """Variables; early ones are looked at before recbench is loaded."""

    def spoil(place: Place, dice: random.Random) -> None:
        place.environment |= names
        place.whole |= early

    return spoil


def closed_out(place: Place, dice: random.Random) -> None:
    """Standard output that is closed."""
    place.before.append(lambda: os.close(1))


def closed_err(place: Place, dice: random.Random) -> None:
    """Standard error that is closed."""
    place.before.append(lambda: os.close(2))
    place.silent = True


def full_out(place: Place, dice: random.Random) -> None:
    """Standard output on a full disk."""
    place.out = os.open("/dev/full", os.O_WRONLY)


def broken_pipe(place: Place, dice: random.Random) -> None:
    """A reader that has left, as `head` does."""
    source, sink = os.pipe()
    os.close(source)
    place.out = sink


def no_home(place: Place, dice: random.Random) -> None:
    """No home folder is known."""
    for name in ("HOME", "RECBENCH_HOME", "XDG_CACHE_HOME", "USER"):
        place.environment.pop(name, None)


def home_is_a_file(place: Place, dice: random.Random) -> None:
    """Where data are kept there is a file."""
    place.environment["RECBENCH_HOME"] = str(place.folder / mischief.TOY)


def odd_names(place: Place, dice: random.Random) -> None:
    """A file whose name is no text."""
    name = os.fsdecode(b"toy-\xff\xfe.csv")
    shutil.copy(mischief.TOY, name)
    place.words = [name if word == mischief.TOY else word for word in place.words]
    if dice.random() < 0.5:
        folder = os.fsdecode(b"new-\xff")
        place.words = [folder if word == "new" else word for word in place.words]


def no_shared_memory(place: Place, dice: random.Random) -> None:
    """A container without /dev/shm."""
    place.mounts.append("mount -t tmpfs -o ro,size=4k x /dev/shm")


def _elsewhere(place: Place, remount: str) -> None:
    """On a disk of its own, which is then mounted in another way."""
    files = "out toy.csv datasets.yaml home"
    place.mounts += [f"mkdir -p room; mount -t tmpfs x room; cp -r {files} room", remount]
    place.environment["RECBENCH_HOME"] = str(place.folder / "room" / "home")
    place.within = "room"


def small_disk(place: Place, dice: random.Random) -> None:
    """A disk with a few kilobytes of room under everything that is written."""
    size = dice.choice([0, 4, 16, 64, 256])
    _elsewhere(place, f"mount -o remount,size=$(( $(du -sk room | cut -f1) + {size} ))k room")


def read_only(place: Place, dice: random.Random) -> None:
    """A disk that cannot be written to."""
    _elsewhere(place, "mount -o remount,ro room")


def folder_is_gone(place: Place, dice: random.Random) -> None:
    """The working directory was removed."""

    def leave() -> None:
        gone = place.folder / f"gone-{os.getpid()}"
        gone.mkdir()
        os.chdir(gone)
        gone.rmdir()

    place.before.append(leave)


def interrupted(place: Place, dice: random.Random) -> None:
    """Ctrl-C, for the whole group as a terminal sends it."""
    place.kill = dice.uniform(0.05, 3.0), signal.SIGINT


def terminated(place: Place, dice: random.Random) -> None:
    """TERM, as a scheduler sends it."""
    place.kill = dice.uniform(0.05, 3.0), signal.SIGTERM


SPOILERS: Mapping[str, Callable[[Place, random.Random], None]] = {
    "closed standard output": closed_out, "closed standard error": closed_err,
    "full standard output": full_out, "broken pipe": broken_pipe, "no home": no_home,
    "home is a file": home_is_a_file, "odd names": odd_names,
    "no shared memory": no_shared_memory, "small disk": small_disk, "read-only": read_only,
    "folder is gone": folder_is_gone, "Ctrl-C": interrupted, "TERM": terminated,
    "ASCII": _variables(PYTHONIOENCODING="ascii"),
    "Latin": _variables(PYTHONIOENCODING="latin-1"),
    "C locale": _variables(early=True, LC_ALL="C", PYTHONCOERCECLOCALE="0", PYTHONUTF8="0"),
    "dumb terminal": _variables(TERM="dumb"), "COLUMNS=1": _variables(COLUMNS="1"),
    "COLUMNS=x": _variables(COLUMNS="x"), "COLUMNS=0": _variables(COLUMNS="0"),
    "forced colours": _variables(FORCE_COLOR="1", COLUMNS="30"),
    "no temporary folder": _variables(TMPDIR="/nonexistent"),
    "odd threads": _variables(early=True, OMP_NUM_THREADS="x", OPENBLAS_NUM_THREADS="-1"),
    "odd mirror": _variables(RECBENCH_MIRROR="ftp://x", RECBENCH_OFFLINE="1"),
    "few descriptors": _limit(resource.RLIMIT_NOFILE, 12, 16, 20, 24, 32, 48),
    "small files": _limit(resource.RLIMIT_FSIZE, 0, 1000, 20_000),
    "little memory": _limit(resource.RLIMIT_AS, *(n << 20 for n in (500, 700, 900, 1200, 2000))),
}  # fmt: skip


class Attack:
    """One process in one spoilt environment."""

    patience = 90.0  # a process, on a machine that may be busy

    def set_up(self, folder: Path) -> None:
        """Make results and a dataset to work on."""
        self.folder = folder
        mischief.campaign(folder)
        mischief.fetched(folder)
        (folder / "home").rename(folder / "whole-home")

    def attempt(self, dice: random.Random) -> Verdict:
        """Spoil, run, judge."""
        for name in ("out", "home"):
            fresh(self.folder / name, self.folder / ("whole" if name == "out" else "whole-home"))
        for name in ("exported", "new", os.fsdecode(b"new-\xff")):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        words = dice.choice(SLOW if dice.random() < 0.01 else WORDS)
        place = Place(words, whole=dice.random() < WHOLE, folder=self.folder)
        names = dice.sample(sorted(SPOILERS), k=dice.choice([1, 1, 1, 2]))
        for name in names:
            SPOILERS[name](place, dice)
        return self._run(
            place,
            f"{' and '.join(names)}: {' '.join(place.words[:3])} {' '.join(place.words[-2:])}",
        )

    def _run(self, place: Place, about: str) -> Verdict:
        process = Process(place)
        if place.out is not None:
            os.close(place.out)
        try:
            if place.kill and not process.wait(place.kill[0]):
                os.killpg(process.pid, place.kill[1])
            if not process.wait(self.patience - 20):
                return Verdict("hang", about)
        finally:
            process.end()
        return self._judged(place, process.returncode or 0, process.said(), about)

    def _judged(self, place: Place, code: int, err: str, about: str) -> Verdict:
        about = f"{about}: {code}: {err[-400:]!r}"
        if place.kill and code == -place.kill[1]:
            return Verdict("sentence")  # Python was not up yet, or TERM, which has no words
        if "Traceback" in err or "Exception ignored" in err or "Error in" in err:
            return Verdict("traceback", about)
        if code == 0:
            return Verdict("answer")
        if code == 1 and "broken pipe" in about and not err:
            return Verdict("sentence")  # nobody is there to be told
        if code < 0 and -code in MUTE:
            return Verdict("sentence")
        words = place.silent or (
            err.strip() and len(err.strip().splitlines()[-1]) < LONGEST_SENTENCE
        )
        if code in (1, 2, 3, 130, 141) and (words or code == 141):
            return Verdict("sentence" if clean(err) else "wrong", about)
        return Verdict("killed" if code < 0 else "wrong", about)
