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
_BITS_OF_A_BYTE = 8
_CELLS_AT_ONCE = 2**15  # trees x rows: what is made of them stays in the cache of a core


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
        """Some trees at a time over all rows: the memory is that of so many trees, and each sum grows tree by tree."""
        by_column = np.ascontiguousarray(columns.T.astype(np.float32))
        total = np.full(len(columns), self.base)
        at_once = max(1, _CELLS_AT_ONCE // len(columns))
        for start in range(0, len(self.values), at_once):
            trees = slice(start, start + at_once)
            values = self.values[trees]
            leaf = self._leaves(by_column, trees) + (np.arange(len(values), dtype=np.intp) * values.shape[1])[:, None]
            total = np.add.reduce(np.vstack((total, values.ravel()[leaf])), axis=0)
        return total

    def _leaves(self, by_column: npt.NDArray[np.float32], trees: slice) -> npt.NDArray[np.uint8 | np.uint16]:
        """The place of each row in the table of each of some trees, in few bytes: what is moved takes the time."""
        features, thresholds = self.features[trees], self.thresholds[trees]
        place = np.uint8 if features.shape[1] <= _BITS_OF_A_BYTE else np.uint16
        leaf = np.zeros((len(features), by_column.shape[1]), dtype=place)
        for question in range(features.shape[1]):
            leaf += leaf
            leaf += (by_column[features[:, question]] > thresholds[:, question, None]).view(np.uint8)
        return leaf
