"""Masking methods as integer arithmetic: the paper's methods, and others of the field for comparison.

No module here opens a file or knows an engine. A name is loaded on first use.

>>> from ilba import methods
>>> methods.conventional_rounding([1, 3, 12], base=5)
array([ 0,  5, 10])
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ilba.methods.cell_key import cell_key_table, create_perturbed_table
    from ilba.methods.lab import (
        ILBA,
        SCA,
        CellKey,
        Controlled,
        Noise,
        Rounding,
        SmallCountRounding,
        Suppression,
    )
    from ilba.methods.method import CountedTables, Method, Shown
    from ilba.methods.noise import DiscreteGaussian, DiscreteLaplace, fit_least_squares, fit_to_parent
    from ilba.methods.ptables import ptable
    from ilba.methods.rounding import controlled_rounding, conventional_rounding, random_rounding
    from ilba.methods.small_counts import RoundedCounts, small_count_rounding
    from ilba.methods.suppression import suppress

__all__ = [
    "ILBA",
    "SCA",
    "CellKey",
    "Controlled",
    "CountedTables",
    "DiscreteGaussian",
    "DiscreteLaplace",
    "Method",
    "Noise",
    "RoundedCounts",
    "Rounding",
    "Shown",
    "SmallCountRounding",
    "Suppression",
    "cell_key_table",
    "controlled_rounding",
    "conventional_rounding",
    "create_perturbed_table",
    "fit_least_squares",
    "fit_to_parent",
    "ptable",
    "random_rounding",
    "small_count_rounding",
    "suppress",
]

_HOMES = {
    "cell_key": ("cell_key_table", "create_perturbed_table"),
    "lab": (
        "ILBA",
        "SCA",
        "CellKey",
        "Controlled",
        "Noise",
        "Rounding",
        "SmallCountRounding",
        "Suppression",
    ),
    "method": ("CountedTables", "Method", "Shown"),
    "noise": ("DiscreteGaussian", "DiscreteLaplace", "fit_least_squares", "fit_to_parent"),
    "ptables": ("ptable",),
    "rounding": ("controlled_rounding", "conventional_rounding", "random_rounding"),
    "small_counts": ("RoundedCounts", "small_count_rounding"),
    "suppression": ("suppress",),
}
_HOME = {name: f"ilba.methods.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a method on first use."""
    if name not in _HOME:
        raise AttributeError(f"module 'ilba.methods' has no attribute {name!r}")
    found = getattr(import_module(_HOME[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """The public names alone."""
    return list(__all__)
