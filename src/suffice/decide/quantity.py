"""A number as evidence: a point, the range that the truth may lie in, and where it comes from."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from suffice.model.basis import Basis

if TYPE_CHECKING:
    from suffice.stats.estimate import Estimate


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantity:
    """``low`` or ``high`` None: not bounded on that side. A point without any interval has both equal to the point.

    ``more_untried``: the search for the point ended there, so that it is a least and not the figure itself.
    """

    point: float
    low: float | None
    high: float | None
    basis: Basis
    interval_known: bool = True
    more_untried: bool = False

    @classmethod
    def of(cls, estimate: Estimate, basis: Basis = Basis.MEASURED) -> Quantity:
        """From an estimate; one of a single sample is unbounded on both sides, because it says nothing of the spread."""
        interval = estimate.interval
        if interval is None:
            return cls(point=estimate.point, low=None, high=None, basis=basis)
        return cls(point=estimate.point, low=interval.low, high=interval.high, basis=basis)

    @classmethod
    def bare(cls, value: float, basis: Basis = Basis.MEASURED) -> Quantity:
        """A plain number whose interval nobody recorded: the point stands for it, and the verdict says so."""
        return cls(point=value, low=value, high=value, basis=basis, interval_known=False)

    def scaled(self, factor: float) -> Quantity:
        """``factor`` times the quantity, ``factor > 0``."""
        return Quantity(
            point=self.point * factor,
            low=None if self.low is None else self.low * factor,
            high=None if self.high is None else self.high * factor,
            basis=self.basis,
            interval_known=self.interval_known,
        )

    def inverted(self, numerator: float = 1.0) -> Quantity:
        """``numerator / quantity``: a rate from a time or a time from a rate. Ends change places; no bound stays none."""
        return Quantity(
            point=_divide(numerator, self.point),
            low=None if self.high is None else _divide(numerator, self.high),
            high=None if self.low is None else _divide(numerator, self.low),
            basis=self.basis,
            interval_known=self.interval_known,
        )

    def widened(self, share: float) -> Quantity:
        """With an independent error of ``share`` of the point beside the scatter that the range holds; no bound stays none.

        Example:
            >>> Quantity(point=10.0, low=9.7, high=10.4, basis=Basis.EXTRAPOLATED).widened(0.04).low
            9.5
        """
        own = share * self.point
        return self.with_bounds(
            low=None if self.low is None else self.point - math.hypot(self.point - self.low, own),
            high=None if self.high is None else self.point + math.hypot(self.high - self.point, own),
        )

    def with_basis(self, basis: Basis) -> Quantity:
        """The same numbers on another basis."""
        return replace(self, basis=basis)

    def with_bounds(self, *, low: float | None, high: float | None) -> Quantity:
        """The same point in another range."""
        return replace(self, low=low, high=high)


def _divide(numerator: float, denominator: float) -> float:
    return math.inf if denominator == 0 else numerator / denominator
