"""Trains forests of oblivious trees by gradient boosting of the absolute error, with NumPy alone; the same seed, the same forest.

Every tree is grown level by level: the question that best separates the signs of the errors in all its leaves together; then each
leaf gets a share of the median error of its rows. Rows and columns are drawn anew for each tree (stochastic gradient boosting,
Friedman 2002).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from suffice.predict.forest import Forest

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float64]
    Indices = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """How a forest is grown.

    ``quantile`` 0.5 fits medians, 0.8 the value below which 80 % of the targets lie.
    """

    trees: int = 400
    depth: int = 5
    rate: float = 0.08
    bins: int = 48
    columns: float = 0.4
    rows: float = 0.6
    fewest: float = 10.0  # rows by which a leaf's median is drawn towards zero
    quantile: float = 0.5
    seed: int = 0
    rising: frozenset[int] = frozenset()  # columns in which the sum must never fall
    falling: frozenset[int] = frozenset()  # nor rise in these


def grow(columns: Floats, target: Floats, weight: Floats, recipe: Recipe) -> Forest:
    """A forest whose sum fits ``target`` from ``columns`` by weighted absolute error; unknown cells are NaN."""
    rng = np.random.default_rng(recipe.seed)
    edges = [_edges(column, recipe.bins) for column in columns.T]
    usable = np.array([len(edge) > 0 for edge in edges])
    binned = np.column_stack([_binned(column, edge) for column, edge in zip(columns.T, edges, strict=True)])
    base = _weighted_quantile(target, weight, recipe.quantile)
    fitted = np.full(len(target), base)
    features, thresholds, values = [], [], []
    for _ in range(recipe.trees):
        sampled = np.flatnonzero(rng.random(len(target)) < recipe.rows)
        offered = np.flatnonzero(usable & (rng.random(len(edges)) < recipe.columns))
        if not len(offered):
            continue
        gradient = np.where(target > fitted, recipe.quantile, recipe.quantile - 1) * weight
        asked, leaf = _grow_tree(binned, gradient, weight, sampled, offered, recipe)
        value = recipe.rate * _leaf_values((target - fitted)[sampled], weight[sampled], leaf[sampled], recipe)
        counted: Floats = np.bincount(leaf, weight, len(value)).astype(np.float64)
        value = _in_order(value, counted, [feature for feature, _ in asked], recipe)
        fitted += value[leaf]
        features.append([feature for feature, _ in asked])
        thresholds.append([edges[feature][cut] if cut < len(edges[feature]) else np.inf for feature, cut in asked])
        values.append(value)
    return Forest(
        features=np.array(features, dtype=np.int16),
        thresholds=np.array(thresholds, dtype=np.float32),
        values=np.array(values, dtype=np.float32),
        base=float(base),
    )


def _edges(column: Floats, bins: int) -> Floats:
    """Values to compare with: midpoints between neighbouring quantiles, in the precision that the forest keeps."""
    values = np.unique(column[np.isfinite(column)])
    if len(values) > bins:
        values = np.unique(np.quantile(column[np.isfinite(column)], np.linspace(0, 1, bins)))
    between = (values[1:] + values[:-1]) / 2
    if np.isnan(column).any() and len(values):
        between = np.concatenate(([values[0] - 1.0], between))  # known or not is a question too
    return np.unique(between.astype(np.float32)).astype(np.float64)


def _binned(column: Floats, edges: Floats) -> npt.NDArray[np.intp]:
    """Number of edges below each value; 0 for NaN."""
    return np.where(np.isnan(column), 0, np.searchsorted(edges, column.astype(np.float32), side="left"))


def _grow_tree(
    binned: npt.NDArray[np.intp], gradient: Floats, weight: Floats, sampled: Indices, offered: Indices, recipe: Recipe
) -> tuple[list[tuple[int, int]], Indices]:
    width = recipe.bins + 2
    part = binned[np.ix_(sampled, offered)] + np.arange(len(offered)) * width
    leaf = np.zeros(len(binned), dtype=np.intp)
    asked: list[tuple[int, int]] = []
    for level in range(recipe.depth):
        shape = (2**level, len(offered), width)
        flat = (part + (leaf[sampled] * (len(offered) * width))[:, None]).ravel()
        size = int(np.prod(shape))
        g = np.bincount(flat, np.repeat(gradient[sampled], len(offered)), size).reshape(shape).cumsum(axis=2)
        n = np.bincount(flat, np.repeat(weight[sampled], len(offered)), size).reshape(shape).cumsum(axis=2)
        gain = g**2 / (n + recipe.fewest) + (g[:, :, -1:] - g) ** 2 / (n[:, :, -1:] - n + recipe.fewest)
        best = int(np.argmax(gain.sum(axis=0)))
        feature, cut = int(offered[best // width]), best % width
        asked.append((feature, cut))
        leaf = 2 * leaf + (binned[:, feature] > cut)
    return asked, leaf


def _leaf_values(error: Floats, weight: Floats, leaf: Indices, recipe: Recipe) -> Floats:
    values = np.zeros(2**recipe.depth)
    order = np.lexsort((error, leaf))
    error, weight, leaf = error[order], weight[order], leaf[order]
    starts = np.searchsorted(leaf, np.arange(2**recipe.depth + 1))
    for index, (start, stop) in enumerate(pairwise(starts)):
        if stop > start:
            cumulated = np.cumsum(weight[start:stop])
            at = min(int(np.searchsorted(cumulated, recipe.quantile * cumulated[-1])), stop - start - 1)
            values[index] = error[start + at] * cumulated[-1] / (cumulated[-1] + recipe.fewest)
    return values


def _in_order(values: Floats, weight: Floats, asked: list[int], recipe: Recipe) -> Floats:
    """Neighbours that break an order are given their common mean, until none is left."""
    shape = (2,) * recipe.depth
    values, weight = values.reshape(shape).copy(), weight.reshape(shape) + recipe.fewest
    constrained = [(level, feature) for level, feature in enumerate(asked) if feature in recipe.rising | recipe.falling]
    for _ in range(64):
        broken = False
        for level, feature in constrained:
            low, high = np.moveaxis(values, level, 0), np.moveaxis(weight, level, 0)
            wrong = (low[1] < low[0]) if feature in recipe.rising else (low[1] > low[0])
            if wrong.any():
                broken = True
                mean = (low * high).sum(axis=0) / high.sum(axis=0)
                low[0][wrong] = low[1][wrong] = mean[wrong]
        if not broken:
            return values.reshape(-1)
    return np.zeros(2**recipe.depth)


def _weighted_quantile(values: Floats, weight: Floats, quantile: float) -> float:
    order = np.argsort(values)
    cumulated = np.cumsum(weight[order])
    return float(values[order][min(int(np.searchsorted(cumulated, quantile * cumulated[-1])), len(values) - 1)])
