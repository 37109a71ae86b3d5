"""Links between Wikipedia pages: a page is a user, the pages it links to are its items.

The dump has them in tables: `page`, `pagelinks` (from a page to a link target), `linktarget`
(the title that stands for) and `redirect`. A target need not exist, and may be a redirect to
another page. What to make of that is left open by papers, so all of it is an option.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recbench.data.interactions import Interactions
from recbench.data.readers.archive import LIMITS, Limits, members
from recbench.data.readers.columns import TableBuilder
from recbench.data.readers.mysqldump import Batch, Dump
from recbench.data.readers.options import listed
from recbench.errors import DataError, UsageError
from recbench.linalg.types import Flags, Integers
from recbench.params import Described, make, param
from recbench.registry import READERS

NOWHERE = -1
"""The page of a target that does not exist; page ids are positive."""


@dataclass(frozen=True)
class Wikipedia(Described):
    """Options of the reader: what counts as a source, a target and a link."""

    name: ClassVar[str] = "wikipedia"

    targets: str = param(
        "pages", choices=("pages", "links"), help="items are existing pages, or all link targets"
    )
    redirect_sources: bool = param(True, help="keep links from pages that are redirects")
    resolve_redirects: bool = param(False, help="a link to a redirect is one to where it leads")
    self_links: bool = param(True, help="keep links from a page to itself")
    namespaces: str = param("main", choices=("main", "all"), help="of sources and targets")


@READERS.register("wikipedia")
def read(
    paths: Sequence[Path], options: Mapping[str, object], limits: Limits = LIMITS
) -> Interactions:
    """Read one row a link, in the order of `pagelinks`; ids are those of pages or targets."""
    settings = make(Wikipedia, options)
    if settings.resolve_redirects and settings.targets == "links":
        raise UsageError("resolve-redirects leads to pages; it needs targets=pages")
    dumps = _Dumps(paths, limits)
    pages = _load_pages(dumps, settings)
    targets = _load_targets(dumps, settings, pages)
    if settings.resolve_redirects:
        targets = _resolved(dumps, settings, pages, targets)
    builder = TableBuilder()
    for batch in dumps.batches("pagelinks", ["pl_from", "pl_from_namespace", "pl_target_id"]):
        user, item = _links(batch.numbers, settings, pages, targets)
        builder.append({"user": pa.array(user), "item": pa.array(item)})
    return builder.finish(listed(paths))


class _Dumps:
    """The tables among some files, by what the files say, not by what they are called."""

    def __init__(self, paths: Sequence[Path], limits: Limits) -> None:
        self._paths = listed(paths)
        self._limits = limits
        self._files: dict[str, Path] = {}
        for path in paths:
            for file in sorted(path.iterdir()) if path.is_dir() else [path]:
                with closing(self._open(file)) as dumps:
                    for dump in dumps:
                        if dump.table in self._files:
                            raise DataError(f"{file} holds `{dump.table}`, as another file does")
                        self._files[dump.table] = file

    def _open(self, file: Path) -> Generator[Dump, None, None]:
        with closing(members(file, self._limits, lambda _: True)) as files:
            for member in files:
                with closing(Dump(member, self._limits)) as dump:
                    yield dump

    def batches(
        self, table: str, numbers: Sequence[str], texts: Sequence[str] = ()
    ) -> Generator[Batch, None, None]:
        """Yield columns of a table, batch by batch."""
        if table not in self._files:
            there = ", ".join(sorted(self._files)) or "none"
            raise DataError(f"{self._paths}: the table `{table}` is missing; there is {there}")
        with closing(self._open(self._files[table])) as dumps:
            for dump in dumps:
                if dump.table == table:
                    yield from dump.batches(numbers, texts)


@dataclass(frozen=True)
class _Pages:
    """Pages by ascending id."""

    ids: Integers
    is_redirect: Flags
    titles: pa.Array


@dataclass(frozen=True)
class _Targets:
    """Link targets by ascending id, and the id of the page each one is, or NOWHERE."""

    ids: Integers
    page: Integers


def _load_pages(dumps: _Dumps, settings: Wikipedia) -> _Pages:
    ids, redirects, titles = [], [], []
    columns = ["page_id", "page_namespace", "page_is_redirect"]
    for batch in dumps.batches("page", columns, ["page_title"]):
        mask, keys = _in_namespaces(batch, "page_namespace", "page_title", settings)
        ids.append(batch.numbers["page_id"][mask])
        redirects.append(batch.numbers["page_is_redirect"][mask] == 1)
        titles.append(keys)
    if not any(map(len, ids)):
        raise DataError("the table `page` has no pages of the namespaces asked for")
    joined = np.concatenate(ids)
    order = np.argsort(joined, kind="stable")
    text = pa.concat_arrays(titles).take(pa.array(order))
    return _Pages(joined[order], np.concatenate(redirects)[order], text)


def _load_targets(dumps: _Dumps, settings: Wikipedia, pages: _Pages) -> _Targets:
    ids, page = [], []
    for batch in dumps.batches("linktarget", ["lt_id", "lt_namespace"], ["lt_title"]):
        mask, keys = _in_namespaces(batch, "lt_namespace", "lt_title", settings)
        ids.append(batch.numbers["lt_id"][mask])
        page.append(_pages_titled(keys, pages))
    if not any(map(len, ids)):
        raise DataError("the table `linktarget` has no targets of the namespaces asked for")
    joined = np.concatenate(ids)
    order = np.argsort(joined, kind="stable")
    return _Targets(joined[order], np.concatenate(page)[order])


def _resolved(dumps: _Dumps, settings: Wikipedia, pages: _Pages, targets: _Targets) -> _Targets:
    """Replace pages that are redirects by where they lead, one step, as the wiki itself does."""
    page = targets.page.copy()
    texts = ["rd_title", "rd_interwiki"]
    for batch in dumps.batches("redirect", ["rd_from", "rd_namespace"], texts):
        mask, keys = _in_namespaces(batch, "rd_namespace", "rd_title", settings)
        to = np.full(len(mask), NOWHERE)
        to[mask] = _pages_titled(keys, pages)
        elsewhere = pc.not_equal(batch.texts["rd_interwiki"], "").to_numpy(zero_copy_only=False)
        to[elsewhere] = NOWHERE
        origin = batch.numbers["rd_from"]
        order = np.argsort(origin, kind="stable")
        at = _positions(origin[order], targets.page)
        is_redirect = at >= 0
        page[is_redirect] = to[order][at[is_redirect]]
    return _Targets(targets.ids, page)


def _links(
    columns: Mapping[str, Integers], settings: Wikipedia, pages: _Pages, targets: _Targets
) -> tuple[Integers, Integers]:
    """Return the sources and the targets of the links that count."""
    source, target = columns["pl_from"], columns["pl_target_id"]
    source_at, target_at = _positions(pages.ids, source), _positions(targets.ids, target)
    page = targets.page[target_at]
    mask = (source_at >= 0) & (target_at >= 0)
    if settings.namespaces == "main":
        mask &= columns["pl_from_namespace"] == 0
    if not settings.redirect_sources:
        mask &= ~pages.is_redirect[source_at]
    if settings.targets == "pages":
        mask &= page != NOWHERE
    if not settings.self_links:
        mask &= page != source
    item = page if settings.targets == "pages" else target
    return source[mask], item[mask]


def _in_namespaces(
    batch: Batch, space: str, title: str, settings: Wikipedia
) -> tuple[Flags, pa.Array]:
    """Return which rows count, and for those the text that names a page uniquely."""
    spaces, titles = batch.numbers[space], batch.texts[title]
    if settings.namespaces == "main":
        mask = spaces == 0
        return mask, titles.filter(pa.array(mask))
    names = pa.array(spaces).cast(pa.string())
    return np.ones(len(spaces), dtype=bool), pc.binary_join_element_wise(names, titles, ":")


def _pages_titled(keys: pa.Array, pages: _Pages) -> Integers:
    at = pc.index_in(keys, value_set=pages.titles).fill_null(NOWHERE).to_numpy()
    return np.where(at >= 0, pages.ids[at], NOWHERE)


def _positions(ascending: Integers, wanted: Integers) -> Integers:
    """Where each wanted id stands; -1 if it does not."""
    if not len(ascending):
        return np.full(len(wanted), -1)
    at = np.searchsorted(ascending, wanted)
    at[at == len(ascending)] = 0
    return np.where(ascending[at] == wanted, at, -1)
