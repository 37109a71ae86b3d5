"""Catalogues and `-c` files of strangers: odd values, nesting, aliases, bytes.

What was bent may still be a catalogue. What must not happen is a traceback, or a command that has
nothing to do with catalogues and fails.
"""

import random
from pathlib import Path

import mutations
import yaml

from bench.attack import mischief
from bench.attack.suite import SECONDS, Verdict, command

SAMPLE = {
    "toy": {
        "title": "A toy", "licence": "mine", "reader": "delimited", "split": "strong",
        "options": {
            "columns": {"user": "u", "item": "i", "value": "s"}, "delimiter": ",", "header": "yes"
        },
        "files": [{"name": "toy.csv", "path": "toy.csv", "bytes": None, "about": 10}],
        "positive": ">= 0", "dedup": True, "filters": [{"users": 2, "items": 1, "mode": "pass"}],
        "expected": {"users": 60, "items": 20, "interactions": 500, "verified": False},
        "terms": {"text": "", "accept": False, "steps": []}, "cite": "", "page": "", "notes": "",
        "limits": {"max_bytes": 1_000_000, "max_ratio": 100}, "published": [], "revision": 1,
    }
}  # fmt: skip
CONFIG = {
    "model": ["ease"], "grid": ["l2=1,10"], "search": "random", "data": "toy.csv", "user": "u",
    "item": "i", "metric": ["ndcg@10"], "quiet": True, "seed": "0", "jobs": 1, "trials": 4,
}  # fmt: skip
WORDS = (
    ("fetch", "toy"), ("list", "datasets"), ("list", "datasets", "--json"), ("info", "toy"),
    ("fetch", "--dry-run", "toy"), ("run", "-q", "-d", "toy", "-m", "popularity", "-o", "out"),
    ("info", "toy", "--bibtex"),
    ("recipe-search", "toy", "--target", "60,20,300", "--users", "2:3", "--items", "2:3"),
)  # fmt: skip
PIECES = (
    "&a ", "*a", "!!python/object:os.system x", "!!binary x", "!!set {a}", "<<: *a", "? ", "- ",
    "0x" + "f" * 6000, "[" * 60, "{" * 60, "2026-99-99", "0x", "1_0", "1:60", ".inf", ".nan", "0o8",
    "~", "%TAG ! x", "---\n", "...\n", "\t", "|\n", ">\n", "\x85", "\ufeff", "'", '"', '"\\ud800"',
    '"\\x00"',
)  # fmt: skip


class Attack:
    """One file of YAML."""

    patience = SECONDS

    def set_up(self, folder: Path) -> None:
        """Make the data that the sample is about."""
        import toys

        self.folder = folder
        lines = toys.csv_of(toys.two_tastes(60, 20)).splitlines()
        text = "\n".join([lines[0] + ",s", *(f"{line},5" for line in lines[1:])])
        (folder / mischief.TOY).write_text(text, encoding="utf-8")
        self._write("datasets.yaml", yaml.safe_dump(SAMPLE).encode())
        done = command("fetch", "toy")
        assert done.code == 0, done

    def attempt(self, dice: random.Random) -> Verdict:
        """Have a bent file read."""
        if dice.random() < 0.75:
            said = self._spoil(dice, "datasets.yaml", SAMPLE)
            words = dice.choice(WORDS)
            return command(*words).verdict(f"{said}; {' '.join(words)}")
        (self.folder / "datasets.yaml").unlink(missing_ok=True)
        said = self._spoil(dice, "c.yaml", CONFIG)
        return command("run", "-c", "c.yaml", "-o", "out").verdict(f"-c {said}")

    def _spoil(self, dice: random.Random, name: str, sample: object) -> str:
        act, said = dice.random(), ""
        document = sample
        if act < 0.7:
            document, said = mischief.bent(dice, sample)
        try:
            text = yaml.safe_dump(document, allow_unicode=dice.random() < 0.5).encode(
                "utf-8", "surrogatepass"
            )
        except ValueError:  # numbers that are longer than Python writes
            text, said = b"toy: " + b"9" * 6000, "digits"
        if act >= 0.7:
            if act < 0.85:
                text, said = mutations.mutate(dice, text), "bytes"
            else:
                at = dice.randrange(len(text))
                piece = dice.choice(PIECES)
                text, said = text[:at] + piece.encode("utf-8", "surrogatepass") + text[at:], piece
        self._write(name, text)
        return f"{name} {said}"

    def _write(self, name: str, text: bytes) -> None:
        (self.folder / name).write_bytes(text)
