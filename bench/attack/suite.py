"""What every attack shares: tries made of seeds, one verdict for each, and a watchdog.

An `Attack` sets up a folder, and then tries something, by dice, again and again. A try is given one
verdict:

    right       the answer, as if nothing had been done
    told        another answer, and a sentence that says why
    answer      an answer that nothing could show to be wrong (a forged file, a changed catalogue)
    sentence    no answer; a sentence, and the exit code that belongs to it
    wrong       an answer that is not right, and not a word
    traceback   anything that is not a sentence
    hang        no answer in 20 seconds
    killed      the process ended without a word

Tries are made in a child, one after the other. The parent waits for each verdict: a child that
hangs is killed, one that ended is followed by another, which goes on with the next try.
"""

import contextlib
import os
import random
import select
import shutil
import signal
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SECONDS = 20.0
SETTING_UP = 300.0
"""Seconds to set up: a campaign is run, and kernels may have to be compiled."""
APART = 60.0
"""Seconds from one line of progress to the next."""
GOOD = ("right", "told", "answer", "sentence")
BAD = ("wrong", "traceback", "hang", "killed")
LONGEST_SENTENCE = 4000


@dataclass(frozen=True)
class Verdict:
    """What came of a try, with what was done and what was said, for those who look into it."""

    word: str
    about: str = ""


class Attack(Protocol):
    """Something that is tried again and again."""

    patience: float
    """Seconds for one try: `SECONDS`, or more where a try is many processes."""

    def set_up(self, folder: Path) -> None:
        """Make what is attacked, in an empty folder, once for each child."""

    def attempt(self, dice: random.Random) -> Verdict:
        """Try once."""


@dataclass
class Tally:
    """What became of the tries of one attack."""

    verdicts: Counter[str] = field(default_factory=Counter)
    failures: list[str] = field(default_factory=list)

    @property
    def tries(self) -> int:
        """How many there were."""
        return sum(self.verdicts.values())

    @property
    def failed(self) -> int:
        """How many of them ended as none should."""
        return sum(self.verdicts[word] for word in BAD)


def assault(
    make: Callable[[], Attack], name: str, tries: int, seed: int,
    told: Callable[[str], None] = lambda text: None,
) -> Tally:  # fmt: skip
    """Make the tries of one attack; each that failed is told, and now and then how many remain."""
    tally, told_at = Tally(), time.monotonic()
    while tally.tries < tries:
        for number, verdict in _watched(make, name, range(tally.tries, tries), seed):
            tally.verdicts[verdict.word] += 1
            if verdict.word in BAD:
                tally.failures.append(f"{name} {number} {verdict.word}: {verdict.about}")
                told(tally.failures[-1])
            if time.monotonic() > told_at + APART:
                told(f"{name}: {tally.tries:,} of {tries:,}")
                told_at = time.monotonic()
    return tally


def dice_of(name: str, seed: int, number: int) -> random.Random:
    """The dice of one try: the same whenever it is made."""
    return random.Random(f"{name} {seed} {number}")


def _watched(
    make: Callable[[], Attack], name: str, numbers: range, seed: int
) -> Iterator[tuple[int, Verdict]]:
    """The verdicts of a child, up to the end or to the try that it did not survive."""
    with tempfile.TemporaryDirectory(prefix="recbench-attack-", ignore_cleanup_errors=True) as home:
        source, sink = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of threads, which it starts anew
            child = os.fork()
        if not child:
            os.close(source)
            _child(make, name, numbers, seed, Path(home), sink)
        os.close(sink)
        try:
            yield from _heard(source, child, numbers)
        finally:
            os.close(source)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)
            with contextlib.suppress(ChildProcessError):
                os.waitpid(child, 0)


def _heard(source: int, child: int, numbers: range) -> Iterator[tuple[int, Verdict]]:
    rest, patience = b"", SETTING_UP
    for number in (numbers.start - 1, *numbers):
        while b"\n" not in rest:
            ready = select.select([source], [], [], patience)[0]
            piece = os.read(source, 1 << 16) if ready else b""
            if not piece:
                if number < numbers.start:
                    raise SystemExit("an attack could not be set up")
                yield number, _ended(child) if ready else Verdict("hang")
                return
            rest += piece
        line, _, rest = rest.partition(b"\n")
        if number < numbers.start:
            patience = float(line)
        else:
            word, _, about = line.decode("utf-8", "replace").partition(" ")
            yield number, Verdict(word, about)


def _ended(child: int) -> Verdict:
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Verdict("killed", signal.Signals(os.WTERMSIG(status)).name)
    return Verdict("killed", f"exit code {os.waitstatus_to_exitcode(status)}")


def _child(
    make: Callable[[], Attack], name: str, numbers: range, seed: int, folder: Path, sink: int
) -> None:
    """Try, and say after each try what came of it; never returns."""
    try:
        os.setpgid(0, 0)
        attack = ready(make, folder)
        os.write(sink, f"{attack.patience}\n".encode())
        for number in numbers:
            verdict = judged(attack, dice_of(name, seed, number))
            about = " ".join(verdict.about.split())[:600]
            os.write(sink, f"{verdict.word} {about}\n".encode("utf-8", "replace"))
    except BaseException:  # noqa: BLE001 - the parent sees no more of it
        traceback.print_exc()
        os._exit(1)
    os._exit(0)


def ready(make: Callable[[], Attack], folder: Path) -> Attack:
    """An attack that is set up, in a folder that becomes the current one."""
    os.chdir(folder)
    os.environ["RECBENCH_HOME"] = str(folder / "home")
    attack = make()
    attack.set_up(folder)
    return attack


def judged(attack: Attack, dice: random.Random) -> Verdict:
    """One try; what escapes from it is no sentence."""
    try:
        return attack.attempt(dice)
    except BaseException as error:  # noqa: BLE001 - the point is to see what escapes
        return Verdict("traceback", last_lines(error))


def last_lines(error: BaseException) -> str:
    """An error, and where it was raised."""
    where = traceback.extract_tb(error.__traceback__)[-3:]
    places = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(where))
    return f"{type(error).__name__}: {str(error)[:300]} ({places})"


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str
    escaped: str = ""
    """An error that is no sentence."""

    def verdict(self, about: str, right: str | None = None) -> Verdict:
        """Judge it: by the right answer, where there is one."""
        detail = f"{about}: {self.escaped or (self.err or self.out)[-300:]!r}"
        if self.escaped or "Traceback (most" in self.err:
            return Verdict("traceback", detail)
        if not clean(self.err) or not clean(self.out):
            return Verdict("wrong", f"{about}: control characters: {self.err[-200:]!r}")
        if self.code:
            last = self.err.strip().splitlines()[-1:] or [""]
            said = self.code in (1, 2, 3, 130) and last[0] and len(last[0]) < LONGEST_SENTENCE
            return Verdict("sentence" if said else "wrong", f"exit code {self.code}: {detail}")
        if right is None:
            return Verdict("answer", detail)
        if self.out == right:
            return Verdict("right")
        return Verdict("told" if self.err.strip() else "wrong", detail)


def clean(text: str) -> bool:
    """Whether nothing in a text speaks to the terminal."""
    return not any((ord(mark) < 32 and mark not in "\n\r\t") or mark == "\x7f" for mark in text)


def command(*words: str) -> Said:
    """Run a command of recbench in this process, by the door that the terminal takes."""
    from click.testing import CliRunner

    from recbench.cli import main

    result = CliRunner().invoke(main, [*words], prog_name="recbench", env={"COLUMNS": "160"})
    error = result.exception
    ended = error is None or isinstance(error, SystemExit)
    return Said(result.exit_code, result.stdout, result.stderr, "" if ended else last_lines(error))


def sentence_of(call: Callable[[], object]) -> Said:
    """Call a function of recbench as a command would: its errors are sentences."""
    from recbench.cli import Sentence
    from recbench.errors import RecbenchError

    try:
        return Said(0, repr(call()), "")
    except RecbenchError as error:
        return Said(error.exit_code, "", f"Error: {Sentence(error).message}")
    except Exception as error:  # noqa: BLE001 - the point is to see what escapes
        return Said(1, "", "", last_lines(error))


def fresh(folder: Path, whole: Path) -> Path:
    """A copy of what is whole, in place of what was attacked."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(whole, folder)
    return folder


def table(tallies: Sequence[tuple[str, Tally]]) -> str:
    """The tallies, side by side."""
    words = ["tries", *GOOD, *BAD]
    lines = ["attack".ljust(14) + "".join(word.rjust(11) for word in words)]
    for name, tally in tallies:
        counts = [tally.tries, *(tally.verdicts[word] for word in (*GOOD, *BAD))]
        lines.append(name.ljust(14) + "".join(f"{count:,}".rjust(11) for count in counts))
    return "\n".join(lines)
