"""What click finds wrong with a command line, as sentences that say what to type next."""

import re

import click

from recbench.cli.common import registry
from recbench.errors import UsageError, closest

TYPED = re.compile(r"'([^']*)'|^([-\w.]+) is not in")
"""What was given, in a message of click's."""
EXTRA = re.compile(r"unexpected extra arguments? \((\S+).*\)")
EXAMPLE = re.compile(r"^\s*(recbench .*?)(?:\s{3,}.*)?$", re.MULTILINE)
"""A line of a help text that can be typed."""


def told(error: click.UsageError, ctx: click.Context) -> UsageError:
    """The same error in our words, which do not depend on the version of click."""
    if isinstance(error, click.NoSuchOption):
        return UsageError(_no_such_option(error.option_name, ctx))
    param = getattr(error, "param", None)
    if type(error) is click.BadParameter and param is not None:
        if found := TYPED.search(error.message):
            return UsageError(_misfit(param, found[1] or found[2] or ""))
        return UsageError(f"{_name(param)}: {error.message}")
    return UsageError(f"{_wrong(error, ctx)}; {_example(ctx)}")


def _no_such_option(name: str, ctx: click.Context) -> str:
    known = [
        option for param in ctx.command.params if isinstance(param, click.Option)
        for option in (*param.opts, *param.secondary_opts) if option.startswith("--")
    ]  # fmt: skip
    close = closest(name, sorted(known)) if name.startswith("--") else None
    hint = f"did you mean {close}? " if close else ""
    path = ctx.command_path
    return f"{path} has no option {name}; {hint}`{path} --help` shows all"


def _example(ctx: click.Context) -> str:
    """Something that can be typed instead."""
    found = EXAMPLE.search(ctx.command.help or "")
    return f"for example: {found[1]}" if found else f"`{ctx.command_path} --help` shows more"


def _wrong(error: click.UsageError, ctx: click.Context) -> str:
    param = getattr(error, "param", None)
    if isinstance(error, click.BadOptionUsage):
        return f"{error.option_name} needs a value"
    if isinstance(error, click.MissingParameter) and param is not None:
        choices = f", {_wanted(param)}" if isinstance(param.type, click.Choice) else ""
        return f"{_name(param)} is missing{choices}"
    if extra := EXTRA.search(error.message):
        word = extra[1].strip("'")
        models = any(option.name == "model" for option in ctx.command.params)
        meant = models and word in registry("models").names()
        return f"'{word}' is one word too many{f', did you mean -m {word}?' if meant else ''}"
    return error.message.rstrip(".")


def _misfit(param: click.Parameter, word: str) -> str:
    """A value that a parameter does not take."""
    choices = param.type.choices if isinstance(param.type, click.Choice) else ()
    close = closest(word, [str(choice) for choice in choices])
    hint = f", did you mean {close}?" if close else ""
    return f"{_name(param)} takes {_wanted(param)}, not '{word}'{hint}"


def _name(param: click.Parameter) -> str:
    return param.opts[-1] if isinstance(param, click.Option) else str(param.human_readable_name)


def _wanted(param: click.Parameter) -> str:
    """What a parameter takes."""
    kind = param.type
    if isinstance(kind, click.Choice):
        return f"one of {', '.join(map(str, kind.choices))}"
    if isinstance(kind, click.IntRange) and kind.min is not None:
        return f"a whole number from {kind.min}"
    if isinstance(kind, click.types.IntParamType):
        return "a whole number"
    if isinstance(kind, click.types.FloatParamType):
        return "a number"
    return str(getattr(kind, "wanted", "a word"))
