"""Audit a large release of sums: decided by a theorem, after a check that the theorem applies.

Sums of one masked finest table tell no more than the masked table itself. In the masked table, every small cell may
truly be the 0 or K that it shows. So no attack is needed. The audit checks the folder instead: its files are those of
the manifest, no count lies in 1..K-1, every table is the sum of a finer one, and nothing beside the counts tells more.
This takes time in proportion to the rows, and memory for two tables.
"""

from __future__ import annotations

import time
from collections import defaultdict

import numpy as np
import polars as pl

from ilba.attack.audit import Findings, in_tables
from ilba.attack.lattice import node_of
from ilba.attack.published import POLICIES, PublishedRows, PublishedTables
from ilba.attack.verdict import AuditReport
from ilba.design.design import MASKED
from ilba.errors import InputError
from ilba.progress import Progress, ProgressStep, silent
from ilba.release import Release
from ilba.release.telling import leaks


def audit_of_sums(release: Release, progress: Progress | None = None) -> AuditReport:
    """Audit a release of sums without attacking it.

    Parameters
    ----------
    release : Release
        A release by a method that adds up masks, such as "controlled".
    progress : callable, optional
        Called with each `ProgressStep`.

    Returns
    -------
    AuditReport
        As from `audit`, without the ranges of single cells. The number of truly small cells is unknown.

    Raises
    ------
    InputError
        The release does not hold sums, or a table is not the sum of a finer one.
    """
    start, told = time.perf_counter(), release.manifest["method"]
    if told not in POLICIES or POLICIES[told].scheme != "sums":
        raise InputError(
            f"the release {str(release.path)!r} was made by {told!r}. A release is decided without an attack only "
            f"if it holds sums of one masked table. Give its store: ilba audit STORE --areas --method {told}"
        )
    _check(release, progress or silent)
    nothing = np.zeros(0, np.int64)
    nodes = [node_of(release.design, table.selection) for table in release.tables.values()]
    about = PublishedTables(
        release.code_lists(),
        POLICIES[told],
        release.design.cells,
        dict.fromkeys(nodes, PublishedRows(nothing, nothing)),
        misfits=0,
        move=release.move,
    )
    return AuditReport(
        published=about,
        tables=in_tables(about, dict.fromkeys(nodes, (0, 0, 0))),
        cells_small=None,
        cells_disclosed=0,
        cells_exact=0,
        cells_certified=None,
        cells_undecided=None,
        certificate=True,
        misfits=0,
        ranges=Findings.no_ranges(about),
        worst=[],
        seconds=time.perf_counter() - start,
        folder=tuple(leaks(release)),
    )


def _check(release: Release, tell: Progress) -> None:
    """Compare every table with the smallest published table that is finer."""
    K, done = release.design.threshold, 0
    of: dict[str | None, list[str]] = defaultdict(list)
    for name, table in release.tables.items():
        finer = [other for other in release.tables.values() if set(other.columns) > set(table.columns)]
        of[min(finer, key=lambda one: one.rows).name if finer else None].append(name)
    for finer_name, names in of.items():
        whole = None if finer_name is None else release.table(finer_name)
        for name in names:
            shown = release.table(name)
            if shown.filter(pl.col(MASKED) > 0, pl.col(MASKED) < K).height:
                raise _no_sum(release, name)
            if whole is not None:
                columns = list(release.tables[name].columns)
                both = [whole.select(*columns, MASKED), shown.select(*columns, -pl.col(MASKED))]
                summed = pl.concat([one.with_columns(pl.col(MASKED).cast(pl.Int64)) for one in both])
                if columns:
                    summed = summed.group_by(columns).agg(pl.col(MASKED).sum())
                else:
                    summed = summed.select(pl.col(MASKED).sum())
                if summed.filter(pl.col(MASKED) != 0).height:
                    raise _no_sum(release, name)
            done += 1
            tell(ProgressStep("auditing tables", done, len(release.tables)))


def _no_sum(release: Release, name: str) -> InputError:
    return InputError(
        f"the table {name!r} of the release {str(release.path)!r} holds numbers that are not sums of one masked table "
        f"with K={release.design.threshold}. Make the release again."
    )
