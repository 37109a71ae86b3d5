"""Damaged files for every reader: each must be read, or refused with one DataError.

Faithful files are damaged (bits turned, ends cut, pieces moved, numbers made huge, lines made long)
and read with a limit on memory.
"""

import importlib
import random
import resource
from pathlib import Path

import raw

from bench.attack.suite import LONGEST_SENTENCE, SECONDS, Verdict, sentence_of
from recbench.data.readers.archive import Limits

LIMITS = Limits(max_bytes=1 << 28, max_line=1 << 20)
MEGABYTES = 1024
"""What readings may take beyond what the process has before they start."""


class Attack:
    """A damaged file of one of the layouts."""

    patience = SECONDS

    def set_up(self, folder: Path) -> None:
        """Read the faithful files, which compiles everything; from then on memory is limited."""
        self.folder = folder
        for name, sample in raw.SAMPLES.items():
            (folder / name).mkdir()
            said = self._read(sample, sample.write(folder / name))
            assert said.verdict("").word == "answer", f"{name}: {said}"
        size = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0])
        most = size * resource.getpagesize() + (MEGABYTES << 20)
        resource.setrlimit(resource.RLIMIT_AS, (most, most))

    def attempt(self, dice: random.Random) -> Verdict:
        """Damage the files of a layout, and read them."""
        name = dice.choice(sorted(raw.SAMPLES))
        sample = raw.SAMPLES[name]
        said = self._read(sample, raw.put(sample.damaged(dice), self.folder / name))
        verdict = said.verdict(name)
        if verdict.word == "answer" and said.out == "0":
            return Verdict("wrong", f"{name}: no rows, and not a word")
        plain = "\n" not in said.err and len(said.err) < LONGEST_SENTENCE and said.err.isprintable()
        return verdict if plain else Verdict("wrong", f"{name}: {said.err!r}")

    def _read(self, sample: raw.Sample, paths: list[Path]):
        module = importlib.import_module(f"recbench.data.readers.{sample.reader.replace('-', '_')}")
        return sentence_of(lambda: len(module.read(paths, sample.options, LIMITS)))
