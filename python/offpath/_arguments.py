"""Types of command-line options: what is out of range is a wrong use that names the option."""

from __future__ import annotations

import argparse
from typing import Callable

__all__ = ["real", "whole"]


def whole(least: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        try:
            value = int(text)
        except ValueError:
            value = least - 1
        if value < least:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number, {least} or more")
        return value

    return read


def real(most: float) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = -1.0
        if not 0 <= value <= most:
            raise argparse.ArgumentTypeError(f"{text!r}: expected a number from 0 to {most:g}")
        return value

    return read
