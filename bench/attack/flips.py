"""Bits that turn in what recbench keeps: noticed, or without effect on any number.

One bit, or a few, of one file: of a results folder, a prepared dataset, a raw file, a saved model.
Everything that is read of it is then compared with what it was.
"""

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from bench.attack import mischief
from bench.attack.suite import SECONDS, Said, Verdict, command, sentence_of
from recbench.data.fetch.http import Policy

SHOWN = (
    ("show", "--json", "out"), ("show", "--trials", "--format", "csv", "out"),
    ("compare", "-o", "out", "--json", "ease", "popularity"),
)  # fmt: skip


class Attack:
    """One file with some bits turned."""

    patience = SECONDS

    def set_up(self, folder: Path) -> None:
        """Make every kind of file, and note what is read of it."""
        Policy.pause = lambda *_: None  # type: ignore[method-assign]  # nobody will answer later
        self.folder = folder
        mischief.campaign(folder)
        (folder / "whole").rename(folder / "out")
        mischief.models(folder / "models")
        mischief.fetched(folder)
        self.files: dict[Path, list[Callable[[], Said]]] = {}
        for place, ways in {
            "out": [*[_results] * 6, *(lambda words=words: command(*words) for words in SHOWN)],
            "home/prepared": [_prepared], "home/raw": [_raw],
            **{f"models/{kind}": [lambda kind=kind: _model(kind)] for kind in mischief.MODELS},
        }.items():  # fmt: skip
            for path in sorted((folder / place).rglob("*")):
                if path.is_file() and path.stat().st_size and not path.name.startswith("."):
                    self.files[path] = ways
        self.whole = {path: path.read_bytes() for path in self.files}
        self.right = {way: way() for ways in self.files.values() for way in ways}
        for said in self.right.values():
            assert said.verdict("").word == "answer", said

    def attempt(self, dice: random.Random) -> Verdict:
        """Turn bits of one file, read it, and turn them back."""
        path = dice.choice(list(self.files))
        way = dice.choice(self.files[path])
        changed = bytearray(self.whole[path])
        for _ in range(dice.choice([1, 1, 1, 2, 8])):
            changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
        path.write_bytes(changed)
        try:
            said = way()
        finally:
            self._restore(path)
        verdict = said.verdict(str(path.relative_to(self.folder)), self.right[way].out)
        noted = "is damaged" in said.out  # a note below a table
        return Verdict("told") if verdict.word == "wrong" and noted else verdict

    def _restore(self, path: Path) -> None:
        """Put back a file, and a dataset that was prepared again, or not any more."""
        prepared = [other for other in self.files if "prepared" in other.parts]
        for kept in (path, *prepared):
            kept.write_bytes(self.whole[kept])


def _results() -> Said:
    """Every number of a results folder, with what is said about it."""
    from recbench.campaign import traces
    from recbench.campaign.folder import TABLE, open_results

    said = list[str]()

    def everything() -> object:
        campaign = open_results(Path("out"), said.append)
        rows = campaign.rows()
        values = {key: campaign.per_user(row).to_dict("list") for key, row in rows.items()}
        for row in rows.values():
            path = traces.path_of(campaign.folder, row.trial)
            if path.exists():
                campaign.content(row, path)
                values[row.trial, "trace"] = traces.read(path)
        table = (campaign.folder / TABLE).read_text(encoding="utf-8", errors="replace")
        return rows, values, campaign.manifest(), table

    answer = sentence_of(everything)
    return replace(answer, err=answer.err + "\n".join(said))


def _prepared() -> Said:
    """The interactions of a prepared dataset."""
    return command("export", "toy", "-o", "exported", "--to", "csv")


def _raw() -> Said:
    """A dataset prepared again from its raw file."""
    return command("fetch", "--force", "toy")


def _model(kind: str) -> Said:
    """What a saved model recommends."""
    from recbench.models.save import load

    return sentence_of(lambda: load(Path("models") / kind).recommend([1, 2], 15))
