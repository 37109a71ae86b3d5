"""What every reader must do, whoever wrote it: `recbench check-plugin NAME --data FILE`."""

import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from recbench.data.fetch.cache import digest_file
from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS
from recbench.errors import RecbenchError, UsageError, of_kind, reason_of
from recbench.registry import CheckResult, Contract

Reader = Callable[..., Interactions]
CUTS = (0, 1, 3, 10)
"""Bytes that are left of a file that was cut, beside all but the last."""
INSTEAD = "return TableBuilder().finish(...), or Interactions(table)"


@dataclass(frozen=True)
class Case:
    """A reader, and files that it can read."""

    read: Reader
    paths: Sequence[Path]
    options: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, paths: Sequence[Path] = ()) -> Interactions:
        """What it reads, as a run takes it."""
        given = self.read([*(paths or self.paths)], dict(self.options), LIMITS)
        return of_kind(given, Interactions, self.read, "the reader", INSTEAD)

    def refuses(self, paths: Sequence[Path]) -> str:
        """What it raises instead of an error of recbench, if files are not as they should be."""
        try:
            self.rows(paths)
        except RecbenchError:
            return ""
        except Exception as error:  # noqa: BLE001 - what a plugin raises is for its author
            return reason_of(error)
        return ""


CONTRACT: Contract[Case] = Contract()


def check_reader(
    read: Reader, paths: Sequence[Path | str], options: Mapping[str, Any] | None = None
) -> Iterator[CheckResult]:
    """Put a reader through every check, on files in the layout that it is for."""
    return CONTRACT.check(Case(read, [*map(Path, paths)], options or {}))


@CONTRACT.rule
def _rows(case: Case) -> None:
    """Rows of users and items, at least one."""
    assert len(case.rows()), f"no rows in {', '.join(map(str, case.paths))}"


@CONTRACT.rule
def _same(case: Case) -> None:
    """The same files give the same rows, and are left alone."""
    before = [digest_file(path, ["sha256"]) for path in case.paths]
    first, second = case.rows(), case.rows()
    assert first.table.equals(second.table), "read twice, they give other rows"
    now = [digest_file(path, ["sha256"]) for path in case.paths]
    assert now == before, "the files were changed"


@CONTRACT.rule
def _damaged(case: Case) -> None:
    """A file that is cut, empty or not text is read or refused in a sentence."""
    with tempfile.TemporaryDirectory() as folder:
        copies = [Path(folder) / path.name for path in case.paths]
        for path, copy in zip(case.paths, copies, strict=True):
            shutil.copyfile(path, copy)
        content = copies[0].read_bytes()
        spoilt = [content[:length] for length in CUTS] + [content[:-1]]
        middle = len(content) // 2
        spoilt += [content[:middle] + b"\xff\x00\xfe" + content[middle:], b"\x00" * 64]
        for piece in spoilt:
            copies[0].write_bytes(piece)
            raised = case.refuses(copies)
            assert not raised, (
                f"a file of {len(piece)} bytes raises {raised}; let Block.parse_error, "
                "Block.row_error or a DataError say what is wrong with it"
            )


@CONTRACT.rule
def _gone(case: Case) -> None:
    """A file that is not there is refused in a sentence, or by the system's own."""
    try:
        case.rows([case.paths[0].with_name("no such file")])
    except (RecbenchError, OSError):
        return
    raise AssertionError("it reads a file that is not there")


@CONTRACT.rule
def _options(case: Case) -> None:
    """An option that it does not know is refused."""
    strange = Case(case.read, case.paths, {**case.options, "no-such-option": "1"})
    try:
        strange.rows()
    except UsageError:
        return
    raise AssertionError(
        "`no-such-option` is taken without a word; read options by `make(Mine, options)`, where "
        "Mine is a Described dataclass"
    )
