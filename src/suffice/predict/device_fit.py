"""Calibration: the factors that make the law fit measurements best, each shrunk to 1 unless data insist.

Maximum a posteriori with Student-t residuals in the logarithm of time (a wrong row cannot pull far) and a normal prior on the logarithm of each
factor (empirical Bayes in spirit: a class with few rows stays near the one above it). Solved by iteratively reweighted Gauss-Newton.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import numpy as np

from suffice.predict.device_model import DeviceParameters, Work, fixed_scale
from suffice.predict.device_terms import HOST_OVERLAP, DeviceCase, Parameter, Prior, factors

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from numpy.typing import NDArray

    from suffice.predict.device_terms import Factor

    Vector = NDArray[np.float64]
    # From logarithms of the parameters of each row to its time and to the slope of the time's logarithm in each of them.
    Law = Callable[[Mapping[Parameter, Vector]], tuple[Vector, dict[Parameter, Vector]]]

# Standard deviation of the logarithm of a factor: 0.1 means that a tenth more or less is nothing unusual. Chosen by cross-validation over devices.
_SPREAD: Final[Mapping[Prior, float]] = MappingProxyType(
    {
        Prior.ROOT: 1.5,
        Prior.GROUP: 0.3,
        Prior.CLASS: 0.1,
        Prior.GENERATION: 0.07,
        Prior.QUANT: 0.25,
        Prior.QUANT_OF_GROUP: 0.08,
        Prior.ENGINE: 0.3,
        Prior.VARIANT: 0.08,
        Prior.BACKEND: 0.1,
        Prior.DEVICE: 0.12,
    }
)
# The fixed cost and prefill differ more from class to class than the share of bandwidth does.
_WIDER: Final[Mapping[Parameter, float]] = MappingProxyType(
    {
        Parameter.EFFICIENCY: 1.0,
        Parameter.CACHE_COST: 1.7,
        Parameter.OVERHEAD: 1.3,
        Parameter.INTENSITY: 2.0,
        Parameter.START: 3.0,
    }
)
# Where the parameters start, and stay if no row says anything: shares of bandwidth near 3/4, milliseconds per token.
_START: Final[Mapping[Parameter, float]] = MappingProxyType(
    {
        Parameter.EFFICIENCY: 0.75,
        Parameter.CACHE_COST: 1.5,
        Parameter.OVERHEAD: 2e-3,
        Parameter.INTENSITY: 60.0,
        Parameter.START: 5e-3,
    }
)
# Set by hand, with the rows of the A100 in view: eager PyTorch spends near 3/4 ms on starting the kernels of one layer. Errors of Python
# frameworks on a device that was left out are therefore no independent test.
_KNOWN: Final[Mapping[tuple[Parameter, str], float]] = MappingProxyType(
    {(Parameter.OVERHEAD, "engine:python frameworks"): 12.0}
)
_RESIDUAL: Final = 0.06  # scale of the Student-t distribution: what one careful run differs from the next
_FREEDOM: Final = 3.0
_STEPS: Final = 40
_LONGEST_STEP: Final = 0.7
_DONE: Final = 1e-5


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """One measured speed, ready for the law: the time of a decode step or of a prompt."""

    case: DeviceCase
    work: Work
    measured_s: float
    weight: float = 1.0


def fit_decode(rows: Sequence[Observation], *, with_devices: bool = True) -> DeviceParameters:
    """The parameters of decode. ``with_devices`` False: without factors of single devices."""
    wanted = (Parameter.EFFICIENCY, Parameter.CACHE_COST, Parameter.OVERHEAD)
    problem = _Problem(rows, wanted, with_devices=with_devices)
    bandwidth, weights, cache = (_column(rows, name) for name in ("bandwidth_bytes_per_s", "weight_bytes", "kv_bytes"))
    layers = np.array([fixed_scale(row.case, row.work) for row in rows])
    power = np.array([HOST_OVERLAP if row.case.waits_for_host else 1.0 for row in rows])

    def law(logs: Mapping[Parameter, Vector]) -> tuple[Vector, dict[Parameter, Vector]]:
        read = np.exp(-logs[Parameter.EFFICIENCY]) / bandwidth
        kv_s = read * cache * np.exp(logs[Parameter.CACHE_COST])
        moved_s = read * weights + kv_s
        fixed_s = np.exp(logs[Parameter.OVERHEAD]) * layers
        total = (moved_s**power + fixed_s**power) ** (1 / power)
        share = (moved_s / total) ** power
        return total, {
            Parameter.EFFICIENCY: -share,
            Parameter.CACHE_COST: share * kv_s / moved_s,
            Parameter.OVERHEAD: 1 - share,
        }

    return DeviceParameters(logs=_solve(problem, law))


def fit_prefill(rows: Sequence[Observation], peak_exponent: float, *, with_devices: bool = True) -> DeviceParameters:
    """The parameters of prefill, for a given way in which it follows the dense peak."""
    problem = _Problem(rows, (Parameter.INTENSITY, Parameter.START), with_devices=with_devices)
    bandwidth, flop, peak = (_column(rows, name) for name in ("bandwidth_bytes_per_s", "flop", "peak_ratio"))

    def law(logs: Mapping[Parameter, Vector]) -> tuple[Vector, dict[Parameter, Vector]]:
        compute_s = flop * np.exp(-logs[Parameter.INTENSITY]) / (bandwidth * peak**peak_exponent)
        start_s = np.exp(logs[Parameter.START])
        total = compute_s + start_s
        return total, {Parameter.INTENSITY: -compute_s / total, Parameter.START: start_s / total}

    return DeviceParameters(logs=_solve(problem, law), peak_exponent=peak_exponent)


def joined(decode: DeviceParameters, prefill: DeviceParameters) -> DeviceParameters:
    """One calibration of both phases."""
    return DeviceParameters(
        logs=MappingProxyType({**decode.logs, **{key: value for key, value in prefill.logs.items() if value}}),
        peak_exponent=prefill.peak_exponent,
    )


def _column(rows: Sequence[Observation], name: str) -> Vector:
    return np.array([getattr(row.work, name) for row in rows], dtype=float)


def _expected(factor: Factor) -> float:
    if factor.prior is Prior.ROOT:
        return _START[factor.parameter]
    return _KNOWN.get((factor.parameter, factor.name), 1.0)


class _Problem:
    """Which row takes which factors, as matrices of zeros and ones."""

    def __init__(self, rows: Sequence[Observation], wanted: tuple[Parameter, ...], *, with_devices: bool) -> None:
        chosen = [
            [
                factor
                for factor in factors(row.case)
                if factor.parameter in wanted and (with_devices or factor.prior is not Prior.DEVICE)
            ]
            for row in rows
        ]
        self.names = list(dict.fromkeys(factor for row in chosen for factor in row))
        place = {factor: index for index, factor in enumerate(self.names)}
        self.takes = {parameter: np.zeros((len(rows), len(self.names))) for parameter in wanted}
        for number, row in enumerate(chosen):
            for factor in row:
                self.takes[factor.parameter][number, place[factor]] = 1.0
        self.mean = np.array([math.log(_expected(factor)) for factor in self.names])
        self.precision = np.array(
            [1 / (_SPREAD[factor.prior] * _WIDER[factor.parameter]) ** 2 for factor in self.names]
        )
        self.log_measured = np.log([row.measured_s for row in rows])
        self.weight = np.array([row.weight for row in rows])


def _solve(problem: _Problem, law: Law) -> Mapping[Parameter, Mapping[str, float]]:
    theta = problem.mean.copy()
    for _ in range(_STEPS):
        total, slopes = law({parameter: matrix @ theta for parameter, matrix in problem.takes.items()})
        residual = problem.log_measured - np.log(total)
        jacobian = np.zeros((len(residual), len(theta)))
        for parameter, slope in slopes.items():
            jacobian += slope[:, None] * problem.takes[parameter]
        trust = problem.weight * (_FREEDOM + 1) / (_FREEDOM + (residual / _RESIDUAL) ** 2) / _RESIDUAL**2
        curvature = (jacobian * trust[:, None]).T @ jacobian + np.diag(problem.precision)
        gradient = jacobian.T @ (trust * residual) - problem.precision * (theta - problem.mean)
        step = np.linalg.solve(curvature, gradient)
        longest = float(np.abs(step).max())
        theta = theta + step * min(1.0, _LONGEST_STEP / longest)
        if longest < _DONE:
            break
    logs: dict[Parameter, dict[str, float]] = {parameter: {} for parameter in Parameter}
    for factor, value in zip(problem.names, theta, strict=True):
        logs[factor.parameter][factor.name] = float(value)
    return MappingProxyType({parameter: MappingProxyType(values) for parameter, values in logs.items()})
