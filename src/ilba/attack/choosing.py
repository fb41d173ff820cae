"""Choose K, the bound and the method: compare the risk from each attacker with the loss, on the same counts.

Nothing is released. Everything is confidential: losses and risks are counted against the truth.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

import polars as pl

from ilba.attack.attackers import Attacker, Insider, checked, name_of
from ilba.attack.audit import audit, losses, tables_by
from ilba.attack.field import MethodTables
from ilba.attack.published import POLICIES
from ilba.attack.risk import ALL, risk
from ilba.attack.riskreport import RiskReport
from ilba.design.design import Level, Names, Selection, threshold_of
from ilba.design.tables import Tables, planned_tables, wanted_tables
from ilba.errors import InputError, notice, suggesting
from ilba.methods.controlled.search import bound_of
from ilba.methods.loss import loss_summary
from ilba.methods.method import Method
from ilba.progress import Progress, ProgressStep, silent, within
from ilba.release.recognising import kept_masks
from ilba.secret.secret import Secret, given_secret
from ilba.tables.engine import AnyFinestTable
from ilba.tables.finest import FinestTable


@suggesting
def what_if(
    finest: AnyFinestTable,
    methods: Sequence[Method | str],
    thresholds: Sequence[int],
    *,
    attackers: Attacker | Iterable[Attacker] = ALL,
    bounds: Sequence[int | None] = (None,),
    secret: Secret | str | os.PathLike[str] | None = None,
    tables: Tables = "all",
    levels: Iterable[Level] | None = None,
    keys: Names | None = None,
    max_keys: int | None = None,
    plan: Tables = "all",
    cells: int = 500_000,
    progress: Progress | None = None,
) -> pl.DataFrame:
    """Measure the risk from each attacker and the loss of the same tables, for several methods, thresholds and bounds.

    Nothing is released. A threshold other than the store's needs masks of its own, and "controlled" needs chosen masks.
    They are made with `secret` or with a throw-away secret: good for choosing, not for publishing. Masks in the ledger
    beside the secret stay, as in a release.

    Parameters
    ----------
    finest : FinestTable or SparkFinestTable
        The counts.
    methods : sequence of Method or str
        Methods as in `audit`, such as "ilba" and "controlled", or any method of `ilba.methods` with its parameters:
        "rounding:3". A method that draws at random gives the same draws on every run.
    thresholds : sequence of int
        Values of K, each at least 3.
    attackers : str, Register, Insider or iterable of them
        As in `risk`. By default, all attackers that need no outside data. "proof" is always measured.
    bounds : sequence of int, default (None,)
        With "controlled": the bounds for which masks are chosen. Attackers are assumed to know the bound. If it
        is not held, a notice says so, and they know the largest loss instead. None is the usual bound, which is not
        stated.
    secret : Secret or path, optional
        Draws the masks for other thresholds. By default, ILBA_SECRET, then the unsaved secret of `finest`, then a
        throw-away secret, and a notice says so.
    tables : str or iterable of str, default "all"
        "all", restricted by `levels`, `keys` and `max_keys`; or names of tables such as "LA3.gender", or selections.
    levels : iterable of int, str or dict, optional
        Only tables at these levels, each given as in `table`. By default, all levels, including 0.
    keys : str or sequence of str, optional
        Only tables by subsets of these keys. By default, all keys.
    max_keys : int, optional
        The largest number of keys in a table. By default, any number.
    plan : str or iterable of str, default "all"
        With "controlled": the tables for which masks are chosen, as in `release`. By default all tables, also those
        that are not among `tables`.
    cells : int, default 500,000
        Probabilities are computed for all finest cells up to this number, otherwise for a sample of areas.
    progress : callable, optional
        Called with each `ProgressStep`.

    Returns
    -------
    polars.DataFrame
        A row for each threshold, method and bound: method, K, bound, small (the number of finest cells with a count in
        1..K-1), mean_loss, p99_loss, max_loss, provable, exact, safe. Then for each attacker: `outsider`, the share of
        small cells that are correctly believed small with probability above .95, and `outsider_right`, how often such a
        belief is right; `neighbour` and `insider`, the share of small cells that are proven; the same for a register,
        by its name; `groups`, the number of groups that are shown with one value. Shares run from 0 to 1, and are
        missing where an attacker cannot be measured. `insider_bound` is the bound on errors on which an insider relies:
        the larger it is, the less is proven. `provable_counts` is the share of the small counts of all tables that
        everybody can prove. Unbounded noise proves nothing, and is never called safe. `charts.risk` draws the rows.
        Confidential.

    Raises
    ------
    InputError
        An attacker is not known, or `bounds` is given without the method "controlled".
    """
    named = _without_lottery(checked(attackers))
    if any(bound is not None for bound in bounds) and "controlled" not in methods:
        raise InputError('bounds go with controlled masks: name the method "controlled" too.')
    rows = []
    tell = progress or silent
    finest = finest.collect()
    wanted = wanted_tables(finest.design, tables, levels, keys, max_keys)
    masked = _Masked(finest, given_secret(secret), planned_tables(finest.design, plan, wanted))
    steps = [
        (K, method, bound)
        for K in thresholds
        for method in methods
        for bound in (bounds if method == "controlled" else (None,))
    ]
    _check(steps)
    masked.tell_of_kept((K, bound) for K, method, bound in steps if method == "controlled")
    for done, (K, method, bound) in enumerate(steps, 1):
        name = method if isinstance(method, str) else method.label
        part = within(progress, f"{name}, K = {K}" + ("" if bound is None else f", bound {bound}"))
        made = masked.by(K, method, bound, part)
        published = tables_by(method, made, wanted)
        loss = loss_summary([losses(published)], K)
        row: dict[str, Any] = {
            "method": name,
            "K": K,
            "bound": bound,
            "small": None,
            "mean_loss": loss.mean,
            "p99_loss": loss.p99,
            "max_loss": loss.max,
        }
        if bound is not None and loss.max > bound:
            notice(f"K = {K}: bound {bound} not held, {loss.max} reached; attackers rely on {loss.max} (confidential).")
        of_counts = 0.0
        is_bounded = not isinstance(published, MethodTables) or published.method.bounded
        if is_bounded:
            proof = audit(published, explanations=0, brief=True, progress=part)
            of_counts = proof.share_of_counts
            row |= {"small": proof.cells_small, "provable": proof.share, "exact": proof.share_exact, "safe": proof.safe}
        else:
            row |= {"provable": 0.0, "exact": 0.0, "safe": False}
        if named and is_bounded:
            learnt = risk(published, named, bound=bound, store=made, cells=cells, progress=part)
            row |= _figures(learnt, named)
        rows.append(row | {"provable_counts": of_counts})
        tell(ProgressStep("comparing", done, len(steps)))
    whole = [name for name in ("bound", "small", "insider_bound") if any(name in row for row in rows)]
    found = pl.DataFrame(rows, schema_overrides=dict.fromkeys(whole, pl.Int64), infer_schema_length=None)
    return found.select(pl.exclude("provable_counts"), "provable_counts")


def _check(steps: Iterable[tuple[int, Method | str, int | None]]) -> None:
    """Refuse a threshold or a bound that is too small, before anything is measured."""
    for K, _, bound in steps:
        threshold_of(K)
        if bound is not None:
            bound_of(bound, K)


def _without_lottery(attackers: list[Attacker]) -> list[Attacker]:
    """All attackers except the proof; an insider is measured with these masks alone."""
    return [Insider(secrets=0) if one == "insider" else one for one in attackers if one != "proof"]


def _figures(found: RiskReport, attackers: Sequence[Attacker]) -> dict[str, Any]:
    """The figures of each attacker in a report, as one row."""
    figures: dict[str, Any] = {}
    for one in attackers:
        name = name_of(one)
        row = found.row(name)

        def share(column: str, row: dict[str, Any] = row) -> float | None:
            number, small = row[column], row["small"]
            return None if number is None else number / small if small else 0.0

        if name == "attribute":
            figures["groups"] = row["groups"]
        elif name == "outsider":
            figures |= {"outsider": row["likely_share"], "outsider_right": row["likely_right"]}
        else:
            figures[name] = share("proven")
        if isinstance(one, Insider):
            figures["insider_bound"] = row["bound"]
    return figures


def masked_jointly(finest: FinestTable, planned: Sequence[Selection], progress: Progress | None) -> FinestTable:
    """The same counts with the masks that a release by the default method would choose for these tables."""
    return _Masked(finest, finest.own_secret(), planned).by(finest.design.threshold, "controlled", None, progress)


class _Masked:
    """The same counts with masks for other thresholds, methods and bounds, from one secret."""

    def __init__(self, finest: FinestTable, secret: Secret | None, planned: Sequence[Selection]) -> None:
        self._planned = planned
        self._finest, self._secret = finest, secret or (finest.secret_at_hand() if finest.unsaved else None)
        self._anew: dict[int, FinestTable] = {}

    @cached_property
    def _kept(self) -> dict[str, Any]:
        """The options of a choice of masks that keeps published ones; none if none were published."""
        return kept_masks(self._finest, self._secret)

    def tell_of_kept(self, asked: Iterable[tuple[int, int | None]]) -> None:
        """Say which K and bounds are measured with published masks, if not all are."""
        own, others = self._finest.design.threshold, set(asked)
        if (own, None) in others and len(others) > 1 and self._kept:
            notice(
                f"K = {own} without a bound keeps the masks that were published. The others are measured as in a "
                f"first publication; for these people the ledger refuses another K."
            )

    def by(self, K: int, method: Method | str, bound: int | None, progress: Progress | None) -> FinestTable:
        from ilba.methods.lab import method_of  # imports all methods, so only when needed

        asked = None if method in POLICIES else method_of(method)
        if asked is not None and asked.policy is not None:  # with parameters of its own, such as a bound
            drawn = self.by(K, "ilba", None, progress)
            own = self._secret if drawn is not self._finest else (self._secret or self._finest.own_secret())
            chosen: FinestTable = asked.masks(drawn, self._planned, own, None, progress)
            return chosen
        joint = method == "controlled"
        as_it_is = self._finest.method == method and bound is None
        if self._finest.design.threshold == K and (not joint or as_it_is):
            return self._finest
        if self._secret is None:
            notice("drawn with a throw-away secret: the figures differ a little from run to run.")
            self._secret = Secret.new()
        if K not in self._anew:
            self._anew[K] = self._finest.with_threshold(K, self._secret)
        anew = self._anew[K]
        if not joint:
            return anew
        kept = self._kept if bound is None and self._finest.design.threshold == K else {}
        return anew.controlled(self._planned, bound, secret=self._secret, progress=progress, **kept)
