"""Statistics as pure functions: plain numbers in, estimates with intervals out."""

from suffice.stats.estimate import Estimate, Interval
from suffice.stats.intervals import estimate_from, median, median_interval, quantile
from suffice.stats.stopping import StoppingRule, StopReason, should_stop

__all__ = [
    "Estimate",
    "Interval",
    "StopReason",
    "StoppingRule",
    "estimate_from",
    "median",
    "median_interval",
    "quantile",
    "should_stop",
]
