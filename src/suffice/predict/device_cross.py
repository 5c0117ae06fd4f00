"""Cross-validation of the calibration: how far it is off on devices, or on models, that it has not seen."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.predict.device_fit import Observation, fit_decode, fit_prefill
from suffice.predict.device_model import DeviceParameters, decode_seconds, prefill_seconds
from suffice.predict.device_spread import (
    EngineGroup,
    Familiarity,
    Spread,
    Spreads,
    Support,
    engine_group,
)
from suffice.predict.machine import Phase
from suffice.units import GIGA

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

PEAK_EXPONENT: Final = 0.3  # chosen by cross-validation among 0, 0.3, 0.5, 0.75 and 1
DEVICE_FOLDS: Final = 40
MODEL_FOLDS: Final = 5
_TAILS: Final = (0.1, 0.9)
_BORROWED_ROWS: Final = 12  # a cell of this many rows is half its own, half what all cells of its engine group say
_LEAST_ROWS: Final = 5
# A product of n rows weighs n to the power of one plus this: between all rows alike (0) and all products alike (-1).
_ROOT: Final = -0.3
# Rows of one product err together. Where few products were measured, the next one may be further off than any of them.
_MOST_STRETCH: Final = 2.0
_FEW_PRODUCTS: Final = {
    EngineGroup.MOE: 6.0,
    EngineGroup.SEVERAL: 4.0,
    EngineGroup.RARE: 4.0,
    EngineGroup.FRAMEWORK: 4.0,
}
_TELLS_BANDWIDTH: Final = (
    GIGA  # smaller models measure the fixed cost alone: a product of which only they are known is not known
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """A measured row with what folds and tables need to know of it. ``source`` groups rows for tables: "published" or "rented"."""

    observation: Observation
    product: str
    model: str
    source: str
    kind: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Miss:
    """A prediction of a sample that had been left out. ``log_error`` is above 0 where the device was slower than predicted."""

    sample: Sample
    familiarity: Familiarity
    log_error: float

    @property
    def cell(self) -> tuple[Familiarity, EngineGroup]:
        """Where its range is looked up."""
        row = self.sample.observation
        return self.familiarity, engine_group(row.case, row.work.count)

    @property
    def relative_error(self) -> float:
        """Absolute error of the rate over the measured rate."""
        return abs(math.expm1(self.log_error))


def fit_phase(samples: Iterable[Sample], phase: Phase) -> DeviceParameters:
    """The calibration of a phase."""
    rows = [sample.observation for sample in samples]
    return fit_decode(rows) if phase is Phase.DECODE else fit_prefill(rows, PEAK_EXPONENT)


def support_of(samples: Iterable[Sample]) -> Support:
    """What a training set knows of products and of the steps of their classes."""
    rows: Counter[str] = Counter()
    products: dict[str, set[str]] = defaultdict(set)
    for sample in samples:
        if sample.observation.work.weight_bytes >= _TELLS_BANDWIDTH:
            rows[sample.product] += 1
        for step in sample.observation.case.device.path:
            products[step].add(sample.product)
    return Support(
        rows=MappingProxyType(dict(rows)),
        products=MappingProxyType({step: len(names) for step, names in products.items()}),
    )


def log_error(parameters: DeviceParameters, row: Observation, phase: Phase) -> float:
    """Logarithm of measured over predicted time."""
    resolved = parameters.resolve(row.case)
    if phase is Phase.DECODE:
        predicted_s = decode_seconds(row.case, resolved, row.work)
    else:
        predicted_s = prefill_seconds(resolved, row.work, parameters.peak_exponent)
    return math.log(row.measured_s / predicted_s)


def unseen_devices(samples: Sequence[Sample], phase: Phase, folds: int = DEVICE_FOLDS) -> list[Miss]:
    """Errors where the product, under all its names and in all sources, was left out."""
    return _left_out(samples, phase, _folds([sample.product for sample in samples], folds))


def seen_devices(samples: Sequence[Sample], phase: Phase, folds: int = MODEL_FOLDS) -> list[Miss]:
    """Errors where the product was seen, and this model on it was not."""
    misses = _left_out(samples, phase, _folds([f"{sample.product}:{sample.model}" for sample in samples], folds))
    return [miss for miss in misses if miss.familiarity is Familiarity.PRODUCT]


def spreads_of(misses: Sequence[Miss]) -> Spreads:
    """The tails of errors by cell, each with some rows of its engine group borrowed; products weigh less than their rows."""
    count = Counter(miss.sample.product for miss in misses)
    cells: dict[tuple[Familiarity, EngineGroup], list[Miss]] = defaultdict(list)
    groups: dict[EngineGroup, list[Miss]] = defaultdict(list)
    for miss in misses:
        cells[miss.cell].append(miss)
        groups[miss.cell[1]].append(miss)
    made = {}
    for (familiarity, group), own in cells.items():
        if len(own) < _LEAST_ROWS:
            continue
        products = len({miss.sample.product for miss in own})
        stretch = min(1 + _FEW_PRODUCTS.get(group, 0.0) / products, _MOST_STRETCH)
        low, high = _tails(own, count)
        wide_low, wide_high = _tails(groups[group], count)
        share = len(own) / (len(own) + _BORROWED_ROWS)
        made[familiarity, group] = Spread(
            low_factor=math.exp(-stretch * (share * high + (1 - share) * wide_high)),
            high_factor=math.exp(-stretch * (share * low + (1 - share) * wide_low)),
            rows=len(own),
        )
    return Spreads(cells=MappingProxyType(_widening(made)))


def _widening(cells: dict[tuple[Familiarity, EngineGroup], Spread]) -> dict[tuple[Familiarity, EngineGroup], Spread]:
    """Less familiar is never narrower: each cell holds those of its group that are more familiar, and the point itself."""
    made = {}
    for group in EngineGroup:
        low = high = 1.0
        for familiarity in Familiarity:
            own = cells.get((familiarity, group))
            if own is not None:
                low, high = min(low, own.low_factor), max(high, own.high_factor)
                made[familiarity, group] = Spread(low_factor=low, high_factor=high, rows=own.rows)
    return made


def coverage(misses: Sequence[Miss], spreads: Callable[[Miss], Spread]) -> list[bool]:
    """Of each left-out row whether its measured rate is within the range."""
    held = []
    for miss in misses:
        spread = spreads(miss)
        held.append(spread.low_factor <= math.exp(-miss.log_error) <= spread.high_factor)
    return held


def cross_fitted(misses: Sequence[Miss], folds: int = 10) -> Callable[[Miss], Spread]:
    """Spreads for each row from the errors of other products only, so that coverage is not judged on what made the range."""
    fold = dict(
        zip((miss.sample.product for miss in misses), _folds([m.sample.product for m in misses], folds), strict=True)
    )
    made = [spreads_of([miss for miss in misses if fold[miss.sample.product] != number]) for number in range(folds)]
    return lambda miss: made[fold[miss.sample.product]].of(*miss.cell)


def _tails(misses: Sequence[Miss], count: Counter[str]) -> tuple[float, float]:
    errors = np.array([miss.log_error for miss in misses])
    weights = np.array([count[miss.sample.product] ** _ROOT for miss in misses])
    order = np.argsort(errors)
    place = np.cumsum(weights[order]) - weights[order] / 2
    low, high = np.interp(_TAILS, place / weights.sum(), errors[order])
    return float(low), float(high)


def _folds(names: Sequence[str], folds: int) -> list[int]:
    distinct = sorted(set(names))
    order = np.random.default_rng(0).permutation(len(distinct))
    place = {distinct[index]: rank % folds for rank, index in enumerate(order)}
    return [place[name] for name in names]


def _left_out(samples: Sequence[Sample], phase: Phase, fold: Sequence[int]) -> list[Miss]:
    misses: list[Miss] = []
    for number in sorted(set(fold)):
        kept = [sample for sample, own in zip(samples, fold, strict=True) if own != number]
        parameters, support = fit_phase(kept, phase), support_of(kept)
        misses.extend(
            Miss(
                sample=sample,
                familiarity=support.familiarity(sample.observation.case),
                log_error=log_error(parameters, sample.observation, phase),
            )
            for sample, own in zip(samples, fold, strict=True)
            if own == number
        )
    return misses
