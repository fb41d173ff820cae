"""Ledgers whose logs are spelled by hand."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ilba import Ledger

ONE: dict[str, Any] = {
    "kind": "publication",
    "population": "p",
    "wave": "1",
    "method": "controlled",
    "threshold": 5,
    "cells": "observed",
    "columns": ["town", "sex"],
    "tables": ["town"],
    "place": "/gone",
    "checksum": "",
    "data": "d",
    "masks": "m",
    "audit": "safe",
}
INTENT = {name: value for name, value in ONE.items() if name not in ("kind", "place", "checksum")}


BEGIN = {"kind": "begin", "format": 1}


def log_of(*entries: dict[str, Any]) -> bytes:
    """A log in the spelling that every version keeps to."""
    lines, before = b"", "0" * 64
    for number, entry in enumerate(entries):
        told = {"n": number, "time": f"2026-07-0{number + 1}", "before": before} | entry
        text = json.dumps(told, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
        before = hashlib.sha256(text.encode()).hexdigest()
        lines += f'{text[:-1]},"digest":"{before}"}}\n'.encode()
    return lines


def logged(folder: Path, *entries: dict[str, Any]) -> Ledger:
    """A ledger with this log and no masks."""
    (folder / "masks").mkdir(parents=True, exist_ok=True)
    (folder / "log.jsonl").write_bytes(log_of(*entries))
    (folder / "log.jsonl").chmod(0o600)
    return Ledger(folder)
