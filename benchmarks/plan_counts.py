"""How many machines a plan counts, against what each machine's own figures say of every count: random demands on random machines to rent.

A plan rules counts out by arithmetic and asks of the others only whether their slow end holds. Here every count from 1 on is simulated by the machine's
own figures, as ``suffice decide --instance`` does it. Printed: counts that differ, counts that arithmetic alone ruled out, and how busy machines were
that hold, over what the arithmetic lets them be.

With ``--cheapest`` the bill is looked at instead: every machine and count that costs less than the cheapest of the plan, CPU and GPU apart.

Usage: python -m benchmarks.plan_counts [--demands 60] [--seed 1] [--kind rate|users|job] [--cheapest]
"""

from __future__ import annotations

import argparse
import math
import random
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from suffice.decide.plan_load import Pace, WorkKind, elsewhere, work_of
from suffice.decide.plan_screen import forget, holds, own_outlook
from suffice.decide.plan_types import OptionKind
from suffice.decide.service_load import machines_share
from suffice.decide.verdict import Grade, decide_machine
from suffice.loaders.catalogue import load_catalogue
from suffice.loaders.plan_market import Market
from suffice.loaders.planning import PlanRequest, make_plan
from suffice.loaders.reference import resolve_model
from suffice.model.demand import Demand, DemandKind, Lengths, Limit
from suffice.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.plan_machines import Offer

MODELS = ("llama-3.1-8b:q4_k_m", "qwen3-30b-a3b:q4_k_m", "qwen2.5-1.5b:q4_k_m", "llama-3.2-1b:q4_k_m")
MOST = 8
MACHINES = 3  # of each demand
LEAST = 0.001  # of a bill that is cheaper
LENIENT = 0.7  # of the machines that arithmetic asks for: fewer are not tried for a cheaper one
TTFT_STATED = 0.7  # of demands that state a rate for each user


def random_demand(kind: str, rng: random.Random) -> Demand:
    """Short and long prompts and answers, loose and tight limits, and a margin."""
    prompt, output = rng.choice([50, 400, 900, 2000]), rng.choice([12, 120, 300])
    any_kind = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=prompt, p95=prompt * rng.choice([1, 2.5])),
        output_tokens=Lengths(p50=output, p95=output * rng.choice([1, 2])),
        margin=rng.choice([1.0, 1.3, 1.5, 2.0]),
    )
    if kind == "job":
        rate = 10 ** rng.uniform(-3, 0)
        job = replace(any_kind, kind=DemandKind.SCHEDULED, requests_per_second=rate, rate_is_daily=True)
        return replace(job, window_s=8 * SECONDS_PER_HOUR)
    pace = rng.choice([None, 2.0, 5.0, 10.0])
    first = Limit(value_s=rng.choice([0.5, 2.0, 5.0, 20.0]), percentile=rng.choice([50.0, 95.0]))
    ttft = first if pace is None or rng.random() < TTFT_STATED else None
    limited = replace(any_kind, tokens_per_second_per_user=pace, ttft=ttft)
    if kind == "users":
        return replace(limited, concurrent_users=rng.choice([2, 3, 5, 6, 8, 9, 12, 20]))
    return replace(limited, requests_per_second=10 ** rng.uniform(-2.5, 0.5))


def own_count(demand: Demand, evidence: MachineEvidence) -> int | None:
    """The fewest that are enough by figures of their own; None: more than are tried."""
    for count in range(1, MOST + 1):
        if is_enough(demand, evidence, count):
            return count
    return None


def is_enough(demand: Demand, evidence: MachineEvidence, count: int) -> bool:
    """By figures of their own."""
    verdict = decide_machine(machines_share(demand, count), evidence, own_outlook(demand, evidence, count))
    return verdict.grade is Grade.ENOUGH


@dataclass
class Tally:
    """What was seen of machines that are enough by their own figures."""

    compared: int = 0
    differ: int = 0
    by_more: int = 0
    ruled_out: int = 0
    shares: list[float] = field(default_factory=list)

    def take(self, demand: Demand, evidence: MachineEvidence) -> tuple[int | None, int] | None:
        """Both counts where they differ: as screened, and by its own figures."""
        work, pace = work_of(demand, evidence), Pace.of(evidence)
        own = own_count(demand, evidence)
        if own is None:
            return None
        forget()
        least = pace.least(work)
        counts = range(int(min(least, MOST + 1)), MOST + 1)
        planned = next((count for count in counts if holds(demand, evidence, count) is not None), None)
        self.compared += 1
        self.differ += planned != own
        self.ruled_out += least > own
        self.by_more += planned is None or abs(planned - own) > 1
        if work.kind is WorkKind.RATE and own > 1:
            self.shares.append(work.demanded * work.margin * pace.request_s(work) / own / pace.busy_at_most(work))
        return None if planned == own else (planned, own)

    @property
    def words(self) -> str:
        """In one line."""
        highest = (
            f"; busy share of several that hold, over what arithmetic allows: up to {max(self.shares, default=0.0):.2f}"
        )
        return (
            f"{self.compared} machines that are enough; {self.differ} counted otherwise, "
            f"{self.by_more} of them by more than one machine; {self.ruled_out} ruled out by arithmetic alone"
            + (highest if self.shares else "")
        )


def compare_counts(there: Demand, model: str, offers: Sequence[Offer], rng: random.Random, tally: Tally) -> None:
    """On some machines that keep the limits of one request."""
    every = [offer.prospect.evidence for offer in offers]
    able = [one for one in every if Pace.of(one).keeps_alone(work_of(there, one))]
    for evidence in rng.sample(able, min(MACHINES, len(able))):
        found = tally.take(there, evidence)
        if found is not None:
            print(f"{model} on {evidence.name}: {found[0]} screened, {found[1]} by its own figures")


@dataclass
class Bills:
    """What plans say of the cheapest, and what any other machine costs that is enough by its own figures."""

    compared: int = 0
    dearer: list[float] = field(default_factory=list)
    missed: int = 0

    def take(self, request: PlanRequest, kind: OptionKind) -> None:
        """Of one plan the cheapest machine of a kind in US dollars."""
        forget()
        plan = make_plan(replace(request, kinds=(kind,)))
        bills = [
            (one.prices[0].amount * one.count, one.name)
            for one in plan.options
            if one.is_enough and one.prices and one.prices[0].currency == "USD"
        ]
        price, name = min(bills, default=(math.inf, "none"))
        cheaper = self._cheaper(request, kind, price)
        if name == "none" and cheaper is None:
            return
        self.compared += 1
        if cheaper is None:
            return
        print(f"{plan.model}: {name} at {price:.3f} USD an hour, {cheaper[1]} at {cheaper[0]:.3f}")
        if name == "none":
            self.missed += 1
        else:
            self.dearer.append(price / cheaper[0])

    @property
    def words(self) -> str:
        """In one line."""
        most = f", by up to {max(self.dearer) - 1:.0%}" if self.dearer else ""
        return (
            f"{self.compared} plans with a machine that is enough; a cheaper one is enough by its own figures in {len(self.dearer)}{most}; "
            f"none is shown where one is enough in {self.missed}"
        )

    @staticmethod
    def _cheaper(request: PlanRequest, kind: OptionKind, price: float) -> tuple[float, str] | None:
        there = elsewhere(request.demand)
        offers = [one for one in Market.of(request).offers if one.kind is kind and one.price is not None]
        bills = sorted(
            (one.price.amount * count, count, number)
            for number, one in enumerate(offers)
            if one.price is not None and one.price.currency == "USD"
            for count in range(1, MOST + 1)
            if one.price.amount * count < price * (1 - LEAST)
        )
        for bill, count, number in bills:
            evidence = offers[number].prospect.evidence
            if count >= LENIENT * Pace.of(evidence).least(work_of(there, evidence)) and is_enough(
                there, evidence, count
            ):
                return bill, f"{count} x {evidence.name}"
        return None


def main() -> None:
    """Print each machine whose counts differ, or each plan that has a cheaper one, then the sums."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--demands", type=int, default=60)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--cheapest", action="store_true")
    parser.add_argument("--kind", choices=("rate", "users", "job"), default="rate")
    arguments = parser.parse_args()
    rng = random.Random(arguments.seed)  # noqa: S311  # reproducible, no secret
    catalogue, today = load_catalogue().catalogue, datetime.now(UTC).date()
    tally, bills = Tally(), Bills()
    for _ in range(arguments.demands):
        demand, model = random_demand(arguments.kind, rng), rng.choice(MODELS)
        request = PlanRequest(demand=demand, model=resolve_model(model), catalogue=catalogue, today=today)
        if arguments.cheapest:
            bills.take(request, OptionKind.CPU)
            bills.take(request, OptionKind.GPU)
        else:
            compare_counts(elsewhere(demand), model, Market.of(request).offers, rng, tally)
    print(f"{arguments.kind}: {bills.words if arguments.cheapest else tally.words}")


if __name__ == "__main__":
    main()
