"""The command line: text to typed values, one library call, print.

Hardly anything but click is imported here, and a command's module only when that command runs:
`recbench --help` answers at once.
"""

import importlib
import io
import os
import sys
from contextlib import suppress
from typing import Any

import click

from recbench import __version__
from recbench.cli.limits import outlive
from recbench.errors import (
    DataError,
    RecbenchError,
    UsageError,
    located,
    place_of,
    printable,
    reason_of,
)

COMMANDS = {
    "fetch": "Download a dataset, verify it and prepare it.",
    "recipe-search": "Search for the preparation that gives published counts.",
    "list": "List datasets, models, losses, metrics, splits or runs.",
    "info": "Explain a dataset, model, loss, metric or split.",
    "run": "Fit models, tune them on validation, measure the best on test.",
    "show": "Print the tables of a results folder.",
    "report": "Write a results folder as one HTML file.",
    "board": "Write many results folders as one page, ours beside printed.",
    "compare": "Test whether one model is better than another, user by user.",
    "check": "Run published numbers and compare them with ours.",
    "recommend": "Recommend items to users, or to whoever has what you say.",
    "export": "Write a split as files that other tools read.",
    "cite": "Print BibTeX entries of all that a results folder rests on.",
    "doctor": "Show what this machine and installation can do.",
    "check-plugin": "Put a plugin through what all of its kind must do.",
    "completion": "Print the script that completes names in your shell.",
}

NO_WORDS: Any = getattr(click.exceptions, "NoArgsIsHelpError", ())
"""What newer versions of click raise to show the help of a command without words."""

NO_THREAD = "can't start new thread"
"""What Python says where memory ends."""
ONCE = frozenset([
    "dataset", "data", "user", "item", "value", "minimum", "time", "core", "split", "select",
    "seed", "model", "saved",
])  # fmt: skip
"""Options that say what is measured: who gives two values means both. Of others, such as -o, the
last one counts, as is usual."""

EPILOG = """\b
Exit codes
  0    fine
  1    a trial failed, nothing was measured, or a check found a number that got worse
  2    the command line was wrong
  3    data could not be had, or did not verify
  130  interrupted

\b
Start here
  recbench run --model deql-l2 --grid b=0.1:2.0
  recbench list models
  recbench info deql-l2
"""


class Sentence(click.ClickException):
    """One of our errors as click shows it: a line on standard error and an exit code."""

    def __init__(self, error: RecbenchError) -> None:
        super().__init__(printable(str(error)))
        self.exit_code = error.exit_code  # type: ignore[misc]  # click declares it for the class


class Commands(click.Group):
    """Loads a command's module when it is called, and turns our errors into sentences."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands in the order a newcomer meets them."""
        return [*COMMANDS]  # `list` is a module here, once that command has been called

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:
        """Import `recbench.cli.NAME` and return its `command`."""
        if name not in COMMANDS:
            return None
        module = importlib.import_module(f"recbench.cli.{name.replace('-', '_')}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([*COMMANDS.items()])

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Name the closest command when there is none of that name."""
        if args and not args[0].startswith("-") and args[0] not in COMMANDS:
            from recbench.errors import unknown

            raise unknown("command", args[0], COMMANDS)
        name, command, rest = super().resolve_command(ctx, args)
        if command is not None and not ctx.resilient_parsing:
            _refuse_twice(ctx, command, rest)
        return name, command, rest

    def make_context(self, *args: Any, **named: Any) -> click.Context:
        """Read the options in front of a command."""
        try:
            return super().make_context(*args, **named)
        except click.UsageError as error:
            if isinstance(error, NO_WORDS):
                raise
            from recbench.cli.usage import told

            raise Sentence(told(error, click.Context(self, info_name="recbench"))) from error

    def main(self, *args: Any, **named: Any) -> Any:
        """Run a command line, whatever the streams are, and whatever the system refuses."""
        try:
            settle_streams()
            if named.get("standalone_mode", True):
                outlive()
            try:
                return super().main(*args, **named)
            finally:
                sys.stdout.flush()
        except RecbenchError as error:
            Sentence(error).show()
            sys.exit(error.exit_code)
        except BrokenPipeError:  # whoever was reading has left: nobody is there to be told
            forget_output()
            sys.exit(1)
        except OSError as error:
            if named.get("standalone_mode", True) and "--debug" not in sys.argv:
                forget_output()
                reason = error.strerror or str(error)
                where = f" ({error.filename})" if error.filename else ""
                words = f"the system refused to go on: {reason}{where}"
                Sentence(DataError(located(words, place_of(error)))).show()
                sys.exit(DataError.exit_code)
            raise

    def _called(self, ctx: click.Context) -> click.Context:
        """Where in the command line it was that click found something wrong."""
        name = ctx.invoked_subcommand or ""
        command = self.get_command(ctx, name)
        return ctx if command is None else click.Context(command, parent=ctx, info_name=name)

    def invoke(self, ctx: click.Context) -> object:
        """Run; what is known to go wrong is a sentence and an exit code, Ctrl-C is 130."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            click.echo("\ninterrupted", err=True)
            sys.exit(130)
        except BaseException as error:
            if isinstance(error, click.UsageError) and not isinstance(error, NO_WORDS):
                from recbench.cli.usage import told

                raise Sentence(told(error, self._called(ctx))) from error
            known = known_error(error)
            if known is None or ctx.params.get("debug"):
                raise
            raise Sentence(known) from error


def known_error(error: BaseException) -> RecbenchError | None:
    """What an error means, if it is not a bug of ours or one that click knows."""
    if isinstance(error, RecbenchError):
        return error
    if isinstance(error.__context__, BrokenPipeError):  # rich ends the program then
        return None
    if isinstance(error, SystemExit):  # no code of ours ends the program
        end = f"ended the program (sys.exit({error.code!r:.60}))"
        return RecbenchError(f"a plugin, or what it imports, {end}")
    no_thread = isinstance(error, RuntimeError) and NO_THREAD in str(error)
    if isinstance(error, MemoryError) or no_thread:  # Arrow's, too
        return RecbenchError(f"there is not enough memory ({error})")
    place = place_of(error)
    if isinstance(error, ImportError):  # that one, again, or an installation that is not whole
        return RecbenchError(located(f"a library cannot be loaded ({error})", place))
    if isinstance(error, UnicodeEncodeError):
        name = error.object.encode("utf-8", "backslashreplace").decode()
        return UsageError(f"'{name}' is not UTF-8; give it another name")
    if isinstance(error, click.ClickException | click.Abort | click.exceptions.Exit | OSError):
        return None  # click knows them, and the last `main` does
    if isinstance(error, Exception):
        whole = "`recbench --debug ...` shows the whole way there"
        return RecbenchError(f"a plugin raised {reason_of(error)}; {whole}") if place else None
    return RecbenchError(f"a plugin, or what it imports, raised {reason_of(error)}")


def settle_streams() -> None:
    """Have somewhere to write to, and characters that can be written there.

    A file that is opened while standard output is closed would take its number.
    """
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    # Python has no stream where there was no file, and click wraps what is not there. One on the
    # number that was just taken: there may be no other left.
    for number, name in ((1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            nowhere = io.FileIO(number, "w", closefd=False)
            setattr(sys, name, io.TextIOWrapper(nowhere, encoding="utf-8"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def forget_output() -> None:
    """Send what is left to be written nowhere, or it would be tried once more at the end."""
    with suppress(OSError, ValueError, AttributeError):  # there may be none, or one that is no file
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _refuse_twice(ctx: click.Context, command: click.Command, args: list[str]) -> None:
    """Refuse two values for an option of ONCE: the first would be forgotten."""
    try:
        *_, given = command.make_parser(click.Context(command, parent=ctx)).parse_args([*args])
    except click.UsageError:  # it will be told when they are read in earnest
        return
    for option in given:
        once = option.name in ONCE and isinstance(option, click.Option) and not option.multiple
        if once and given.count(option) > 1:
            raise UsageError(
                f"{option.opts[-1]} is given twice, and takes one value: leave one out"
            )


@click.command(
    cls=Commands,
    epilog=EPILOG,
    context_settings={
        "auto_envvar_prefix": "RECBENCH",
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
    },
)
@click.version_option(__version__, prog_name="recbench")
@click.option("--debug", is_flag=True, help="Show tracebacks of errors.")
def main(debug: bool) -> None:
    """Benchmark implicit-feedback recommenders: published numbers, honest baselines.

    Results go to standard output, everything else to standard error.
    """
