"""Publish frequency tables from microdata and protect small counts.

>>> import ilba
>>> ilba.apply_iLBA((5, 4, 6), mask_thr=5)
(8, 0, 0)
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ilba import charts, datasets, export, masking, methods, report, spark
    from ilba.attack.attackers import Insider, Register
    from ilba.attack.audit import audit, losses
    from ilba.attack.choosing import what_if
    from ilba.attack.joint_verdict import JointReport
    from ilba.attack.published import PublishedTables
    from ilba.attack.risk import risk
    from ilba.attack.riskreport import RiskReport
    from ilba.attack.slivers import slivers
    from ilba.attack.verdict import AuditReport
    from ilba.data.hierarchies import HierarchyTree, read_hierarchy
    from ilba.data.inspecting import Inspection, inspect
    from ilba.data.recipe import Recipe
    from ilba.design.design import Design, Hierarchy
    from ilba.design.population import Population
    from ilba.errors import (
        Advice,
        Conflict,
        IlbaError,
        InputError,
        MissingExtra,
        Notice,
        SecretError,
        StoreError,
        UnknownArgument,
        UnsafeRelease,
        WriteError,
    )
    from ilba.methods.controlled.search import Chosen, Control
    from ilba.methods.loss import loss_summary
    from ilba.output.compare import Comparison, compare
    from ilba.output.slivers import sliver_map
    from ilba.progress import ProgressStep
    from ilba.publication.planning import Plan, plan
    from ilba.publication.proposing import init
    from ilba.publication.publishing import Published, publish
    from ilba.r import apply_iLBA, apply_SCA, get_agg_freq, save_agg_tb, save_full_tb
    from ilba.release import Ledger, PublicTable, Release
    from ilba.secret.secret import Secret
    from ilba.spark import SparkFinestTable, SparkTable
    from ilba.tables.building import build
    from ilba.tables.cube import Cube
    from ilba.tables.engine import class_means
    from ilba.tables.finest import FinestTable
    from ilba.tables.opening import open_store, read_rds
    from ilba.tables.table import Table

__version__ = "1.0.0"

__all__ = [
    "Advice",
    "AuditReport",
    "Chosen",
    "Comparison",
    "Conflict",
    "Control",
    "Cube",
    "Design",
    "FinestTable",
    "Hierarchy",
    "HierarchyTree",
    "IlbaError",
    "InputError",
    "Insider",
    "Inspection",
    "JointReport",
    "Ledger",
    "MissingExtra",
    "Notice",
    "Plan",
    "Population",
    "ProgressStep",
    "PublicTable",
    "Published",
    "PublishedTables",
    "Recipe",
    "Register",
    "Release",
    "RiskReport",
    "Secret",
    "SecretError",
    "SparkFinestTable",
    "SparkTable",
    "StoreError",
    "Table",
    "UnknownArgument",
    "UnsafeRelease",
    "WriteError",
    "apply_SCA",
    "apply_iLBA",
    "audit",
    "build",
    "charts",
    "class_means",
    "compare",
    "datasets",
    "export",
    "get_agg_freq",
    "init",
    "inspect",
    "loss_summary",
    "losses",
    "masking",
    "methods",
    "open_store",
    "plan",
    "publish",
    "read_hierarchy",
    "read_rds",
    "report",
    "risk",
    "save_agg_tb",
    "save_full_tb",
    "sliver_map",
    "slivers",
    "spark",
    "what_if",
]

# The module of each name. A module is loaded at the first use of one of its names.
_HOMES = {
    "attack.attackers": ("Insider", "Register"),
    "attack.audit": ("audit", "losses"),
    "attack.choosing": ("what_if",),
    "attack.joint_verdict": ("JointReport",),
    "attack.published": ("PublishedTables",),
    "attack.risk": ("risk",),
    "attack.riskreport": ("RiskReport",),
    "attack.slivers": ("slivers",),
    "attack.verdict": ("AuditReport",),
    "data.hierarchies": ("HierarchyTree", "read_hierarchy"),
    "data.inspecting": ("Inspection", "inspect"),
    "data.recipe": ("Recipe",),
    "design.design": ("Design", "Hierarchy"),
    "design.population": ("Population",),
    "errors": (
        "Advice",
        "Conflict",
        "IlbaError",
        "InputError",
        "MissingExtra",
        "Notice",
        "SecretError",
        "StoreError",
        "UnknownArgument",
        "UnsafeRelease",
        "WriteError",
    ),
    "methods.controlled.search": ("Chosen", "Control"),
    "methods.loss": ("loss_summary",),
    "output.compare": ("Comparison", "compare"),
    "output.slivers": ("sliver_map",),
    "progress": ("ProgressStep",),
    "publication.planning": ("Plan", "plan"),
    "publication.proposing": ("init",),
    "publication.publishing": ("Published", "publish"),
    "r": ("apply_SCA", "apply_iLBA", "get_agg_freq", "save_agg_tb", "save_full_tb"),
    "release": ("Ledger", "PublicTable", "Release"),
    "secret.secret": ("Secret",),
    "spark": ("SparkFinestTable", "SparkTable"),
    "tables.building": ("build",),
    "tables.cube": ("Cube",),
    "tables.engine": ("class_means",),
    "tables.finest": ("FinestTable",),
    "tables.opening": ("open_store", "read_rds"),
    "tables.table": ("Table",),
}
_HOME = {name: f"ilba.{module}" for module, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    """Load a public name at its first use."""
    if name in _HOME:
        found = getattr(import_module(_HOME[name]), name)
    elif name in __all__:
        found = import_module(f"ilba.{name}")
    else:
        raise AttributeError(f"module 'ilba' has no attribute {name!r}")
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    """Only the public names."""
    return [*__all__, "__version__"]
