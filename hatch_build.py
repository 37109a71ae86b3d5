"""Have a built recbench know the commit that it was built from.

In a working copy git is asked, when the program runs. A wheel has no git: what git says when the
wheel or the source archive is built is put into it, as `recbench/commit.json`. A wheel that is
built from a source archive takes over what is in there.
"""

import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

RECORD = "recbench/commit.json"


class RecordCommit(BuildHookInterface[Any]):
    """Adds the record to what is built, and leaves the working copy as it is."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Ask git; an editable installation needs no record, and other folders have no git."""
        root = Path(self.root)
        if version == "editable" or not (root / ".git").exists():
            return
        commit = _git(root, "rev-parse", "HEAD")
        if commit is None:
            return
        changed = bool(_git(root, "status", "--porcelain", "--untracked-files=no"))
        self._folder = tempfile.TemporaryDirectory()
        path = Path(self._folder.name) / "commit.json"
        path.write_text(json.dumps({"commit": commit, "dirty": changed}) + "\n", encoding="utf-8")
        build_data["force_include"][str(path)] = RECORD

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Remove what was made for the build."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()


def _git(root: Path, *words: str) -> str | None:
    """What git answers; nothing where it is not installed, or does not trust the folder."""
    try:
        done = subprocess.run(
            ["git", *words], cwd=root, capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
