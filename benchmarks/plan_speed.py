"""Time of `make_plan` over the whole catalogue: three models in six quantizations each, with hybrids, one after the other in one process.

Two demands: one that has an interactive share, so that hybrids are made, and one of a nightly job. ``--exact N`` also simulates the N cheapest
machines of each kind with figures of their own, as the command does for its one model; the bar of 5 s is for the screening (0), which ranks.

Usage: python benchmarks/plan_speed.py [--exact 0] [--only chat]
"""

from __future__ import annotations

import argparse
import time
from datetime import UTC, datetime

from suffice.loaders.catalogue import load_catalogue
from suffice.loaders.planning import PlanRequest, make_plan
from suffice.loaders.reference import resolve_model
from suffice.model.demand import Demand, DemandKind, Lengths, Limit

MODELS = ("llama-3.1-8b", "qwen3-14b", "qwen3-30b-a3b")
RECIPES = ("q3_k_m", "q4_0", "q4_k_m", "q5_k_m", "q6_k", "q8_0")
PROMPT, OUTPUT = Lengths(p50=400, p95=1500), Lengths(p50=120, p95=300)
DEMANDS = {
    "chat": Demand(
        kind=DemandKind.INTERACTIVE,
        requests_per_second=0.1,
        interactive_share=0.3,
        prompt_tokens=PROMPT,
        output_tokens=OUTPUT,
        tokens_per_second_per_user=5.0,
        ttft=Limit(value_s=5.0, percentile=95.0),
    ),
    "job": Demand(
        kind=DemandKind.SCHEDULED,
        requests_per_second=5000 / 86400,
        window_s=8 * 3600.0,
        prompt_tokens=PROMPT,
        output_tokens=OUTPUT,
    ),
}


def main() -> None:
    """Print a line for each demand, and the slowest plan of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--exact", type=int, default=0)
    parser.add_argument("--only", choices=sorted(DEMANDS))
    arguments = parser.parse_args()
    catalogue, today = load_catalogue().catalogue, datetime.now(UTC).date()
    for name, demand in DEMANDS.items():
        if arguments.only not in (None, name):
            continue
        times, judged, kinds = {}, 0, set()
        for model in (f"{shape}:{recipe}" for shape in MODELS for recipe in RECIPES):
            start = time.perf_counter()
            plan = make_plan(
                PlanRequest(
                    demand=demand, model=resolve_model(model), catalogue=catalogue, today=today, exact=arguments.exact
                )
            )
            times[model] = time.perf_counter() - start
            judged += plan.judged
            kinds |= {option.kind.value for option in plan.options}
        slowest = max(times, key=lambda model: times[model])
        print(
            f"{name}: {len(times)} plans, {judged:,} options looked at ({', '.join(sorted(kinds))}) in {sum(times.values()):.2f} s; "
            f"slowest {slowest} {times[slowest]:.2f} s"
        )


if __name__ == "__main__":
    main()
