"""Compare methods on the same tables: what each discloses, and its loss. Confidential."""

from __future__ import annotations

import os
import textwrap
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import polars as pl

from ilba import notebook
from ilba.attack.attackers import RELIES, checked
from ilba.attack.audit import audit, in_percent
from ilba.attack.field import MethodTables
from ilba.attack.lattice import table_of
from ilba.attack.published import PublishedRows, PublishedTables
from ilba.attack.risk import risk
from ilba.attack.verdict import UNSEEN
from ilba.design.design import Level, Names, Selection
from ilba.design.tables import Tables, number_of_tables, planned_tables, wanted_tables
from ilba.errors import InputError, Notice, listing, nearest, notice, suggesting
from ilba.files import replacing, writable
from ilba.methods import utility
from ilba.methods.controlled.search import mean_masks
from ilba.methods.lab import Controlled, method_of
from ilba.methods.loss import loss_summary
from ilba.methods.method import Method
from ilba.output import drawing, loss_charts
from ilba.output.pages import inline, write
from ilba.progress import Progress, ProgressStep, silent, within
from ilba.release.recognising import kept_masks
from ilba.secret.secret import Secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable

Path_: TypeAlias = str | os.PathLike[str]
SHARES = ("blank", "lost", "ranks_turned", "guessed", "likely", "provable_counts", "exact_counts")
"""shares that `in_percent` of the audit does not know"""
_INVENTED = (
    "attribute: Not measured: this looks at the cells that hold somebody, and noise puts people into the others, too."
)
_ALONE = "{}: numbers depend on which tables are published. These are of a release of {} tables alone."
_PLANNED = "{}: masks were chosen for {} tables, of which {} are measured. --plan (plan=) names fewer."
MEASURES = (
    "mean_loss", "p99_loss", "max_loss", "loss_below_K", "loss_to_99", "loss_from_100", "loss_of_totals",
    "loss_of_differences", "ranks_turned", "within_half_K", "over_bound", "bias", "adds_up", "blank", "invented",
    "lost", "provable", "exact", "provable_counts", "exact_counts", "guessed", "likely",
    "aggregates", "safe", "seconds",
)  # fmt: skip
"""the columns of every comparison; named attackers add theirs"""
CELLS = ("adds_up", "blank", "invented", "lost", "seconds")
"""columns about cells and sums"""


def check_measures(asked: Sequence[str], known: Sequence[str]) -> None:
    """Refuse a measure that a comparison does not have."""
    for name in asked:
        if name not in known:
            raise InputError(f"there is no measure {name!r}.{nearest(name, known)} They are {listing(known)}.")


def measures_of(attackers: Sequence[str]) -> list[str]:
    """The columns of a comparison with these attackers."""
    named = [one for one in attackers if one != "proof"]
    ends = {"attribute": ("groups", "people")}
    return [*MEASURES, *(f"{one}: {end}" for one in named for end in ends.get(one, ("proven", "likely")))]


@dataclass(frozen=True)
class Comparison:
    """A row per method: loss, bias, additivity, and what everybody can prove (confidential)."""

    rows: pl.DataFrame
    """shares (`within_half_K`, `over_bound`, `provable`, `exact` and others) run from 0 to 1"""
    title: str
    """what was compared, in words"""
    notes: tuple[tuple[str, str, str], ...] = ()
    """for each method its label, what it is good at and what it does not do"""
    remarks: tuple[str, ...] = ()
    """remarks on the rows: how far a search got, which method could not be used, what was sampled"""

    def in_words(self) -> pl.DataFrame:
        """Give the rows for paper and screen, with shares in percent.

        Returns
        -------
        polars.DataFrame
            A row per method.
        """
        rows = in_percent(self.rows.drop("family", strict=False))
        shares = {*SHARES, *(c for c in rows.columns if c.endswith((": proven", ": likely")))}
        return rows.select((pl.col(c) * 100).alias(f"{c} %") if c in shares else pl.col(c) for c in rows.columns)

    @suggesting
    def text(self, measures: Sequence[str] | None = None, width: int = 80) -> str:
        """Write the comparison as text: one column per method, or one line per method if measures are chosen.

        Parameters
        ----------
        measures : sequence of str, optional
            Columns of `rows`, such as "mean_loss". Left out, all of them.
        width : int, default 80
            The largest length of a line. If all measures are shown, further methods follow below.

        Returns
        -------
        str
            Lines of text. Confidential.

        Raises
        ------
        InputError
            There is no such measure.
        """
        if measures is None:
            return side_by_side(self.in_words(), width)
        check_measures(measures, [one for one in self.rows.columns if one not in ("method", "family")])
        return _lines(Comparison(self.rows.select("method", *measures), self.title).in_words())

    def to_html(self, path: Path_, lang: str = "en") -> Path:
        """Write the comparison with its chart of risk and loss: one file that only its owner can read.

        Parameters
        ----------
        path : path
            Where to write.
        lang : {"en", "ko"}, default "en"
            The language.

        Returns
        -------
        Path
            Where it was written.
        """
        rows = self.in_words()
        return write(
            writable(path),
            "comparison.html",
            lang=lang,
            title=self.title,
            relies=RELIES,
            picture=inline(drawing.svg(loss_charts.risk(self._drawn))),
            groups=[(head, *_group(rows, columns)) for head, columns in self._groups(rows.columns)],
            notes=self.notes,
            remarks=self.remarks,
        )

    @property
    def _drawn(self) -> pl.DataFrame:
        """The rows for the picture. Where no single finest cell was looked at, the counts of all tables stand there."""
        return self.rows.with_columns(pl.coalesce("provable", "provable_counts").alias("provable"))

    @staticmethod
    def _groups(columns: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
        """The columns of the page in several tables."""
        cells = [name for name in columns if name.removesuffix(" %") in CELLS]
        first = columns.index("provable %")
        learnt = [name for name in columns[first:] if name not in cells]
        named = [name for name in learnt if ": " in name]
        yield "What users lose", [name for name in columns[1:first] if name not in cells]
        yield "Cells and sums", cells
        yield "What attackers learn", [name for name in learnt if name not in named]
        if named:
            yield "What the named attackers learn", named

    def to_csv(self, path: Path_) -> Path:
        """Write the rows as csv that only its owner can read.

        Parameters
        ----------
        path : path
            Where to write.

        Returns
        -------
        Path
            Where it was written.
        """
        target = writable(path)
        with replacing(target) as temporary:
            self.rows.write_csv(temporary)
        return target

    def _repr_html_(self) -> str:
        """One column per method and one row per measure, for a notebook."""
        rows = self.in_words()
        body = ([name.replace("_", " "), *map(_shown, rows[name])] for name in rows.columns[1:])
        points = notebook.table(["method", "strong", "weak"], self.notes) if self.notes else ""
        remarks = "".join(map(notebook.note, self.remarks))
        return notebook.page("Comparison", self.title, notebook.table(["", *rows["method"]], body) + points + remarks)


@dataclass(frozen=True)
class _Candidate:
    """One row of a comparison before it is measured."""

    name: str
    family: str
    published: PublishedTables
    bias: float | None
    additive: bool
    attacked: bool
    note: tuple[str, str, str] | None = None
    remarks: tuple[str, ...] = ()


@suggesting
def compare(
    finest: AnyFinestTable,
    tables: Tables = "all",
    *,
    methods: Sequence[Method | str] | None = None,
    attackers: Sequence[Any] = ("proof",),
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    plan: Tables = "all",
    secret: Secret | Path_ | None = None,
    bound: int | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """Compare methods on the same tables, with the same attack. Nothing is released.

    Parameters
    ----------
    finest : FinestTable or SparkFinestTable
        A finest table whose masks were drawn by SCA.
    tables : str or iterable of str, default "all"
        "all", restricted by `levels`, `keys` and `max_keys`; or names of tables such as "LA3.gender", or selections.
    methods : sequence of Method or str, optional
        Methods of `ilba.methods`, such as `Rounding(5)`, or their names with parameters: "rounding:base=5",
        "cell-key:D=5,V=3,js=2". Left out, the methods of this package, each in its variants.
    attackers : sequence, default ("proof",)
        The attackers. "proof" adds and subtracts all tables. The others are those of `ilba.risk`: "outsider",
        "neighbour", "insider", "attribute", `Insider(...)`, `Register(...)`. Each adds columns that begin with its
        name. A value that cannot be measured is null.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. Left out, all levels, 0 included.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. Left out, of all keys.
    max_keys : int, optional
        At most this many keys in a table. Left out, any number.
    plan : str or iterable of str, default "all"
        With "controlled": the tables for which masks are chosen, as in `release`. By default all tables, also those
        that are not among `tables`.
    secret : Secret or path, optional
        Its secret, which chooses masks and draws as for a release. Left out, as for `FinestTable.controlled`. Methods
        that draw have the same draws on every run if it is not at hand.
    bound : int, optional
        The bound for controlled masks, and for `over_bound`. Left out, floor(K/2) + K.
    progress : callable, optional
        Called with the number of finished methods and of all methods.

    Returns
    -------
    Comparison
        A row per method. Confidential.

    Raises
    ------
    InputError
        The masks of this table were chosen jointly already, or a method is not known.
    SecretError
        The secret that drew the masks is missing, or is another one.
    """
    if finest.method != "ilba":
        raise InputError("the masks of this store were chosen jointly already. Compare from the store that was built.")
    if finest.fingerprint is None and finest.own_secret(secret) is None:
        secret = Secret.new()
        notice("drawn with a throw-away secret: the figures differ a little from run to run.")
    finest = finest.collect()
    others = [one for one in checked(attackers) if one != "proof"] if attackers else []
    wanted = wanted_tables(finest.design, tables, levels, keys, max_keys)
    planned = planned_tables(finest.design, plan, wanted)
    K, tell = finest.design.threshold, progress or silent
    given = None if methods is None else [method_of(method) for method in methods]
    if given is not None and not given:
        raise InputError("methods is empty. Name at least one, such as 'rounding:base=5'.")
    number = 6 if given is None else len(given)
    candidates = (
        _variants(finest, wanted, planned, secret, bound, progress)
        if given is None
        else _published(given, finest, wanted, planned, secret, bound, progress)
    )
    rows: list[dict[str, Any]] = []
    notes, remarks = [], []
    joint = [method.label for method in given or () if method.joint]
    if joint and len(wanted) < number_of_tables(finest.design):
        remarks.append(_ALONE.format(listing(joint), len(wanted)))
    chosen = ["controlled"] if given is None else [one.label for one in given if isinstance(one, Controlled)]
    if chosen and len(planned) > len(wanted):
        remarks.append(_PLANNED.format(listing(chosen), len(planned), len(wanted)))
    start = time.perf_counter()
    for done, one in enumerate(candidates, 1):
        if isinstance(one, InputError):
            remarks.append(str(one))
            if done == number and not rows:
                raise one
        else:
            row = {**_measured(one, K, bound, progress), **_named(one, others, remarks, progress)}
            rows.append({**row, "seconds": time.perf_counter() - start})
            notes += [one.note] if one.note else []
            remarks += [f"{one.name}: {text}" for text in one.remarks]
            remarks += [UNSEEN] if one.published.lattice.baseless else []
        tell(ProgressStep("comparing", done, number))
        start = time.perf_counter()
    return Comparison(
        pl.DataFrame(rows, infer_schema_length=None),
        f"Methods compared on {len(wanted)} tables, K={K}",
        tuple(notes),
        tuple(dict.fromkeys(remarks)),
    )


def measured_method(
    method: Method,
    finest: FinestTable,
    wanted: Sequence[Selection],
    masked: FinestTable | None = None,
    *,
    secret: Secret | Path_ | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """The row of one method in a comparison. `masked` is the table with masks that were already chosen, if any."""
    if masked is not None and method.policy is not None:
        one = _own(method.label, method.name, masked, method.policy, list(wanted))
    else:
        planned = planned_tables(finest.design, "all", list(wanted))
        (made,) = _published([method], finest, list(wanted), planned, secret, None, progress)
        if isinstance(made, InputError):
            raise made
        one = made
    return _measured(one, finest.design.threshold, None, progress)


def _variants(
    finest: FinestTable,
    wanted: list[Selection],
    planned: list[Selection],
    secret: Any,
    bound: int | None,
    progress: Progress | None,
) -> Iterator[_Candidate]:
    """The methods of this package, each in its variants."""
    observed, grid = finest.with_cells("observed"), finest.with_cells("grid")
    for name, masked, method in (
        ("sums of SCA", finest, "sca-sums"),
        ("SCA on each aggregate", finest, "sca-aggregates"),
        ("iLBA, as R writes it", observed, "r-file"),
        ("iLBA, observed cells", observed, "ilba"),
        ("iLBA, all cells of the grid", grid, "ilba"),
    ):
        yield _own(name, name, masked, method, wanted)
    chosen = _jointly(finest, planned, secret, bound, within(progress, "controlled"))
    yield _own("controlled", "controlled", chosen, "controlled", wanted)


def _jointly(
    finest: FinestTable, planned: list[Selection], secret: Any, bound: int | None, progress: Progress | None
) -> FinestTable:
    """The masks of a release by the default method: those in the ledger stay, unless a bound is tried."""
    kept = kept_masks(finest, secret) if bound is None else {}
    return finest.controlled(planned, bound, secret=secret, progress=progress, **kept)


def _published(
    methods: Sequence[Method],
    finest: FinestTable,
    wanted: list[Selection],
    planned: list[Selection],
    secret: Any,
    bound: int | None,
    progress: Progress | None,
) -> Iterator[_Candidate | InputError]:
    """The tables of each method, or its error if it cannot publish these tables."""
    for method in methods:
        note = (method.label, method.strong, method.weak)
        refused: InputError | None = None
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always", Notice)
            try:
                step = within(progress, method.label)
                if method == Controlled():
                    masked = _jointly(finest, planned, secret, bound, step)
                else:
                    masked = method.masks(finest, planned, secret, bound, step)
                if method.policy is not None:
                    one = _own(method.label, method.name, masked, method.policy, wanted, note)
                else:
                    made = MethodTables.as_released(method, masked, wanted, secret)
                    bias = _bias(made)
                    one = _Candidate(method.label, method.name, made, bias, method.additive, method.bounded, note)
            except InputError as problem:
                refused = InputError(f"{method.label}: not compared: {problem}")
        # Outside, because a caller that stops here would leave the recording of notices on.
        if refused is not None:
            yield refused
        else:
            yield replace(one, remarks=tuple(str(one.message) for one in told if issubclass(one.category, Notice)))


def _own(
    name: str,
    family: str,
    masked: FinestTable,
    method: str,
    wanted: list[Selection],
    note: tuple[str, str, str] | None = None,
) -> _Candidate:
    bias = max((abs(mean - x) for x, mean in masked.class_means().items()), default=0.0)
    additive = method in ("sca-sums", "controlled")
    return _Candidate(name, family, PublishedTables.of(masked, method, wanted), bias, additive, True, note)


def _bias(made: MethodTables) -> float | None:
    """The mean error of small counts of the finest table, over the counts that are shown."""
    base = made.tables.get(made.lattice.base)
    if base is None:
        return None
    true, value = _counts(base)
    blank = made.shown[made.lattice.base].blank
    seen = np.ones(len(true), dtype=bool) if blank is None else ~blank
    return max((abs(mean - x) for x, mean in mean_masks(true[seen], value[seen], made.K).items()), default=0.0)


def _counts(rows: PublishedRows) -> tuple[Any, Any]:
    """The true and the published counts of a table."""
    if rows.truth is None:
        raise InputError("methods are compared on tables that were made from a store.")
    true = rows.truth.sum_small.astype(np.int64) + rows.truth.sum_large
    return true, rows.value.astype(np.int64)


def _measured(one: _Candidate, K: int, bound: int | None, progress: Progress | None) -> dict[str, Any]:
    """The row of one method."""
    published = one.published
    true, value, blank, total, invented = [], [], [], [], 0
    near = []
    for node, rows in published.tables.items():
        count, shown = _counts(rows)
        hidden = np.zeros(len(count), dtype=bool)
        if isinstance(published, MethodTables):
            told = published.shown[node]
            hidden = hidden if told.blank is None else told.blank
            invented += len(told.invented)
        if node[0]:
            seen = ~hidden
            width = published.lattice.width(node)
            near.append(utility.neighbours(rows.packed[seen], width, count[seen], shown[seen]))
        true.append(count)
        value.append(shown)
        blank.append(hidden)
        total.append(np.full(len(count), sum(map(bool, node)) <= 1))
    counts, shown, hidden, totals = (np.concatenate(parts) for parts in (true, value, blank, total))
    seen = ~hidden
    loss = np.abs(shown - counts)[seen]
    summary = loss_summary([loss], K, bound)
    small, middle, large = utility.by_size(counts[seen], loss, K)
    pairs = utility.Neighbours(*map(sum, zip(*near, strict=True))) if near else utility.Neighbours(0, 0, 0, 0)
    return {
        "method": one.name,
        "family": one.family,
        "mean_loss": summary.mean,
        "p99_loss": summary.p99,
        "max_loss": summary.max,
        "loss_below_K": small,
        "loss_to_99": middle,
        "loss_from_100": large,
        "loss_of_totals": utility.mean(loss[totals[seen]]) if totals[seen].any() else None,
        "loss_of_differences": pairs.off / pairs.pairs if pairs.pairs else None,
        "ranks_turned": pairs.turned / pairs.differing if pairs.differing else None,
        "within_half_K": summary.within,
        "over_bound": summary.over,
        "bias": one.bias,
        "adds_up": one.additive,
        "blank": utility.mean(hidden),
        "invented": invented,
        "lost": utility.mean((shown == 0) & seen),
        **_risk(one, K, progress),
    }


def _risk(one: _Candidate, K: int, progress: Progress | None) -> dict[str, Any]:
    """What everybody can prove, and what a single number makes likely. Unbounded noise proves nothing."""
    published = one.published
    known = {"guessed": _alone(published, K, utility.guessed), "likely": _alone(published, K, utility.likely)}
    found = {
        "provable": 0.0,
        "exact": 0.0,
        "provable_counts": 0.0,
        "exact_counts": 0.0,
        **known,
        "aggregates": 0,
        "safe": False,
    }
    if one.attacked:
        report = audit(published, explanations=0, brief=True, progress=within(progress, one.name))
        found |= {"provable": report.share, "exact": report.share_exact, "provable_counts": report.share_of_counts}
        found |= {"exact_counts": report.share_exact_of_counts, "aggregates": report.aggregates, "safe": report.safe}
    if published.lattice.baseless:  # nobody looked at a finest cell
        found |= {"provable": None, "exact": None}
    return found


def _named(one: _Candidate, attackers: Sequence[Any], remarks: list[str], progress: Progress | None) -> dict[str, Any]:
    """What the named attackers of `ilba.risk` learn, as shares of the small cells; null if not measured."""
    found: dict[str, Any] = {}
    for attacker in attackers:
        report = risk(one.published, [attacker], examples=0, progress=within(progress, one.name))
        row = report.rows.row(0, named=True)
        if isinstance(one.published, MethodTables) or None in (row["proven"], row["likely"]):  # say why it is empty
            remarks += [f"{one.name}: {text}" for text in report.notes]
        name, small = row["attacker"], row["small"]
        if attacker == "attribute":
            seen = one.attacked
            remarks += [] if seen else [f"{one.name}: {_INVENTED}"]
            found |= {f"attribute: {what}": row[what] if seen else None for what in ("groups", "people")}
            continue
        proven, likely = row["proven"], row["likely_share"]
        found[f"{name}: proven"] = None if proven is None or not small else proven / small
        found[f"{name}: likely"] = 0.0 if row["likely"] == 0 and small else likely
    return found


def _alone(published: PublishedTables, K: int, measure: Callable[..., float]) -> float | None:
    """The share of small cells of the finest published table that have an informative number."""
    rows = published.tables.get(published.lattice.base)
    if rows is None:
        return None
    count, value = _counts(rows)
    if isinstance(published, MethodTables):
        hidden = published.shown[published.lattice.base].blank
        value = value if hidden is None else np.where(hidden, -1, value)
    grid = published.codes.cell_index(table_of(published.design, published.lattice.base)).grid
    return measure(count, value, grid - len(count), K)


def _group(rows: pl.DataFrame, columns: Sequence[str]) -> tuple[list[str], list[list[str]]]:
    """The header and the rows of one table of the page."""
    chosen = rows.select("method", *columns)
    return [n.replace("_", " ") for n in chosen.columns], [[_shown(v) for v in row] for row in chosen.iter_rows()]


def side_by_side(rows: pl.DataFrame, width: int) -> str:
    """Show one column per method and one row per measure; on a narrow screen, further methods follow below."""
    measures = [name.replace("_", " ") for name in rows.columns[1:]]
    labels = max(map(len, measures))
    blocks: list[list[tuple[list[str], list[str], int]]] = []
    left = 0
    for method, *values in rows.iter_rows():
        head, cells = textwrap.wrap(method, 9, break_long_words=False), [_shown(value) for value in values]
        wide = max(map(len, [*head, *cells])) + 2
        if wide > left:
            blocks.append([])
            left = width - labels
        blocks[-1].append((head, cells, wide))
        left -= wide
    lines = []
    for block in blocks:
        deep = max(len(head) for head, _, _ in block)
        columns = [[*[""] * (deep - len(head)), *head, *cells] for head, cells, _ in block]
        for name, *texts in zip([*[""] * deep, *measures], *columns, strict=True):
            shown = (f"{text:>{wide}}" for text, (_, _, wide) in zip(texts, block, strict=True))
            lines.append(f"{name:<{labels}}{''.join(shown)}".rstrip())
        lines.append("")
    return "\n".join(lines)


def _lines(rows: pl.DataFrame) -> str:
    """One line per method; long column names are broken into several lines."""
    heads = [textwrap.wrap(name.replace("_", " "), 8, break_long_words=False) for name in rows.columns[1:]]
    deep = max(map(len, heads), default=1)
    cells = [[_shown(value) for value in rows[name]] for name in rows.columns[1:]]
    wide = [max(map(len, [*head, *column])) + 2 for head, column in zip(heads, cells, strict=True)]
    first = max(map(len, rows["method"]))
    filled = [[*[""] * (deep - len(head)), *head] for head in heads]
    columns = [[*head, *column] for head, column in zip(filled, cells, strict=True)]
    names = [*[""] * deep, *rows["method"]]
    lines = zip(names, *columns, strict=True)
    return "\n".join(
        (f"{name:<{first}}" + "".join(f"{text:>{size}}" for text, size in zip(texts, wide, strict=True))).rstrip()
        for name, *texts in lines
    )


def _shown(value: object) -> str:
    if value is None:  # not measured, or there is no such count
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.2f}" if isinstance(value, float) else str(value)
