"""Publish frequency tables from microdata without giving people away.

>>> import ilba
>>> ilba.apply_iLBA((5, 4, 6), mask_thr=5)
(8, 0, 0)
"""

from typing import TYPE_CHECKING, Any

from ilba.attack.audit import audit
from ilba.attack.exposure import Exposure
from ilba.attack.verdict import AuditReport
from ilba.design.design import Design, Hierarchy
from ilba.errors import (
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
from ilba.r import apply_iLBA, apply_SCA, get_agg_freq, save_agg_tb, save_full_tb
from ilba.release import Release
from ilba.secret.secret import Secret
from ilba.tables.building import build
from ilba.tables.finest import FinestTable, open_store, read_rds
from ilba.tables.table import Table

if TYPE_CHECKING:
    from ilba import datasets
    from ilba.spark import SparkFinestTable, SparkTable

__version__ = "0.1.0"

__all__ = [
    "AuditReport",
    "Design",
    "Exposure",
    "FinestTable",
    "Hierarchy",
    "IlbaError",
    "InputError",
    "MissingExtra",
    "Notice",
    "Release",
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
    "datasets",
    "get_agg_freq",
    "open_store",
    "read_rds",
    "save_agg_tb",
    "save_full_tb",
]


def __getattr__(name: str) -> Any:
    """Load the synthetic census and the classes for Spark when they are first asked for: few need them."""
    import importlib

    if name == "datasets":
        return importlib.import_module("ilba.datasets")
    if name in ("SparkFinestTable", "SparkTable"):
        return getattr(importlib.import_module("ilba.spark"), name)
    raise AttributeError(f"module 'ilba' has no attribute {name!r}")
