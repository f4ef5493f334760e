"""Draws the result files that the commands write as one self-contained HTML page."""

from __future__ import annotations

from .page import make_page
from .results import read_results

__all__ = ["make_page", "read_results"]
