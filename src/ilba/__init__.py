"""Publish frequency tables from microdata without giving people away.

>>> import ilba
>>> ilba.apply_iLBA((5, 4, 6), mask_thr=5)
(8, 0, 0)
"""

from ilba import datasets
from ilba.audit import AuditReport, audit
from ilba.design import Design, Hierarchy
from ilba.errors import (
    IlbaError,
    InputError,
    MissingExtra,
    Notice,
    SecretError,
    StoreError,
    UnknownArgument,
    WriteError,
)
from ilba.finest import FinestTable, build, open_store, read_rds
from ilba.exposure import Exposure
from ilba.rnames import apply_iLBA, apply_SCA, get_agg_freq, save_agg_tb, save_full_tb
from ilba.secret import Secret
from ilba.table import Table

__version__ = "0.1.0"

__all__ = [
    "AuditReport",
    "Design",
    "FinestTable",
    "Hierarchy",
    "IlbaError",
    "InputError",
    "MissingExtra",
    "Notice",
    "Exposure",
    "Secret",
    "SecretError",
    "StoreError",
    "Table",
    "UnknownArgument",
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
