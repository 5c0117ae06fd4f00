"""When two numbers in a record are the same."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

RELATIVE_TOLERANCE: Final = 1e-6  # a rounding of the plain numbers by another tool is not an edit


def alike(first: Sequence[float], second: Sequence[float]) -> bool:
    """Whether two rows of numbers are the same, up to a rounding by another tool."""
    pairs = zip(first, second, strict=False)
    return len(first) == len(second) and all(math.isclose(a, b, rel_tol=RELATIVE_TOLERANCE) for a, b in pairs)
