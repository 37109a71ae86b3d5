"""Every file that recbench writes and reads back, with values in it that it never wrote.

The documents are bent and then sealed again, so that it is not the digest that finds out. Some are
no documents at all any more.
"""

import json
import random
import shutil
from pathlib import Path

import mutations

from bench.attack import mischief
from bench.attack.suite import SECONDS, Verdict, command, fresh
from recbench.data.fetch.raw import PATIENT
from recbench.files import DIGEST, sealed

READING = (
    ("show", "out"), ("show", "--trials", "--format", "csv", "out"), ("show", "--json", "out"),
    ("show", "--format", "latex", "out"), ("compare", "-o", "out", "ease", "popularity"),
    ("report", "out"), ("list", "runs"), ("cite", "out"), (*mischief.RUN, "-o", "out"),
    (*mischief.RUN, "-o", "out", "--dry-run"),
)  # fmt: skip
RESULTS = ("trials.jsonl", "manifest.json", "metrics.csv", "traces/*", "per-user/*")


class Attack:
    """One file of a results folder, of a saved model, of tiles, or of what was fetched."""

    patience = SECONDS

    def set_up(self, folder: Path) -> None:
        """Run a campaign, save models, fetch a file."""
        self.folder = folder
        object.__setattr__(PATIENT, "sleep", lambda seconds: None)  # between tries of an address
        mischief.campaign(folder)
        (folder / "results").mkdir()
        (folder / "results" / "out").symlink_to(folder / "out")
        mischief.models(folder / "models")
        mischief.fetched(folder)
        (folder / "home").rename(folder / "whole-home")
        raw = folder / "whole-home" / "raw" / "toy"
        (raw / ".toy.csv.part").write_bytes(b"u,i\n")
        version = {"url": mischief.URL, "etag": '"1"', "modified": "", "total": 99}
        (raw / ".toy.csv.part.json").write_text(json.dumps(version), encoding="utf-8")

    def attempt(self, dice: random.Random) -> Verdict:
        """Bend one file, and have it read."""
        return dice.choice([self._results, self._results, self._results, self._model, self._raw])(
            dice
        )

    def _results(self, dice: random.Random) -> Verdict:
        out = fresh(self.folder / "out", self.folder / "whole")
        name = dice.choice(RESULTS)
        path = dice.choice(sorted(out.glob(name)))
        said = spoil(dice, path)
        words = dice.choice(READING)
        return command(*words).verdict(f"{said}; {' '.join(words[:2])}")

    def _model(self, dice: random.Random) -> Verdict:
        kind = dice.choice(mischief.MODELS)
        model = fresh(self.folder / "model", self.folder / "models" / kind)
        path = dice.choice([model / "model.json", *sorted(p for p in model.rglob("*.json"))])
        said = spoil(dice, path)
        answer = command("recommend", "--saved", "model", "--history", "1,2", "-n", "5")
        return answer.verdict(f"{kind}: {said}")

    def _raw(self, dice: random.Random) -> Verdict:
        home = fresh(self.folder / "home", self.folder / "whole-home")
        shutil.rmtree(home / "prepared")
        raw = home / "raw" / "toy"
        path = dice.choice([raw / "toy.csv.json", raw / ".toy.csv.part.json"])
        said = spoil(dice, path)
        if path.name == ".toy.csv.part.json":
            (raw / "toy.csv").unlink()
        words = dice.choice([("fetch", "toy"), ("fetch", "--dry-run", "toy"), ("list", "datasets")])
        return command(*words).verdict(f"{said}; {words[0]}")


def spoil(dice: random.Random, path: Path) -> str:
    """Damage one file; say how."""
    content, act = path.read_bytes(), dice.random()
    if path.suffix not in (".json", ".jsonl") or act < 0.2:
        path.write_bytes(mutations.mutate(dice, content))
        return f"{path.name}: bytes"
    if act < 0.27:
        path.write_text(mischief.nested(dice), encoding="utf-8")
        return f"{path.name}: deep"
    if act < 0.3:
        path.unlink()
        path.mkdir()
        return f"{path.name}: a folder"
    lines = content.decode().splitlines() if path.suffix == ".jsonl" else [content.decode()]
    which = dice.randrange(len(lines))
    document = json.loads(lines[which])
    digest = document.pop(DIGEST, None)
    changed, said = mischief.bent(dice, document)
    text = mischief.dumped(changed)
    if digest is not None and isinstance(changed, dict):
        text = sealed(text)
    lines[which] = text
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return f"{path.name}: {said}"
