"""How far predictions were off where the truth is known, by how much the calibration knew of the case.

The range of a prediction is made of errors that were seen on devices (or, for a known device, on models) that had been left out.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.predict.device_words import EngineFamily, QuantFamily

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.predict.device_terms import DeviceCase

LEVEL: Final = 0.8  # share of truths that the range is to hold
ROWS_OF_A_KNOWN_PRODUCT: Final = 3
PRODUCTS_OF_A_KNOWN_STEP: Final = 2


class Familiarity(StrEnum):
    """The most particular step of a case's class of which the calibration has seen enough."""

    PRODUCT = "the product"
    GENERATION = "its generation"
    CLASS = "its class"
    GROUP = "its group"
    NOTHING = "nothing like it"


class EngineGroup(StrEnum):
    """Engines whose errors are alike."""

    NATIVE = "native engines"
    RARE = "1-to-3-bit formats"
    SERVING = "serving engines"
    FRAMEWORK = "python frameworks"
    MOE = "mixtures of experts"
    SEVERAL = "several devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """What a calibration has seen.

    Attributes:
        rows: measured rows of each product.
        products: different products of each step of the classes.
    """

    rows: Mapping[str, int]
    products: Mapping[str, int]

    def familiarity(self, case: DeviceCase) -> Familiarity:
        """How much of a case's device was seen."""
        device = case.device
        if device.key is not None and self.rows.get(device.key, 0) >= ROWS_OF_A_KNOWN_PRODUCT:
            return Familiarity.PRODUCT
        steps = (Familiarity.GROUP, Familiarity.CLASS, Familiarity.GENERATION)
        seen = [
            step
            for step, name in zip(steps, device.path, strict=False)
            if self.products.get(name, 0) >= PRODUCTS_OF_A_KNOWN_STEP
        ]
        return seen[-1] if seen else Familiarity.NOTHING


def engine_group(case: DeviceCase, count: int = 1) -> EngineGroup:
    """Which errors a case's are alike."""
    if case.moe:
        return EngineGroup.MOE
    if count > 1:
        return EngineGroup.SEVERAL
    if case.engine is EngineFamily.FRAMEWORK:
        return EngineGroup.FRAMEWORK
    if case.engine in (EngineFamily.SERVING, EngineFamily.COMPILED):
        return EngineGroup.SERVING
    if case.quant in (QuantFamily.TERNARY, QuantFamily.CODEBOOK):
        return EngineGroup.RARE
    return EngineGroup.NATIVE


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Factors on the point that make the range: ``low = point x low_factor``."""

    low_factor: float
    high_factor: float
    rows: int  # errors that it was made of


@dataclass(frozen=True, slots=True, kw_only=True)
class Spreads:
    """The spreads of a phase, by familiarity and engine group; missing ones are those of native engines, less familiar."""

    cells: Mapping[tuple[Familiarity, EngineGroup], Spread]

    def of(self, familiarity: Familiarity, group: EngineGroup) -> Spread:
        """The spread of a case; where nobody saw one, the widest of what is less alike."""
        found = self.cells.get((familiarity, group))
        if found is not None:
            return found
        order = list(Familiarity)
        others = [
            spread
            for (known, kind), spread in self.cells.items()
            if kind in (group, EngineGroup.NATIVE) and order.index(known) >= order.index(familiarity)
        ] or list(self.cells.values())
        return max(others, key=lambda spread: spread.high_factor / spread.low_factor)
