"""The audit: what anybody can prove from all released tables together, checked before the release.

The audit is sound, not complete. A disclosed cell can be proven to lie in 1..K-1. A certified cell cannot: another
truth was found in which the cell is not small and everything published is the same. All other small cells are
undecided.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeAlias, overload

import numpy as np
import numpy.typing as npt
import polars as pl

from ilba.attack.bounds import Attack, Portion, Proven
from ilba.attack.deciding import decide
from ilba.attack.explanations import explain
from ilba.attack.fewcells import Decided
from ilba.attack.field import OTHER_STORE, MethodTables
from ilba.attack.joint_verdict import JointReport
from ilba.attack.lattice import Node, table_of
from ilba.attack.published import POLICIES, PublishedRows, PublishedTables
from ilba.attack.together import audit_together
from ilba.attack.verdict import AuditReport
from ilba.cells.codes import CodeLists
from ilba.design.design import MASKED, Level, Names, Selection, columns_named
from ilba.design.tables import Tables, wanted_tables
from ilba.errors import IlbaError, InputError, suggesting
from ilba.methods.controlled.search import Chosen
from ilba.methods.method import Method
from ilba.progress import Progress
from ilba.release import INSIDE, Release, tell_other_numbers
from ilba.release.telling import leaks
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

IntArray: TypeAlias = npt.NDArray[np.int64]
_Listed: TypeAlias = tuple[Node, IntArray, IntArray, IntArray, IntArray]  # a table; cells, their ranks, low and high

COMPLETE = 2**21
"""`ranges` lists every cell of a grid up to this size"""
MOST_WORST = 1000
"""the largest number of disclosed cells that are explained"""
LISTED = 100_000
"""the largest number of undecided cells that a report lists; it counts all of them"""

_SHARES = ("within_half_K", "over_bound", "provable", "exact")

BUDGET = 20_000_000
"""the most cells, over all tables, that are audited before a release by iLBA; more would take minutes"""


def cells_to_attack(codes: CodeLists, wanted: Sequence[Selection]) -> int:
    """The number of cells of all these grids together: the cost of an audit."""
    return sum(math.prod(place.size for place in codes.cell_index(table).places) for table in wanted)


@overload
def audit(  # type: ignore[overload-overlap]  # a path is also a sequence of letters
    finest: AnyFinestTable | Release | PublishedTables | str | os.PathLike[str],
    method: Method | str | None = None,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    explanations: int = 10,
    progress: Progress | None = None,
    store: AnyFinestTable | None = None,
    *,
    solver_seconds: float = 0.0,
    brief: bool = False,
    areas: bool | Sequence[object] = False,
) -> AuditReport: ...


@overload
def audit(
    finest: Sequence[Release | FinestTable | str | os.PathLike[str]],
    *,
    explanations: int = 10,
    progress: Progress | None = None,
    stores: Sequence[FinestTable | str | os.PathLike[str]] = (),
    unchanged: bool = False,
    changed: int | None = None,
    rename: Mapping[str, str] | None = None,
    regroup: Mapping[str, Any] | None = None,
) -> JointReport: ...


@suggesting
def audit(
    finest: AnyFinestTable
    | Release
    | PublishedTables
    | str
    | os.PathLike[str]
    | Sequence[Release | FinestTable | str | os.PathLike[str]],
    method: Method | str | None = None,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    explanations: int = 10,
    progress: Progress | None = None,
    store: AnyFinestTable | None = None,
    stores: Sequence[FinestTable | str | os.PathLike[str]] = (),
    unchanged: bool = False,
    rename: Mapping[str, str] | None = None,
    regroup: Mapping[str, Any] | None = None,
    solver_seconds: float = 0.0,
    changed: int | None = None,
    brief: bool = False,
    areas: bool | Sequence[object] = False,
) -> AuditReport | JointReport:
    """Find out what anybody could prove from these tables if they were released together.

    Parameters
    ----------
    finest : FinestTable, Release, PublishedTables or list
        A finest table, in memory or on Spark; `PublishedTables` made from public tables alone; or a release. The
        releases, or paths of releases, in a list are audited together. A finest table in the list stands for all its
        tables.
    method : Method or str, optional
        How the tables are made. By default, as this finest table or release makes them: a store by iLBA, also after a
        release by another method. A notice says so then; `finest.published()` has the published masks. "ilba" is iLBA
        as this package publishes it. "controlled" and "sca-sums" are sums of the masked finest table. For comparison
        there are "r-file" (the R package's files: observed rows, with flags), "r-rows" (the same without flags) and
        "sca-aggregates" (SCA drawn anew for each aggregate). Any method of `ilba.methods` can also be named:
        "cell-key:D=5,V=3", "rounding:3". Give your own method as an object, also for a release that it made.
    tables : str or iterable of str, default "all"
        "all", restricted by `levels`, `keys` and `max_keys`; or names of tables such as "LA3.gender", or selections.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. By default, all levels, including 0.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. By default, all keys.
    max_keys : int, optional
        The largest number of keys in a table. By default, any number.
    explanations : int, default 10
        The number of disclosed cells to explain.
    progress : callable, optional
        Called with each `ProgressStep`: how many parts of the release are done, and how many there are.
    store : FinestTable or SparkFinestTable, optional
        With a release: the store it was made from, which tells how many cells are truly small. Without it, the
        published code lists are assumed to be complete, except of columns that no table shows.
    stores : sequence of FinestTable or path, default ()
        With a list: stores of the same people, or their paths. They tell which codes exist, how columns nest and how
        many cells are truly small. Their masks are not used.
    unchanged : bool, default False
        With a list: audit releases of different waves as one, assuming that no count changed. Otherwise each wave is
        audited by itself.
    rename : dict of str to str, optional
        With a list: maps a column name of one release to its name in the others.
    regroup : dict, optional
        With a list: for a column, the coarser label of each finer one, as a mapping or a csv file with two columns. If
        the coarser column has another name, `rename` says which column it was made from.
    solver_seconds : float, default 0
        With one release by iLBA and its store: how long to ask an exact solver about cells that propagation leaves
        open, in seconds of processor time. It needs the extra `solver`. It proves much more when the finest table is
        not released.
    changed : int, optional
        With a list: audit releases of different waves together, assuming that no count of a table that two of them
        share changed by more than this, for example because at most this many people came, left or moved. Releases of
        one wave, such as a wave and its correction, are compared in the same way, unless one repeats the masks of the
        other or their stores have the same counts. Then `stores` has one for each release, in the same order.
    brief : bool, default False
        With one release: if small counts are proven, do not look for counterexamples for the others. The verdict is
        then clear, and `cells_certified` and `cells_undecided` are None.
    areas : bool or sequence of labels, default False
        Attack one top-level area of the first hierarchy at a time, with the tables of the whole as shared bounds. Use
        it for a finest table that is larger than memory; it may be on Spark, or the path of a store. `ranges` then
        holds the cells of the areas that are named here, and no cell if this is True. No counterexamples are searched.
        A release of sums, such as "controlled" makes, is decided by the theorem, after a check that its tables are
        sums and that its folder tells nothing more.

    Returns
    -------
    AuditReport or JointReport
        What is proven, what is certified and what is left open. A list gives a `JointReport`. Confidential.

    Raises
    ------
    InputError
        The tables are too many or too large for the audit, the release was not made from `store`, or it is not known
        how the columns and labels of several releases correspond.

    Examples
    --------
    >>> import polars as pl
    >>> counts = pl.DataFrame({"town": ["a", "a"], "sex": [1, 2], "N": [2, 3], "N_masked": [0, 0]})
    >>> report = audit(FinestTable.from_counts(counts, hkey=["town"]))
    >>> report.cells_small, report.cells_disclosed, report.cells_exact
    (2, 2, 0)
    """
    if isinstance(finest, Sequence) and not isinstance(finest, str):
        if method is not None or store is not None or tables != "all" or (levels, keys, max_keys) != (None, None, None):
            raise InputError(
                "several releases are audited as they are: leave out method and the choice of tables, and give their "
                "stores as stores=[...]."
            )
        return audit_together(
            finest,
            stores,
            unchanged=unchanged,
            changed=changed,
            rename=rename,
            regroup=regroup,
            explanations=explanations,
            progress=progress,
        )
    if stores or unchanged or changed is not None or rename or regroup:
        raise InputError(
            "stores, unchanged, changed, rename and regroup go with a list of releases. One release takes store=."
        )
    tell_if_unpublished(finest, method)
    if areas:
        return _by_areas(
            finest, method, (tables, levels, keys, max_keys), (store, solver_seconds), explanations, progress, areas
        )
    start = time.perf_counter()
    folder: tuple[str, ...] | None = None
    if isinstance(finest, Release):
        published = released(finest, store, method)
        folder = tuple(leaks(finest))
    elif isinstance(finest, PublishedTables):
        published = finest
    elif isinstance(finest, AnyFinestTable):
        wanted = wanted_tables(finest.design, tables, levels, keys, max_keys)
        published = tables_by(method or finest.by or finest.method, finest, wanted)
    else:
        raise not_opened("audit", finest)
    attack = Attack(published).run(progress)
    found = Findings(attack)
    misfits = published.misfits
    if misfits is None and published.split:
        misfits = sum(attack.misfits.values())
    certificate = published.policy.scheme == "sums" or misfits == 0
    certified = undecided = None
    if found.small is not None:
        if certificate:
            found.all_safe()
        elif not (brief and found.anything):
            decided = decide(attack, solver_seconds, found.proven)
            if decided is not None:
                found.add(decided)
        certified = found.certified
        undecided = None if certified is None else found.small - found.disclosed - certified
    return AuditReport(
        published=published,
        tables=found.tables,
        cells_small=found.small,
        cells_disclosed=found.disclosed,
        cells_exact=found.exact,
        cells_certified=certified,
        cells_undecided=undecided,
        certificate=certificate,
        misfits=misfits,
        ranges=found.ranges,
        worst=explain(published, found.worst or found.worst_aggregates(), explanations) if explanations else [],
        seconds=time.perf_counter() - start,
        folder=folder,
        why=found.why(aggregates=False),
        undecided=found.undecided(),
        why_aggregates=found.why(aggregates=True),
        undecided_aggregates=found.undecided_aggregates(),
        disclosed_aggregates=found.disclosed_aggregates(),
    )


def tell_if_unpublished(finest: Any, method: Method | str | None) -> None:
    """Give a notice if no method is named and the ledger at hand has these people published by another one."""
    if method is None and isinstance(finest, AnyFinestTable):
        with suppress(IlbaError):  # no secret or ledger that can be read: nothing to tell
            tell_other_numbers(finest, INSIDE)


def _by_areas(
    finest: Any,
    method: Method | str | None,
    chosen: Any,
    others: Any,
    explanations: int,
    progress: Progress | None,
    areas: bool | Sequence[object],
) -> AuditReport:
    # Both modules import this one.
    from ilba.attack.areas import audit_by_areas
    from ilba.attack.summed import audit_of_sums

    if isinstance(method, Method):
        raise InputError("areas=True takes the name of a method of the audit itself, such as 'ilba'.")
    if any(others):
        raise InputError("areas=True takes no store= and no solver_seconds=: give the finest table or its path alone.")
    if method is not None and not isinstance(method, str):
        raise InputError(f"areas=True takes the method by its name, such as 'ilba', not a {type(method).__name__}.")
    listed = () if isinstance(areas, bool) else [areas] if isinstance(areas, str) else list(areas)
    if isinstance(finest, Release):
        if listed:
            raise InputError("a release has no ranges of areas: name them with the finest table or its path.")
        if method is not None or chosen != ("all", None, None, None):
            raise InputError("a release is audited as it is: leave out method and the choice of tables.")
        _refuse_sums(finest)
        return audit_of_sums(finest, progress)
    if not isinstance(finest, (AnyFinestTable, str, os.PathLike)):
        raise InputError(
            f"areas=True takes a finest table, the path of a store, or a release, not a {type(finest).__name__}."
        )
    return audit_by_areas(
        finest, method, lambda codes: wanted_tables(codes.design, *chosen), explanations, progress, listed=listed
    )


def not_opened(function: str, given: object) -> InputError:
    """The error of a function that takes tables, for a path or anything else."""
    told = f"{function}() takes a finest table, a release or PublishedTables, not a {type(given).__name__}."
    if isinstance(given, (str, os.PathLike)):
        told += f" Open it: ilba.Release({os.fspath(given)!r}), or ilba.open_store(...) for a store."
    return InputError(told)


def tables_by(method: Method | str, finest: AnyFinestTable, wanted: Sequence[Selection]) -> PublishedTables:
    """The tables of a finest table as a method shows them: one of the audit's own methods, or any other."""
    if isinstance(method, str) and method in POLICIES:
        return PublishedTables.of(finest, method, wanted)
    if finest.by is not None and method in (finest.by, finest.by.name):
        return MethodTables.published_by(finest, wanted)
    from ilba.methods.lab import method_of  # imports all methods, so only when needed

    asked = method_of(method)
    if asked.policy is not None:
        return PublishedTables.of(finest, asked.policy, wanted)
    return MethodTables.as_released(asked, finest, wanted)


def by_field(method: Method | str) -> Method | None:
    """A method of the field, which draws by itself; None for the methods of this package."""
    if isinstance(method, str) and method in POLICIES:
        return None
    from ilba.methods.lab import method_of  # imports all methods, so only when needed

    asked = method_of(method)
    return asked if asked.policy is None else None


def in_percent(rows: pl.DataFrame, shares: Sequence[str] = _SHARES) -> pl.DataFrame:
    """The rows of `what_if` or `compare` for display: shares in percent, with % in the column names.

    >>> in_percent(pl.DataFrame({"method": ["ilba"], "provable": [0.25]})).rows(named=True)
    [{'method': 'ilba', 'provable %': 25.0}]
    """
    return rows.select((pl.col(c) * 100).alias(f"{c} %") if c in shares else pl.col(c) for c in rows.columns)


def losses(shown: PublishedTables) -> npt.NDArray[np.int64]:
    """Compute how far each released count is from the truth (confidential).

    Parameters
    ----------
    shown : PublishedTables
        Tables made from a store, so that the truth is known.

    Returns
    -------
    array of int
        The absolute loss of each published count, over all tables.

    Raises
    ------
    InputError
        The tables were made from public frames alone.
    """
    found = []
    for node, rows in shown.tables.items():
        if rows.truth is None:
            raise InputError("the loss of public tables is not known without the store that they were made from.")
        loss = np.abs(rows.value.astype(np.int64) - rows.truth.sum_small - rows.truth.sum_large)
        blank = shown.shown[node].blank if isinstance(shown, MethodTables) else None
        found.append(loss if blank is None else loss[~blank])
    return np.concatenate(found)


def _refuse_sums(release: Release) -> None:
    """Refuse a release of sums of another release, which is decided with that one alone."""
    if release.manifest.get("sums", False):
        raise InputError(
            f"the release {str(release.path)!r} holds sums of the published counts of a finer table, and tells "
            f"nothing more than those. Audit the finer release, or both together: ilba audit FINER {release.path}"
        )


def released(release: Release, store: AnyFinestTable | None, method: Method | str | None = None) -> PublishedTables:
    """The published tables of a release. Given a store, check that the release was made from it."""
    _refuse_sums(release)
    frames: dict[str | Selection, pl.DataFrame] = {name: release.table(name) for name in release.tables}
    if store is None:
        told = release.manifest["method"]
        if told in POLICIES:
            return PublishedTables.from_frames(release.code_lists(), frames, told, release.move)
        return MethodTables.from_release(_method_of(release, _given(method)), release.code_lists(), frames)
    if not isinstance(store, AnyFinestTable):
        raise InputError(f"store={store!r} is not a finest table. Open it: store=ilba.open_store({str(store)!r})")
    store = store_of(release, store, method)
    if store.by is not None and store.by.timed:  # made again, it may leave other blanks
        return MethodTables.from_release(store.by, store.codes, frames).with_truth(store)
    published = tables_by(store.by or store.method, store, wanted_tables(store.design, list(release.tables)))
    named = {columns_named(name): frames[name] for name in release.tables}  # the store may have another order of keys
    for node, rows in published.tables.items():
        selection = table_of(store.design, node)
        labels = store.codes.labels(store.codes.cell_index(selection), [rows.packed])
        ours = pl.DataFrame([*labels, pl.Series(MASKED, rows.value)])
        theirs = named[columns_named(selection.name)].select(ours.columns)
        if isinstance(published, MethodTables):
            shown = published.shown[node]
            if published.method.fills and labels:  # empty cells have no rows here
                theirs = theirs.join(ours.select(labels), on=list(selection.columns), how="semi", nulls_equal=True)
            if shown.blank is not None:
                ours, theirs = ours.filter(~pl.Series(shown.blank)), theirs.drop_nulls(MASKED)
        if not _shown(theirs).equals(_shown(ours)):
            raise InputError(_differs(release, store, selection.name))
    return published


def store_of(
    release: Release,
    store: AnyFinestTable,
    method: Method | str | None = None,
    secret: Secret | str | os.PathLike[str] | None = None,
) -> AnyFinestTable:
    """The store of a release as it was published: with the published masks, or with the method of the release."""
    if release.manifest["method"] in POLICIES:
        return _as_released(release, store) if secret is None else store.published(secret=secret)
    if store.by is not None:
        return store
    asked = _method_of(release, _given(method))
    return (store if asked.keyed else store.collect()).with_method(asked, secret)


def _as_released(release: Release, store: AnyFinestTable) -> AnyFinestTable:
    """The store with the masks that were chosen for a release: from the release itself, or from the ledger.

    A store keeps the masks that were drawn when it was built. If no chosen masks are found, the store is returned
    unchanged.
    """
    if release.manifest["method"] != "controlled" or store.method == "controlled":
        return store
    finest = release.design.finest.name
    if (
        isinstance(store, FinestTable)
        and finest in release.tables
        and set(release.design.columns) == set(store.design.columns)
    ):
        chosen = Chosen(tuple(release.tables), None, held=False, move=release.move)
        shown = store.with_masks_shown(release.table(finest), chosen)
        if shown is not None:
            return shown
    try:
        return store.published()
    except IlbaError:  # no secret, no ledger, or a ledger without these counts
        return store


def _differs(release: Release, store: AnyFinestTable, name: str) -> str:
    said = OTHER_STORE.format(name)
    if release.manifest["method"] != "controlled" or store.method == "controlled":
        return said
    return (
        f"{said[:-1]}, or its masks are in a ledger that was not found. With the ledger's secret: "
        f"store=finest.published(secret=PATH), ilba audit --secret PATH. No ledger has the masks of a trial "
        f"(ledger=False, --no-ledger): audit it without the store."
    )


def _given(method: Method | str | None) -> Method | None:
    """The method that was given together with a release."""
    if method is None:
        return None
    from ilba.methods.lab import method_of

    return method_of(method)


def _method_of(release: Release, given: Method | None) -> Method:
    """The method of a release, from its manifest; a method that was given must be the same."""
    name, told = release.manifest["method"], dict(release.manifest.get("parameters", {}))
    if given is not None:
        asked = json.loads(json.dumps(given.parameters))
        if (given.name, asked) != (name, told):
            made, other = (
                " ".join([way, *(f"{one}={value}" for one, value in values.items())])
                for way, values in ((name, told), (given.name, asked))
            )
            raise InputError(
                f"the release {str(release.path)!r} was made by {made!r}, not by {other!r}. Give its own method "
                f"(--method); ptable= is the checksum of a p-table."
            )
        return given
    if "ptable" in told:
        raise InputError(
            f"the release {str(release.path)!r} was made with a p-table that it does not hold. Give it: "
            f"method=ilba.methods.CellKey(ptable) (--method cell-key:ptable=FILE)."
        )
    from ilba.methods.lab import METHODS

    if name not in METHODS:
        raise InputError(
            f"the release {str(release.path)!r} was made by the method {name!r}, which is not one of ours. Give it: "
            f"ilba.audit(release, method=...)."
        )
    return METHODS[name](**told)


def _shown(table: pl.DataFrame) -> pl.DataFrame:
    """The rows of a public table that are not 0, with labels as text, so that types and order do not matter."""
    labels = [name for name in table.columns if name != MASKED]
    rows = table.filter(pl.col(MASKED) > 0).cast({**dict.fromkeys(labels, pl.String), MASKED: pl.Int64})
    return rows.sort(labels or MASKED)


class Findings:
    """The counted results of an attack."""

    def __init__(self, attack: Attack, ranges: bool = True) -> None:
        self._attack = attack
        self.published = published = attack.published
        lattice, self._base, K = published.lattice, published.lattice.base, published.K
        self.counts: dict[Node, list[int]] = {node: [0, 0, 0] for node in lattice.nodes}
        width = lattice.width(self._base)
        areas = published.codes.lists[0].size(self._base[0])
        rows = published.base
        self._complete = width * areas <= COMPLETE
        cells = np.zeros(0, dtype=np.int64)
        if ranges and (self._complete or rows is not None):
            cells = np.arange(width * areas) if self._complete or rows is None else rows.packed
        low, high = np.zeros(len(cells), np.int64), np.zeros(len(cells), np.int64)
        aggregates: dict[Node, list[IntArray]] = {}
        self._decided: Decided | None = None
        self._safe: dict[Node, int] | None = None
        none = np.zeros(0, dtype=np.int64)
        disclosed: list[tuple[IntArray, IntArray, IntArray]] = [(none, none, none)]
        for part in attack.parts():
            for node in part.own:
                found = part.proven(node, K)
                for number, more in enumerate(counted(published, part, node, self._rows(node), found)):
                    self.counts[node][number] += more
                if node != self._base:
                    aggregates.setdefault(node, []).append(found.packed)
                    continue
                disclosed.append(found[:3])
                first, last = part.rows[node[0]]
                ends = np.searchsorted(cells, [first * width, last * width])
                inside = slice(int(ends[0]), int(ends[1]))
                area, cell = np.divmod(cells[inside], width)
                low[inside], high[inside] = part.at(node, area - first, cell)
        packed, lo, hi = (np.concatenate(parts) for parts in zip(*disclosed, strict=True))
        # The worst first: the narrowest ranges, and among equal ones the smallest counts.
        order = np.lexsort((packed, hi, hi - lo))[:MOST_WORST]
        self.worst = [(self._base, *cell) for cell in zip(*(a[order].tolist() for a in (packed, lo, hi)), strict=True)]
        """the disclosed finest cells with their ranges, the worst first"""
        self.proven = {self._base: packed, **{node: np.concatenate(parts) for node, parts in aggregates.items()}}
        """the cells of each table that the attack proved small"""
        self.anything = any(map(len, self.proven.values()))
        """whether a count of any table is proven small"""
        self.disclosed, self.exact = len(packed), int((lo == hi).sum())
        self.small = self.counts[self._base][0] if rows is not None and rows.truth is not None else None
        if rows is not None and published.split and len(cells):  # the count of a large cell is public
            at = np.searchsorted(cells, rows.packed)
            large = rows.value > K
            low[at[large]] = high[at[large]] = rows.value[large]
        self.ranges = self.no_ranges(published)
        if len(cells):
            labels = published.codes.labels(published.codes.cell_index(table_of(published.design, self._base)), [cells])
            self.ranges = pl.DataFrame([*labels, pl.Series("low", low), pl.Series("high", high)])
        self._cells = cells

    @staticmethod
    def no_ranges(published: PublishedTables) -> pl.DataFrame:
        """An empty frame of ranges."""
        index = published.codes.cell_index(table_of(published.design, published.lattice.base))
        labels = published.codes.labels(index, [np.zeros(0, dtype=np.int64)] * max(len(index.words), 1))
        return pl.DataFrame([*labels, pl.Series("low", [], pl.Int64), pl.Series("high", [], pl.Int64)])

    def undecided(self) -> pl.DataFrame:
        """The labels of the undecided small cells, the most suspicious first."""
        if self._decided is None:
            return pl.DataFrame()
        ((_, cells, *_),) = self._narrowest({self._base: self._decided.left(self._base)})
        return self._labels(self._base, cells)

    def undecided_aggregates(self) -> pl.DataFrame:
        """The undecided cells of coarser tables, the most suspicious first: the table, the cell in words, its range."""
        left = {} if self._decided is None else {node: self._decided.left(node) for node in self._shown}
        return self._in_words(self._narrowest(left))

    def disclosed_aggregates(self) -> pl.DataFrame:
        """The cells of coarser tables that are proven small, the narrowest ranges first, in the same form."""
        least, most = 1, self.published.K - 1  # the solver proves no more than this
        found = self._narrowest(self._disclosed)
        return self._in_words([(*one[:3], one[3].clip(least), one[4].clip(max=most)) for one in found])

    def worst_aggregates(self) -> list[tuple[Node, int, int, int]]:
        """The disclosed cells of coarser tables with their ranges, the worst first, as in `worst`."""
        found = [
            (place, (node, cell, low, high))
            for node, *columns in self._narrowest(self._disclosed)
            for cell, place, low, high in zip(*(column.tolist() for column in columns), strict=True)
        ]
        return [cell for _, cell in sorted(found)[:MOST_WORST]]

    @property
    def _disclosed(self) -> dict[Node, IntArray]:
        """The cells of coarser tables that are proven small, by the attack or by the solver, sorted."""
        found = {node: np.unique(self.proven[node]) for node in self._shown}
        if self._decided is None:
            return found
        return {node: np.union1d(own, self._decided.numbers(self._decided.proven, node)) for node, own in found.items()}

    def _in_words(self, found: Sequence[_Listed]) -> pl.DataFrame:
        """Some cells of several tables in the order of their ranks: the table, the cell in words, its range."""
        schema = {"table": pl.String, "cell": pl.String, "low": pl.Int64, "high": pl.Int64, "place": pl.Int64}
        parts = [pl.DataFrame(schema=schema)]
        for node, cells, places, low, high in found:
            labels = self._labels(node, cells)
            words = [pl.format(f"{name} {{}}", name) for name in labels.columns]
            parts.append(
                pl.DataFrame({"place": places})
                .hstack(labels)
                .select(
                    table=pl.lit(table_of(self.published.design, node).name),
                    cell=pl.concat_str(words, separator=", ") if words else pl.lit("the total"),
                    low=pl.Series(low),
                    high=pl.Series(high),
                    place="place",
                )
            )
        return pl.concat(parts).sort("place").drop("place")

    def _labels(self, node: Node, cells: IntArray) -> pl.DataFrame:
        codes = self.published.codes
        return pl.DataFrame(codes.labels(codes.cell_index(table_of(self.published.design, node)), [cells]))

    def _narrowest(self, cells: Mapping[Node, IntArray]) -> list[_Listed]:
        """Those of some cells with the narrowest proven ranges, at most `LISTED`: by table, with ranks and ranges."""
        nodes = list(cells)
        none = np.zeros(0, dtype=np.int64)
        found = [(none, none, none, none)]
        for part in self._attack.parts():
            for number in (number for number, node in enumerate(nodes) if node in part.own):
                node = nodes[number]
                width, left = self.published.lattice.width(node), cells[node]
                first, last = part.rows[node[0]]
                left = left[slice(*np.searchsorted(left, [first * width, last * width]))]
                area, cell = np.divmod(left, width)
                low, high = part.at(node, area - first, cell)
                order = np.argsort(high - low, kind="stable")[:LISTED]
                found.append((left[order], np.full(len(order), number), low[order], high[order]))
        packed, table, low, high = (np.concatenate(column).astype(np.int64) for column in zip(*found, strict=True))
        order = np.lexsort((packed, table, high - low))[:LISTED]
        packed, table, low, high = packed[order], table[order], low[order], high[order]
        places = [np.flatnonzero(table == number) for number in range(len(nodes))]
        return [(node, packed[at], at, low[at], high[at]) for node, at in zip(nodes, places, strict=True)]

    @property
    def _shown(self) -> list[Node]:
        """The released tables except the finest, coarse to fine."""
        nodes = reversed(self.published.lattice.nodes)
        return [node for node in nodes if node in self.published.tables and node != self._base]

    def why(self, aggregates: bool) -> dict[str, int]:
        """The number of undecided cells by reason: for the finest table, or for the others."""
        if self._decided is None:
            return {}
        return self._decided.why(self._shown if aggregates else [self._base])

    @property
    def certified(self) -> int | None:
        """The number of small cells with a counterexample; None if none was searched."""
        return None if self._safe is None else self._safe[self._base]

    def all_safe(self) -> None:
        """Count every small cell as certified: the masked finest table is itself a possible truth."""
        self._safe = {node: counts[0] for node, counts in self.counts.items()}

    def add(self, decided: Decided) -> None:
        """Add what the search and the solver decided."""
        self._decided = decided
        self._safe = {node: len(decided.numbers(decided.safe, node)) for node in self.counts}
        for node, counts in self.counts.items():
            counts[1] += len(decided.numbers(decided.proven, node))
        new = decided.numbers(decided.proven, self._base)
        self.disclosed += len(new)
        if len(new):
            known = pl.Series(np.isin(self._cells, new))
            least, most = pl.col("low").clip(lower_bound=1), pl.col("high").clip(upper_bound=self.published.K - 1)
            self.ranges = self.ranges.with_columns(
                low=pl.when(known).then(least).otherwise(pl.col("low")),
                high=pl.when(known).then(most).otherwise(pl.col("high")),
            )

    def _rows(self, node: Node) -> PublishedRows | None:
        return self.published.base if node == self._base else self.published.tables.get(node)

    @property
    def tables(self) -> pl.DataFrame:
        """The figures of each released table."""
        return in_tables(self.published, self.counts, self._safe)


def counted(
    published: PublishedTables, part: Portion, node: Node, rows: PublishedRows | None, found: Proven
) -> tuple[int, int, int]:
    """How many cells of some areas of a table are truly small, proven small, and proven exactly."""
    proven = len(found.packed), int((found.low == found.high).sum())
    if rows is None or rows.truth is None:
        return (0, *proven)
    inside, area, cell = published.place(node, rows, *part.rows[node[0]])
    small, large = rows.truth.sum_small[inside], rows.truth.sum_large[inside]
    true = small if published.split else small + large
    # A proof must hold for the truth. The check is cheap.
    below, above = part.at(node, area, cell)
    if (true < below).any() or (true > above).any() or found.occupied != int((below > 0).sum()):
        raise AssertionError("the attack excluded the truth. This is a mistake in ilba: please report it.")
    return (int(((small + large > 0) & (small + large < published.K)).sum()), *proven)


def in_tables(
    published: PublishedTables, counts: Mapping[Node, Sequence[int]], safe: Mapping[Node, int] | None = None
) -> pl.DataFrame:
    """For each released table: how many cells are small, proven, proven exactly, certified and undecided."""
    nodes = [node for node in reversed(published.lattice.nodes) if node in published.tables]
    chosen = [table_of(published.design, node) for node in nodes]
    small = [counts[node][0] if published.tables[node].truth else None for node in nodes]
    certified = [None if safe is None else safe[node] for node in nodes]
    open_ = [None if safe is None else counts[node][0] - counts[node][1] - safe[node] for node in nodes]
    return pl.DataFrame(
        {
            "table": [selection.name for selection in chosen],
            "level": ["+".join(selection.finest) or "all" for selection in chosen],
            "small": pl.Series(small, dtype=pl.Int64),
            "disclosed": [counts[node][1] for node in nodes],
            "exact": [counts[node][2] for node in nodes],
            "certified": pl.Series(certified, dtype=pl.Int64),
            "undecided": pl.Series(open_, dtype=pl.Int64),
        }
    )
