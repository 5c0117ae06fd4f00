"""A sum of small decision trees, evaluated with NumPy alone.

The trees are oblivious: all nodes of a level ask the same question, so that a tree of depth d is d comparisons and one table of
2^d values (Kohavi and Li, IJCAI 1995; CatBoost uses the same). They are trained by ``benchmarks/fit_cpu_predictions.py``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]

_FEW_ROWS = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Forest:
    """Trees of one depth.

    Attributes:
        features: columns that are asked for, trees x depth.
        thresholds: a question is "is the column larger"; unknown (NaN) is never larger.
        values: trees x 2^depth; the answer to the first question is the highest bit.
        base: added to the sum.
    """

    features: npt.NDArray[np.int16]
    thresholds: npt.NDArray[np.float32]
    values: npt.NDArray[np.float32]
    base: float

    def __call__(self, columns: Floats) -> Floats:
        """The sum of all trees for each row of ``columns``, whose columns are the features."""
        return self._of_few(columns) if len(columns) <= _FEW_ROWS else self._of_many(columns)

    def _of_few(self, columns: Floats) -> Floats:
        """All trees at once: the memory is rows x trees, the time that of some calls."""
        larger = columns.astype(np.float32)[:, self.features] > self.thresholds
        leaf = larger @ (1 << np.arange(self.features.shape[1])[::-1])
        total: Floats = self.base + self.values[np.arange(len(self.values)), leaf].sum(axis=1, dtype=np.float64)
        return total

    def _of_many(self, columns: Floats) -> Floats:
        """A tree at a time over all rows: the memory is that of the rows."""
        by_column = [np.ascontiguousarray(column) for column in columns.T.astype(np.float32)]
        total = np.full(len(columns), self.base)
        for features, thresholds, values in zip(self.features, self.thresholds, self.values, strict=True):
            leaf = np.zeros(len(columns), dtype=np.int32)
            for feature, threshold in zip(features, thresholds, strict=True):
                leaf <<= 1
                leaf += by_column[feature] > threshold
            total += values[leaf]
        return total
