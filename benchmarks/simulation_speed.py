"""Time of simulated requests on one core: the whole of `simulate`, from drawing the load to arrays of times.

CPU seconds of this process, which other programs on the machine disturb less than the clock on the wall, and both are printed.

Usage: python benchmarks/simulation_speed.py [--requests 1000000] [--slots 32] [--only vLLM] [--output-tokens 200 20]
"""

from __future__ import annotations

import argparse
import gc
import time

from suffice.model.demand import Lengths
from suffice.serving.curve import ServiceCurve, curve_of_points
from suffice.serving.load import FixedLength, Load, LognormalLength, OpenArrivals
from suffice.serving.schedulers import KvLayout, LlamaCppScheduler, Scheduler, VllmScheduler
from suffice.serving.simulate import simulate
from suffice.serving.surface import Point

CONTEXT = 4096


def measured_curve() -> ServiceCurve:
    """A curve in the form of measured points: 9 depths and batches to 32, chunks to 2048 tokens."""
    depths = (0, 512, 1024, 2048, 4096)
    decode = [
        Point(size=size, depth=depth, seconds=0.006 + 0.0002 * size + 4e-8 * size * depth)
        for size in (1, 2, 4, 8, 16, 32)
        for depth in depths
    ]
    prefill = [
        Point(size=size, depth=depth, seconds=0.006 + 0.00004 * size + 2e-9 * size * depth)
        for size in (16, 64, 256, 512, 2048)
        for depth in depths
    ]
    return curve_of_points(decode, prefill)


def timed(scheduler: Scheduler, rate_per_s: float, output_tokens: int, requests: int) -> str:
    """One line of the table."""
    load = Load(
        arrivals=OpenArrivals(rate_per_s=rate_per_s),
        prompt=LognormalLength(lengths=Lengths(p50=256, p95=1024)),
        output=FixedLength(tokens=output_tokens),
        requests=requests,
    )
    gc.collect()
    wall, cpu = time.perf_counter(), time.process_time()
    run = simulate(measured_curve(), scheduler, load, 1)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    mean_batch = float(run.output_tokens.sum()) / run.steps
    return (
        f"{output_tokens} | {rate_per_s:g} | {run.busy_s / run.end_s:.0%} | {mean_batch:.1f} | {run.output_tokens.sum():,} "
        f"| {cpu:.1f} | {wall:.1f} | {cpu / requests * 1_000_000:.1f} |"
    )


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1_000_000)
    parser.add_argument("--slots", type=int, default=32)
    parser.add_argument("--only", default="", help="schedulers whose names hold this")
    parser.add_argument("--output-tokens", type=int, nargs="+", default=[200, 20])
    arguments = parser.parse_args()
    slots = arguments.slots
    schedulers: dict[str, Scheduler] = {
        "llama.cpp, shared cache": LlamaCppScheduler(
            slots=slots, context_tokens=CONTEXT * slots, layout=KvLayout.UNIFIED
        ),
        "llama.cpp, a cache each": LlamaCppScheduler(slots=slots, context_tokens=CONTEXT * slots),
        "vLLM-like": VllmScheduler(max_sequences=slots, context_tokens=CONTEXT, blocks=slots * CONTEXT // 32),
    }
    print(
        "| scheduler | output tokens | requests/s asked | engine busy | tokens a step | tokens | CPU s | wall s | CPU us a request |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for name in (name for name in schedulers if arguments.only in name):
        scheduler = schedulers[name]
        for output_tokens in arguments.output_tokens:
            for rate_per_s in (8.0 if output_tokens >= 100 else 25.0, 1000.0):
                print(f"| {name} | {timed(scheduler, rate_per_s, output_tokens, arguments.requests)}", flush=True)


if __name__ == "__main__":
    main()
