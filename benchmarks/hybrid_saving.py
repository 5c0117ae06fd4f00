"""What a hybrid saves: an A100 for the requests that wait and CPU instances for the rest, against GPUs alone, at the catalogue's prices.

For each share of requests that wait and each volume, the cheapest hybrid and what it saves against the cheapest GPUs that do everything at the
roofline through their predicted speeds, with the range from GPUs that batch as freely as their prefill rate allows to GPUs that gain nothing by batches.

Usage: python benchmarks/hybrid_saving.py [--work chat] [--gpus a100] [--model llama-2-7b:q4_k_m] [--shares 0.05 0.2 0.5]
       [--per-day 1000 10000 50000] [--idle] [--seconds]
"""

from __future__ import annotations

import argparse
import time
from typing import TYPE_CHECKING, Final

from suffice.catalogue.catalogue import shipped
from suffice.decide.plan_hybrid import found_hybrids
from suffice.decide.plan_hybrid_parts import parts_of, rented
from suffice.decide.prospects import predicted_lengths, standings
from suffice.loaders.prospects import prospects_of
from suffice.loaders.reference import resolve_model
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.serving.capacity import at_rate
from suffice.serving.mix import Mix, others_beside
from suffice.serving.search import Trial
from suffice.units import KILO, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from suffice.decide.plan_hybrid import Hybrid
    from suffice.decide.plan_hybrid_gpus import Fleet
    from suffice.decide.prospects import Standing

WORKS: Final = {
    "chat": (Lengths(p50=400, p95=1500), Lengths(p50=120, p95=300)),
    "long-answers": (Lengths(p50=100, p95=200), Lengths(p50=400, p95=800)),
}
A100: Final = ("azure/Standard_NC24ads_A100_v4", "gcp/a2-highgpu-1g", "gcp/a2-ultragpu-1g")
STREAMS: Final = (1, 4, 16, 32)
SLOTS: Final = 8  # for requests that wait
ONE_RUN: Final = Trial(runs=1, confidence=0.5)


def demand_of(work: str, share: float, per_day: float) -> Demand:
    """A chat and its batch work: the first token in 3 s and 8 tokens/s, both for 95 % of the requests that wait."""
    prompt, output = WORKS[work]
    return Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=prompt,
        output_tokens=output,
        requests_per_second=per_day / SECONDS_PER_DAY,
        interactive_share=share,
        ttft=Limit(value_s=3.0, percentile=95.0),
        tokens_per_second_per_user=8.0,
    )


def machines(work: str, model: str, gpus: str) -> tuple[list[Standing], list[Standing]]:
    """GPU and CPU instances with prices in USD; of GPUs those that are asked for."""
    catalogue = shipped()
    steady = [machine for machine in catalogue.instances if not machine.is_burstable]
    lengths = predicted_lengths(demand_of(work, 0.5, SECONDS_PER_DAY))
    prospects = prospects_of(steady, catalogue, resolve_model(model), lengths)
    found = [
        one
        for one in standings(single_stream_need(1.0), prospects)
        if one.prospect.price is not None and one.prospect.price.currency == "USD"
    ]
    gpu = [one for one in found if one.prospect.evidence.is_gpu and (gpus == "all" or one.prospect.name in A100)]
    return gpu, [one for one in found if not one.prospect.evidence.is_gpu]


def named(fleet: Fleet) -> str:
    """Short: "2 x name"."""
    return f"{fleet.count} x {fleet.machine.name.split('/')[-1]}"


def percent(value: float | None) -> str:
    """A share, or that it is not known."""
    return "not known" if value is None else f"{value:.0%}".replace("%", " %")


def row(hybrid: Hybrid) -> str:
    """The cells behind share and volume."""
    saving = hybrid.saving
    cells = [
        "not known" if alone is None else f"{alone.count} ({alone.monthly:,.0f})"
        for alone in (saving.likely_alone, saving.shown_alone)
    ]
    proof = "" if hybrid.waiting.shown else " (not shown)"
    what = f"{hybrid.waiting.count} + {named(hybrid.rest)}{proof} | {hybrid.monthly:,.0f}"
    return (
        f"{' | '.join(cells)} | {what} | {percent(saving.likely)} | {percent(saving.low)} to {percent(saving.high)} |"
    )


def print_table(arguments: argparse.Namespace) -> None:
    """Print one line for each share and volume."""
    gpu, cpu = machines(arguments.work, arguments.model, arguments.gpus)
    print("| waits | requests a day | GPUs alone, likely | shown | hybrid | USD a month | likely saves | range |")
    print("|---|---|---|---|---|---|---|---|")
    for share in arguments.shares:
        for per_day in arguments.per_day:
            start = time.perf_counter()
            found = found_hybrids(demand_of(arguments.work, share, per_day), gpu, cpu)
            took = f" {time.perf_counter() - start:.3f} s" if arguments.seconds else ""
            cells = row(found[0]) if found else "| | none | | | |"
            print(f"| {100 * share:g} % | {per_day:,.0f} | {cells}{took}", flush=True)
    print_costs(arguments.work, gpu, cpu)


def print_costs(work: str, gpu: list[Standing], cpu: list[Standing]) -> None:
    """What 1,000 requests cost on the machine that is cheapest for them, at both ends, and CPUs over GPUs."""
    parts = parts_of(demand_of(work, 0.5, SECONDS_PER_DAY))
    if parts is None:
        return
    ends = []
    for found in (cpu, gpu):
        able = [one for standing in found if (one := rented(standing, parts)) is not None]
        slow = min(one.price.per_hour / one.one_by_one_per_s for one in able if one.one_by_one_per_s > 0)
        fast = min(one.price.per_hour / one.most_per_s for one in able)
        ends.append([cost / SECONDS_PER_HOUR * KILO for cost in (slow, fast)])
    (cpu_slow, cpu_fast), (gpu_slow, gpu_fast) = ends
    print(f"1,000 requests: CPU {cpu_fast:.3g} to {cpu_slow:.3g} USD, GPU {gpu_fast:.3g} to {gpu_slow:.3g} USD")
    print(
        f"rho: {cpu_fast / gpu_slow:.2g} at the least, {cpu_slow / gpu_slow:.2g} without batches, {cpu_slow / gpu_fast:.2g} at most"
    )


def print_idle(arguments: argparse.Namespace) -> None:
    """Print what one A100 answers of the rest beside requests that wait, at the roofline: of how much use its idle time is."""
    gpu, _ = machines(arguments.work, arguments.model, "a100")
    print("| waits, requests/s | streams of the rest | its requests/s |")
    print("|---|---|---|")
    for per_s in (0.05, 0.2, 1.0, 2.0):
        parts = parts_of(demand_of(arguments.work, 0.5, 2 * per_s * SECONDS_PER_DAY))
        machine = None if parts is None else rented(gpu[0], parts)
        if machine is None or machine.likely is None:
            continue
        case = machine.waiting
        for streams in STREAMS:
            mix = Mix(waited_for=at_rate(case.load(), per_s), others=machine.rest.load(), streams=streams)
            answered = others_beside(machine.likely, case.scheduler(SLOTS + streams), mix, case.limits, ONE_RUN)
            text = "limits fail" if answered is None else f"{answered:.2f}"
            print(f"| {per_s:g} | {streams} | {text} |", flush=True)
            if answered is None:
                break


def main() -> None:
    """Print the tables that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--work", choices=sorted(WORKS), default="chat")
    parser.add_argument("--gpus", choices=["a100", "all"], default="a100")
    parser.add_argument("--model", default="llama-2-7b:q4_k_m")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.05, 0.2, 0.5])
    parser.add_argument("--per-day", type=float, nargs="+", default=[1000.0, 10000.0, 50000.0])
    parser.add_argument("--idle", action="store_true", help="what idle time is of use, instead of the saving")
    parser.add_argument("--seconds", action="store_true", help="how long each line took")
    arguments = parser.parse_args()
    if arguments.idle:
        print_idle(arguments)
    else:
        print_table(arguments)


if __name__ == "__main__":
    main()
