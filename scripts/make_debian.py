"""Make the datasets `debian` and `debian-links` from a package index: which package asks for which.

    python scripts/make_debian.py Packages.xz Release
    python scripts/make_debian.py Packages.xz Release --links
    apt-helper cat-file LISTS/…_Packages.lz4 | python scripts/make_debian.py - LISTS/…_InRelease

Packages are the users; the items are the names that stand first in each group of alternatives
of their Depends, Pre-Depends and Recommends. A name that no package carries, a virtual one, is an
item like any other: it is what the maintainer wrote. A package that asks for itself says nothing
and is left out. What remains is the iterated 5-core. The same index gives the same bytes.

`debian-links` is a graph: both ends of a link are packages, and virtual names are left out.
"""

import gzip
import hashlib
import importlib
import lzma
import re
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click
import pyarrow as pa

from recbench.data.clean import prepare
from recbench.data.dataset import Dataset
from recbench.data.interactions import Interactions
from recbench.data.recipe import Filter, Recipe
from recbench.errors import DataError, RecbenchError, UsageError

RELATIONS = ("Depends", "Pre-Depends", "Recommends")
FIELDS = ("Package", "Architecture", *RELATIONS)
CORE = 5
SIDES = ("user", "item")
NAME = re.compile(r"\s*([a-z0-9][a-z0-9+.-]*)")
"""A package name; what may follow it is `:any`, `(>= 1)`, `[amd64]`, `<!nocheck>` or `| other`."""

EMBEDDED = Path(__file__).resolve().parents[1] / "recbench" / "data" / "embedded"


def stanzas(text: str) -> Iterator[dict[str, str]]:
    """Split an index into its packages, keeping the fields that matter here."""
    for block in re.split(r"\n[ \t]*\n", text):
        fields = {}
        # A line that begins with a blank continues the one before.
        for line in re.sub(r"\n[ \t]+", " ", block).split("\n"):
            key, _, value = line.partition(":")
            if key in FIELDS:
                fields[key] = value.strip()
        if fields:
            yield fields


def first_names(relation: str) -> Iterator[str]:
    """Name the first alternative of each group: `a (>= 1) | b, c:any` gives a and c."""
    for group in filter(str.strip, relation.split(",")):
        found = NAME.match(group)
        if found is None:
            raise DataError(f"'{group.strip()}' does not begin with a package name")
        yield found[1]


def pairs(packages: Iterable[dict[str, str]]) -> Iterator[tuple[str, str]]:
    """List who asks for whom, repeats included."""
    for fields in packages:
        if "Package" not in fields:
            raise DataError("a stanza without a Package field: this is no package index")
        for relation in RELATIONS:
            for name in first_names(fields.get(relation, "")):
                if name != fields["Package"]:
                    yield fields["Package"], name


def make(index: bytes, release: str, *, links: bool = False) -> Dataset:
    """Make a dataset from an index and the release file that vouches for it."""
    digest = hashlib.sha256(index).hexdigest()
    packages = list(stanzas(index.decode()))
    if not packages:
        raise DataError("the index holds no packages")
    about = {
        **describe(release, digest),
        "architecture": architecture(packages),
        "packages": len(packages),
        "index_sha256": digest,
    }
    names = {fields.get("Package") for fields in packages}
    asked = [pair for pair in pairs(packages) if not links or pair[1] in names]
    columns = {
        side: pa.array([pair[n] for pair in asked], pa.string()) for n, side in enumerate(SIDES)
    }
    recipe = Recipe(filters=(Filter(CORE, CORE),), graph="directed" if links else None)
    return prepare(Interactions(pa.table(columns)), recipe, called(links), about)


def called(links: bool) -> str:
    """The name of the dataset."""
    return "debian-links" if links else "debian"


def architecture(packages: Iterable[dict[str, str]]) -> str:
    """Name what the index is for: its packages are built for that or for all."""
    names = Counter(fields.get("Architecture", "all") for fields in packages)
    return next((name for name, _ in names.most_common() if name != "all"), "all")


def describe(release: str, digest: str) -> dict[str, Any]:
    """Say which release an index belongs to, as its Release or InRelease file does."""
    if digest not in release:
        raise DataError(
            f"the release file does not list an index of SHA-256 {digest}; "
            f"give the Release or InRelease file published with it"
        )
    fields = ("Origin", "Version", "Codename", "Date")
    found = {key: re.search(rf"^{key}: (.+)$", release, re.MULTILINE) for key in fields}
    return {key.lower(): match[1].strip() for key, match in found.items() if match}


def unpacked(path: str) -> bytes:
    """Read an index, whatever it is packed with; `-` is standard input, unpacked."""
    if path == "-":
        return sys.stdin.buffer.read()
    packed = Path(path).read_bytes()
    if path.endswith(".gz"):
        return gzip.decompress(packed)
    if path.endswith(".xz"):
        return lzma.decompress(packed)
    if path.endswith(".lz4"):
        return _unpacked_lz4(packed)
    return packed


def _unpacked_lz4(packed: bytes) -> bytes:
    try:
        lz4 = importlib.import_module("lz4.frame")  # not a dependency of the package
    except ImportError:
        raise UsageError(
            "reading .lz4 needs the package lz4; install it, or unpack the index first and "
            "give '-' for standard input"
        ) from None
    data: bytes = lz4.decompress(packed)
    return data


@click.command()
@click.argument("index", type=click.Path(exists=True, dir_okay=False, allow_dash=True))
@click.argument("release", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--links", is_flag=True, help="The graph of packages: `debian-links`.")
@click.option("--output", type=click.Path(path_type=Path), help="Default: where recbench has it.")
def main(index: str, release: Path, links: bool, output: Path | None) -> None:
    """Make the dataset `debian` from a package INDEX and the RELEASE file that lists it."""
    output = output or EMBEDDED / f"{called(links)}.parquet"
    try:
        data = make(unpacked(index), release.read_text(encoding="utf-8"), links=links)
    except RecbenchError as error:
        raise click.ClickException(str(error)) from error
    data.save(output)
    click.echo(f"{output.name}: {data.shape_text}, {output.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
