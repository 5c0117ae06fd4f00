"""The simulation beside queueing theory: M/D/1, M/M/c, Little's law.

Usage: python benchmarks/simulation_theory.py [--requests 200000] [--runs 8]
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import numpy as np

from suffice.serving.curve import ServiceCurve, curve_of_points
from suffice.serving.load import ArrivalKind, EmpiricalLength, FixedLength, Load, OpenArrivals
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, Scheduler, VllmScheduler
from suffice.serving.simulate import simulate
from suffice.serving.summary import estimate_over
from suffice.serving.surface import Point
from suffice.serving.theory import md1_mean_wait_s, mmc_mean_wait_s

if TYPE_CHECKING:
    from suffice.serving.run import SimulatedRun

STEP_S = 0.01
MEAN_TOKENS = 400


def flat_curve() -> ServiceCurve:
    """Every pass takes the same time, whatever is in it: an answer of n tokens takes n steps."""
    points = [Point(size=size, depth=0, seconds=STEP_S) for size in (1, 4096)]
    return curve_of_points(points, points)


def mean_wait_s(run: SimulatedRun) -> float:
    """Mean time in the queue of the last nine tenths of the requests."""
    return float(run.queueing_s[len(run.queueing_s) // 10 :].mean())


def little_error(run: SimulatedRun) -> float:
    """Mean number in the system, from a count at random moments, against the sum of times over the length of the run."""
    moments = np.random.default_rng(1).uniform(0, run.end_s, 400_000)
    inside = np.searchsorted(np.sort(run.arrival_s), moments) - np.searchsorted(np.sort(run.finish_s), moments)
    return float(inside.mean() / (run.e2e_s.sum() / run.end_s) - 1)


def row(name: str, scheduler: Scheduler, load: Load, expected_s: float, runs: int) -> str:
    """One line of the table."""
    simulated = [simulate(flat_curve(), scheduler, load, seed) for seed in range(runs)]
    wait = estimate_over([mean_wait_s(run) for run in simulated])
    interval = "" if wait.interval is None else f"{wait.interval.low:.3f} to {wait.interval.high:.3f}"
    little = max((abs(little_error(run)) for run in simulated), default=0.0)
    inside = wait.interval is not None and wait.interval.low <= expected_s <= wait.interval.high
    return (
        f"| {name} | {expected_s:.3f} | {wait.point:.3f} | {interval} | {wait.point / expected_s - 1:+.1%} "
        f"| {'yes' if inside else 'no'} | {little:.2%} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=8)
    arguments = parser.parse_args()
    service_s = MEAN_TOKENS * STEP_S
    print(
        "| queue | theory, mean wait s | simulated, median of runs | interval | difference | inside | Little, worst |"
    )
    print("|---|---|---|---|---|---|---|")
    drawn = np.random.default_rng(7).geometric(1 / MEAN_TOKENS, 400_000)
    for load_share in (0.3, 0.5, 0.7, 0.9):
        rate_per_s = load_share / service_s
        load = Load(
            arrivals=OpenArrivals(rate_per_s=rate_per_s, kind=ArrivalKind.POISSON),
            prompt=FixedLength(tokens=1),
            output=FixedLength(tokens=MEAN_TOKENS),
            requests=arguments.requests,
        )
        one = LlamaCppScheduler(slots=1, context_tokens=1 << 14)
        expected_s = md1_mean_wait_s(rate_per_s, service_s)
        print(row(f"M/D/1, load {load_share}", one, load, expected_s, arguments.runs), flush=True)
    mean_s = float(drawn.mean()) * STEP_S
    for slots, load_share in ((1, 0.7), (4, 0.7), (4, 0.9), (16, 0.9)):
        rate_per_s = load_share * slots / mean_s
        load = Load(
            arrivals=OpenArrivals(rate_per_s=rate_per_s, kind=ArrivalKind.POISSON),
            prompt=FixedLength(tokens=1),
            output=EmpiricalLength(tokens=tuple(drawn.tolist())),
            requests=arguments.requests,
        )
        expected_s = mmc_mean_wait_s(rate_per_s, mean_s, slots)
        schedulers: dict[str, Scheduler] = {
            "slots": LlamaCppScheduler(slots=slots, context_tokens=1 << 18, layout=KvLayout.UNIFIED),
            "blocks": VllmScheduler(max_sequences=slots, context_tokens=1 << 14, blocks=1 << 16),
        }
        for name, scheduler in schedulers.items():
            title = f"M/M/{slots}, load {load_share}, {name}"
            print(row(title, scheduler, load, expected_s, arguments.runs), flush=True)


if __name__ == "__main__":
    main()
