"""What several commands share: options, completion of names, consoles and progress bars."""

import json
import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from recbench.brackets import split_commas
from recbench.errors import UsageError, printable

PATH = click.Path(path_type=Path)
PAGE = 100
"""Columns of a table that goes to a file or another program."""
BLAS_THREADS = "OPENBLAS_NUM_THREADS"


def complete(*kinds: str) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    """Complete the names of some kinds of things."""

    def names(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        words = [word for kind in kinds for word in words_of_kind(kind, incomplete)]
        return [CompletionItem(word) for word in sorted(words) if word.startswith(incomplete)]

    return names


def words_of_kind(kind: str, start: str) -> list[str]:
    """What a beginning may go on as: a name or, for what is registered, a setting in brackets."""
    if kind in ("datasets", "runs", "searches"):
        return names_of(kind)
    from recbench.params import completions

    return completions(start, registry(kind))


def names_of(kind: str) -> list[str]:
    """Every name of one kind: datasets, runs, searches, or what a registry has."""
    if kind == "datasets":
        from recbench.data.catalog import load_catalog

        return sorted(load_catalog())
    if kind == "searches":
        from recbench.campaign.asked import SEARCHES

        return list(SEARCHES)
    if kind == "runs":
        return [str(path.parent) for path in sorted(Path("results").glob("*/trials.jsonl"))]
    names: list[str] = registry(kind).names()
    return names


def registry(kind: str) -> Any:
    """The registry of one kind of plugin."""
    from recbench import registry as registries

    return getattr(registries, kind.upper())


def import_numpy_alone() -> None:
    """Import NumPy for a command that multiplies nothing, without the threads of its BLAS.

    There would be one for every processor, and each looks for work for a while before it sleeps:
    on two processors that takes as long as NumPy itself.
    """
    if "numpy" in sys.modules or BLAS_THREADS in os.environ:
        return
    os.environ[BLAS_THREADS] = "1"  # read once, by what is loaded now
    try:
        with suppress(ImportError):  # whoever needs it says so
            import numpy  # noqa: F401
    finally:
        del os.environ[BLAS_THREADS]


def load_plugins(ctx: click.Context, param: click.Parameter, paths: tuple[Path, ...]) -> None:
    """Import plugin files while options are parsed, so that names in them exist."""
    if ctx.resilient_parsing:
        return
    from recbench.registry import load_plugin

    ctx.meta["plugins"] = paths
    for path in paths:
        load_plugin(path)


plugin_option = click.option(
    "--plugin",
    type=PATH,
    multiple=True,
    is_eager=True,
    expose_value=False,
    callback=load_plugins,
    help="A Python file that registers models, losses, metrics, splits or readers.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def writes_unicode() -> bool:
    """Whether standard output has every character; JSON has a way to write the others."""
    return str(getattr(sys.stdout, "encoding", "utf-8")).lower().startswith("utf")


def print_json(value: object) -> None:
    """Print a value for another program."""
    click.echo(json.dumps(value, indent=1, ensure_ascii=not writes_unicode()))


def console(stderr: bool = False) -> Any:
    """A rich console; it knows about NO_COLOR, TERM and pipes.

    When nothing says how wide the reader's screen is, tables are as wide as a page of text. What
    looks like the name of a picture, as in 0.1:100:log, is printed as it is.
    """
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    plain = not (stream and stream.isatty()) and "COLUMNS" not in os.environ
    width = PAGE if plain else None
    return Console(stderr=stderr, highlight=False, soft_wrap=False, emoji=False, width=width)


def say(text: str) -> None:
    """Tell the person at the terminal something that is not a result."""
    click.echo(printable(text), err=True)


LINES_APART = 10.0
"""Seconds between lines of progress where there is no terminal to draw a bar on."""
BEAT = 1.0
"""Seconds between looks at whether it is time to name what is at work."""
MOST_NAMED = 4
"""So many fits at work are named."""
TRIALS = "trials"
"""The work that all other is a part of."""


SLOW = 0.1
"""Seconds from which on it is said how many a step takes: others are bytes or users."""


class Bars:
    """One progress bar per kind of work, on standard error; elsewhere a line now and then.

    Both say how fast it goes and how long it will take, by what was seen of it: a fit that goes on
    after a kill begins somewhere in the middle. Both name what is being fitted, also while that
    says nothing of itself. `verbose` adds a line whenever some work is begun or done, with the
    seconds since the beginning.
    """

    def __init__(self, enabled: bool = True, *, verbose: bool = False, **look: Any) -> None:
        self.enabled, self.verbose, self.drawn = (
            enabled,
            verbose,
            bool(sys.stderr and sys.stderr.isatty()),
        )
        self._begun = self._told = self._counted = time.monotonic()
        """When this began, and when something was last said; when it was of steps that are done."""
        self.look = {"leave": False, "dynamic_ncols": True, **look}
        self._bars: dict[str, Any] = {}
        self._first: dict[str, tuple[float, int]] = {}
        """When work was first heard of that has not ended, and how much was done by then."""
        self._at_work: dict[str, float] = {}
        """What is being fitted, and since when."""
        self._named = True
        """Whether a line has named it."""
        self._lock, self._ended = threading.RLock(), threading.Event()
        self._heart: threading.Thread | None = None

    def __call__(self, what: str, done: int, total: int) -> None:
        """Show that `done` of `total` steps of `what` are done."""
        if self.enabled:
            with self._lock:
                self._show(what, done, total)

    def at_work(self, names: Sequence[str]) -> None:
        """Name what is being fitted; from then on it is named again and again while it lasts."""
        if not self.enabled or [*self._at_work] == [*names]:
            return
        with self._lock:
            now, before = time.monotonic(), self._at_work
            self._at_work = {name: before.get(name, now) for name in names}
            self._named = False
            if self.verbose:
                for name in [name for name in names if name not in before]:
                    say(f"{now - self._begun:8.1f} s  {name}: begun")
            if self._heart is None:
                self._heart = threading.Thread(target=self._beat, daemon=True)
                self._heart.start()
            self._name_on_bar()

    def _beat(self) -> None:
        with suppress(OSError, ValueError):  # nobody reads it any more: the run itself will notice
            while not self._ended.wait(BEAT):
                self.beat()

    def beat(self) -> None:
        """Say what is at work if nothing else was said for long, or bring that on the bar."""
        with self._lock:
            self._name_on_bar()
            now = time.monotonic()
            if not self.drawn and self._at_work and now - self._told >= LINES_APART:
                self._told, self._named = now, True
                say(f"at work: {self._work()}")

    def _work(self) -> str:
        """What is at work, and for how long; of many some, and how many more."""
        from recbench.doctor import duration

        now, names = time.monotonic(), list(self._at_work.items())
        words = [f"{name} for {duration(now - since)}" for name, since in names[:MOST_NAMED]]
        more = [f"{len(names) - MOST_NAMED} more"] if len(names) > MOST_NAMED else []
        return "; ".join(words + more)

    def _name_on_bar(self) -> None:
        bar = self._bars.get(TRIALS) or next(iter(self._bars.values()), None)
        if bar is not None:
            bar.set_postfix_str(self._work())

    def _show(self, what: str, done: int, total: int) -> None:
        if self.verbose and 0 < total <= done:
            self._close(what)
            say(f"{time.monotonic() - self._begun:8.1f} s  {what}: {done:,} done")
            return
        if not self.drawn:
            self._tell(what, done, total)
            return
        from tqdm import tqdm

        bar = self._bars.get(what)
        if bar is None or bar.total != (total or None) or done < bar.n:
            self._close(what)
            bar = tqdm(desc=what, total=total or None, initial=done, **self.look)
            self._bars[what] = bar
        bar.update(done - bar.n)
        if 0 < total <= done and what != TRIALS:
            self._close(what)

    def _tell(self, what: str, done: int, total: int) -> None:
        now = time.monotonic()
        since, first = self._first.setdefault(what, (now, done))
        if done < first:  # it began anew
            since, first = self._first[what] = now, done
        if now - self._counted >= LINES_APART and total:
            self._told = self._counted = now
            if self._at_work and not self._named:
                self._named = True
                say(f"at work: {self._work()}")
            rest = _rest((now - since) / (done - first), total - done) if done > first else ""
            say(f"{what}: {done:,} of {total:,} ({done / total:.0%}){rest}")
        if 0 < total <= done:
            self._close(what)

    def _close(self, what: str) -> None:
        self._first.pop(what, None)
        bar = self._bars.pop(what, None)
        if bar is not None:
            bar.close()

    def close(self) -> None:
        """Remove every bar, and say nothing more."""
        self._ended.set()
        if self._heart is not None:
            self._heart.join()
        for what in list(self._bars):
            self._close(what)

    def __enter__(self) -> "Bars":
        self._begun = self._told = self._counted = time.monotonic()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _rest(each: float, left: int) -> str:
    """How long a step takes, and how long those that are left will take."""
    from recbench.doctor import duration

    step = f", {each:.1f} s each" if each >= SLOW else ""
    return step + (f", {duration(each * left)} left" if left > 0 else "")


def byte_bars(enabled: bool = True) -> Bars:
    """Bars for downloads: bytes done, rate and time to go."""
    return Bars(enabled, unit="B", unit_scale=True, unit_divisor=1000)


def whole_numbers(text: str, option: str) -> list[int]:
    """Read `0,1,2`."""
    words = [word.strip() for word in text.split(",")]
    if not all(word.isdecimal() for word in words):
        raise UsageError(f"{option} takes whole numbers separated by commas, not '{text}'")
    return list(dict.fromkeys(map(int, words)))


def words_of(values: tuple[str, ...]) -> list[str]:
    """Options may be repeated or separated by commas; brackets keep their commas."""
    return [word for value in values for word in split_commas(value) if word]
