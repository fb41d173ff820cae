"""The optimisers: linear and integer programs by HiGHS, and small convex ones, all through SciPy.

SciPy is an optional package (the extra `solver`). highspy alone would be smaller, but p-tables of maximum entropy need
a convex solver, and suppression needs sparse matrices. SciPy has all three.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np

from ilba.errors import InputError, MissingExtra


def scipy_part(name: str) -> Any:
    """A part of SciPy, loaded on first use."""
    try:
        return import_module(f"scipy.{name}")
    except ModuleNotFoundError:
        raise MissingExtra("this method solves an optimisation problem. Type: pip install 'ilba[solver]'") from None


def integer_program(
    cost: Any, equations: Any, right: Any, whole: Any, upper: Any, *, lower: Any = 0.0, seconds: float | None = None
) -> Any:
    """Minimise cost'x subject to low <= equations x <= high; `right` is (low, high). x is None if time ran out."""
    optimize = scipy_part("optimize")
    options: dict[str, Any] = {"mip_rel_gap": 0.0}
    if seconds is not None:
        options["time_limit"] = seconds
    bounds = optimize.Bounds(lower, upper)
    rules = optimize.LinearConstraint(equations, *right)
    found = optimize.milp(cost, integrality=whole, bounds=bounds, constraints=rules, options=options)
    if found.status == 2:
        raise InputError("there is no solution: no table keeps all the rules that were asked for.")
    return found


def interval(matrix: Any, known: Any, of: Any, hidden: Any = None, least: float = 0.0) -> tuple[float, float]:
    """The smallest and the largest value of a sum of cells with x >= 0 and matrix x = known.

    Sums of `hidden` are at least `least`.
    """
    optimize = scipy_part("optimize")
    ends = []
    more: dict[str, Any] = {}
    if hidden is not None and least > 0:
        more = {"A_ub": -hidden, "b_ub": np.full(hidden.shape[0], -float(least))}
    for sign in (1.0, -1.0):
        found = optimize.linprog(sign * of, A_eq=matrix, b_eq=known, bounds=(0, None), method="highs", **more)
        ends.append(sign * found.fun if found.status == 0 else np.inf)
    return float(ends[0]), float(ends[1])
