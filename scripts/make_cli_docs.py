"""Write docs/cli.md from the commands' own help; `--check` only says whether it is up to date."""

import sys
from pathlib import Path

import click

from recbench.cli import COMMANDS, main

TARGET = Path(__file__).resolve().parents[1] / "docs" / "cli.md"
HEAD = """# The command line

Made by `make docs` from the commands' own help; a test checks that it is up to date.
"""


def page() -> str:
    """Every help page, one section each."""
    parent = click.Context(main, info_name="recbench", max_content_width=100, terminal_width=100)
    parts = [HEAD, "## recbench\n", _block(main.get_help(parent))]
    for name in COMMANDS:
        command = main.get_command(parent, name)
        assert command is not None
        ctx = click.Context(
            command, info_name=name, parent=parent, max_content_width=100, terminal_width=100
        )
        parts += [f"## recbench {name}\n", _block(command.get_help(ctx))]
    return "\n".join(parts)


def _block(text: str) -> str:
    return f"```text\n{text.rstrip()}\n```\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit(
            0
            if TARGET.read_text(encoding="utf-8") == page()
            else f"{TARGET} is out of date: make docs"
        )
    TARGET.write_text(page(), encoding="utf-8")
