"""How much the long harnesses try."""

from __future__ import annotations

import os

LARGE = int(os.environ.get("ILBA_EXAMPLES", "0")) >= 100
"""whether they try everything that they know, as `ILBA_EXAMPLES=100 make test` asks for"""
