"""Write docs/wrong-commands.md from tests/cli/wrong_commands.yaml: what mistyped commands are told.

`--check` only says whether the page is up to date. `--record` runs every command first, and puts
what is said now into the table; read the changes before they are committed.
"""

import os
import shlex
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner, Result

from recbench.cli import COMMANDS, main

ROOT = Path(__file__).resolve().parents[1]
TABLE = ROOT / "tests" / "cli" / "wrong_commands.yaml"
TARGET = ROOT / "docs" / "wrong-commands.md"
MARK = "Error: "
HEAD = """# Wrong commands, and what they are told

Every message names what to type next, here in bold. Made by `python scripts/make_wrong_commands.py`
from `tests/cli/wrong_commands.yaml`; a test types each of these {count} commands. The exit code is
2 where the command line is wrong, and 3 where data are.

They are typed where there are a few small files and one results folder, of `ease` and
`popularity`.
"""
ESCAPED = str.maketrans({"|": "\\|", "*": "\\*", "<": "&lt;", "[": "\\[", "]": "\\]", "_": "\\_"})
RATINGS = [(user, item) for user in ("ann", "bob", "cy") for item in "pqrs"]
FILES = {
    "toy.csv": "u,i\n" + "".join(f"{n % 40},{n * 7 % 19}\n" for n in range(400)),
    "ratings.csv": "who,what,stars,day\n"
    + "".join(f"{u},{i},{n % 5 + 1},2025-01-{n + 1:02}\n" for n, (u, i) in enumerate(RATINGS)),
    "empty.csv": "user,item\n",
    "notes.txt": "hello\n",
    "broken.py": "import no_such_module\n",
    "typo.yaml": "modle: ease\n",
    "datasets.yaml": "mine:\n  titel: Mine\n  licence: mine\n  reader: delimited\n",
}
FIRST = (
    "recbench run --data toy.csv --user u --item i -m ease -m popularity -k ndcg@10,recall@5 "
    "-o results/toy-strong"
)


@dataclass(frozen=True)
class Wrong:
    """One line of the table."""

    typed: str
    exit: int
    says: str
    next: str


def table() -> list[Wrong]:
    lines: list[dict[str, Any]] = yaml.safe_load(TABLE.read_text(encoding="utf-8"))
    return [Wrong(**line) for line in lines]


def world(folder: Path) -> None:
    """Put the files into a folder, and the results of a first run."""
    for name, text in FILES.items():
        (folder / name).write_text(text, encoding="utf-8")
    os.chdir(folder)
    done = typed(FIRST)
    if done.exit_code:
        raise RuntimeError(done.output)


def typed(command: str) -> Result:
    """Run a command in this process."""
    return CliRunner().invoke(main, shlex.split(command)[1:], prog_name="recbench")


def said(result: Result) -> str:
    """What the error says, without what is told before it."""
    lines = result.stderr.partition(MARK)[2].strip().splitlines()
    return "\n".join(line.strip() for line in lines)


def record() -> None:
    """Run every command, and keep what comes of it."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["RECBENCH_HOME"] = str(Path(folder) / "home")
        world(Path(folder))
        lines = [
            {"typed": one.typed, "exit": (result := typed(one.typed)).exit_code,
             "says": said(result), "next": one.next}
            for one in table()
        ]  # fmt: skip
        os.chdir(ROOT)
    text = yaml.safe_dump(lines, sort_keys=False, allow_unicode=True, width=96)
    TABLE.write_text(text, encoding="utf-8")


def page() -> str:
    """The table by command."""
    wrong = table()
    parts = [HEAD.format(count=len(wrong))]
    for title in ["", *COMMANDS]:
        here = [one for one in wrong if _command(one) == title]
        if here:
            parts += [
                f"## recbench {title}".rstrip(),
                "",
                "| typed | told | |",
                "| --- | --- | --- |",
            ]
            parts += [f"| {_code(one.typed)} | {_told(one)} | {one.exit} |" for one in here]
            parts.append("")
    return "\n".join(parts)


def _command(one: Wrong) -> str:
    word = one.typed.split()[1]
    return word if word in COMMANDS else ""


def _code(text: str) -> str:
    return f"`{text}`".replace("|", "\\|")


def _told(one: Wrong) -> str:
    before, found, after = one.says.rpartition(one.next)
    marked = f"{_plain(before)}**{_plain(found)}**{_plain(after)}"
    return marked.replace("\n", "<br>")


def _plain(text: str) -> str:
    return text.replace("`", "").translate(ESCAPED)


if __name__ == "__main__":
    if sys.argv[1:] == ["--record"]:
        record()
    if sys.argv[1:] == ["--check"]:
        current = TARGET.read_text(encoding="utf-8") == page()
        sys.exit(0 if current else f"{TARGET} is out of date: run this script without --check")
    TARGET.write_text(page(), encoding="utf-8")
