"""Required, available and headroom of each constraint, worked by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import batch_demand, evidence, run_record
from suffice.decide.constraint import Constraint, Sense
from suffice.decide.constraints import constraints_for
from suffice.decide.evidence import evidence_from
from suffice.decide.quantity import Quantity
from suffice.decide.service import outlook
from suffice.errors import DemandError
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence

LENGTH = Lengths(p50=512, p95=512)
HOUR_S = 3600


def _named(name: str, demand: Demand, machine: MachineEvidence) -> Constraint:
    (found,) = [constraint for constraint in constraints_for(demand, machine) if constraint.name == name]
    return found


def _names(demand: Demand) -> list[str]:
    return [constraint.name for constraint in constraints_for(demand, evidence())]


def test_which_constraints_a_demand_has() -> None:
    """Each kind gives its own constraints; a limit that is not stated gives none."""
    work: dict[str, Any] = {"prompt_tokens": LENGTH, "output_tokens": LENGTH, "requests_per_second": 0.01}
    chat = Demand(kind=DemandKind.INTERACTIVE, prompt_tokens=LENGTH, ttft=Limit(value_s=2, percentile=95))
    scheduled = batch_demand(kind=DemandKind.SCHEDULED, window_s=HOUR_S)

    assert _names(single_stream_need(8)) == ["decode_tokens_per_second", "memory_bytes"]
    assert _names(chat) == ["ttft_s", "memory_bytes"]
    assert _names(replace(chat, concurrent_users=2)) == ["capacity_users", "ttft_s", "memory_bytes"]
    assert _names(replace(chat, **work)) == ["capacity_requests_per_second", "ttft_s", "memory_bytes"]
    assert _names(batch_demand()) == ["sustained_tokens_per_second", "memory_bytes"]
    assert _names(scheduled) == ["wall_time_s", "memory_bytes"]


def test_decode_of_one_stream() -> None:
    """Need 8, measured 20: headroom 2.5, and its range is that of the interval."""
    constraint = _named("decode_tokens_per_second", single_stream_need(8), evidence(decode=20))

    assert constraint.required == 8
    assert constraint.available is not None
    assert constraint.headroom == pytest.approx(20 / 8, rel=0.01)
    assert constraint.headroom_range == (
        pytest.approx(constraint.available.low / 8),  # type: ignore[operator]
        pytest.approx(constraint.available.high / 8),  # type: ignore[operator]
    )


def test_the_rate_of_users_is_from_nothing_gained_to_everything() -> None:
    """Four users on 20 tokens/s: a quarter of 20 less the prompts between them at the low end, at most 20 each at the high end."""
    demand = replace(single_stream_need(8), concurrent_users=4)

    constraint = _named("decode_tokens_per_second", demand, evidence(decode=20))

    assert constraint.available is not None
    assert constraint.available.low is not None
    assert constraint.available.high is not None
    assert constraint.available.low < 20 / 4
    assert constraint.available.high == pytest.approx(20 * 1.02 * 1.15)
    assert (constraint.margin, constraint.several) == (1.0, True)


def test_batch_needs_prefill_and_decode_work() -> None:
    """A batch is judged by seconds per request over both phases, not by its decode rate.

    Prompt 512 at 100 tokens/s: 5.12 s, and the first token. 127 more at 10 tokens/s: 12.7 s. Together 17.82 s, at the low end of the interval
    (0.98) and of the simulation (1.15) 20.9 s for 640 tokens: 30.6 tokens/s one at a time; at most the prefill rate of 100, 117.3 at
    the high ends, with perfect batching. One request a minute needs 640 / 60 = 10.67.
    """
    machine = evidence(decode=10, prefill=100, depth=576)

    constraint = _named("sustained_tokens_per_second", batch_demand(), machine)

    assert constraint.required == pytest.approx(640 / 60)
    assert constraint.available is not None
    assert constraint.available.low == pytest.approx(640 / (17.82 / 0.98 * 1.15), rel=0.001)
    assert constraint.available.point == constraint.available.low
    assert constraint.available.high == pytest.approx(102 * 1.15, rel=0.01)


def test_a_window_compresses_the_days_work() -> None:
    """The day's requests inside of 6 hours need four times the rate; a rate per second or hour already is the rate in there."""
    machine = evidence()
    all_day = _named("sustained_tokens_per_second", batch_demand(), machine).required
    in_window = batch_demand(window_s=6 * HOUR_S, rate_is_daily=True)
    six_hours = _named("sustained_tokens_per_second", in_window, machine).required
    as_a_rate = _named("sustained_tokens_per_second", batch_demand(window_s=6 * HOUR_S), machine).required

    assert all_day is not None
    assert six_hours == pytest.approx(4 * all_day)
    assert as_a_rate == pytest.approx(all_day)


def test_scheduled_needs_its_wall_time_inside_the_window() -> None:
    """100 requests of 20.9 s are 2091 s one at a time, and 546 s or a little more with perfect batching at 117.3 tokens/s."""
    demand = batch_demand(kind=DemandKind.SCHEDULED, requests_per_second=100 / 86400, window_s=HOUR_S)

    constraint = _named("wall_time_s", demand, evidence(decode=10, prefill=100, depth=576))

    assert constraint.sense is Sense.AT_MOST
    assert constraint.required == 3600
    assert constraint.available is not None
    assert constraint.available.high == pytest.approx(2091, rel=0.001)
    assert constraint.available.low == pytest.approx(64000 / 117.3, rel=0.03)
    assert constraint.headroom == pytest.approx(3600 / 2091, rel=0.01)


def test_ttft_uses_the_prompt_at_its_percentile() -> None:
    """A limit at P95 is asked of the P95 prompt: 512 of 1024 tokens is half of the time."""
    lengths = Lengths(p50=256, p95=512)
    machine = evidence(prefill=100, decode=20)

    def available(percentile: float) -> float:
        limit = Limit(value_s=9, percentile=percentile)
        demand = Demand(kind=DemandKind.INTERACTIVE, prompt_tokens=lengths, ttft=limit)
        quantity = _named("ttft_s", demand, machine).available
        assert quantity is not None
        return quantity.point

    assert available(50) == pytest.approx(2.56 + 0.05, rel=0.01)
    assert available(95) == pytest.approx(5.12 + 0.05, rel=0.01)


def test_users_ask_for_their_first_token_at_once() -> None:
    """Three users with equal prompts: none has its first token before an idle machine would, the last waits for three prompts at least."""
    limit = Limit(value_s=9, percentile=95)
    one = Demand(kind=DemandKind.INTERACTIVE, prompt_tokens=LENGTH, ttft=limit)
    idle = _named("ttft_s", one, evidence()).available
    shared = _named("ttft_s", replace(one, concurrent_users=3), evidence()).available

    assert idle is not None
    assert shared is not None
    assert idle.low is not None
    assert shared.low is not None
    assert shared.high is not None
    assert shared.low >= idle.low / 1.15 - 0.1
    assert shared.high > 3 * 5.12


def test_an_endless_queue_has_no_first_token() -> None:
    """More arrivals than are answered one at a time: the slow end waits for ever, and the headroom is 0 there, never a number."""
    demand = batch_demand(kind=DemandKind.INTERACTIVE, requests_per_second=0.1, ttft=Limit(value_s=60, percentile=95))

    constraint = _named("ttft_s", demand, evidence(decode=10, prefill=100, depth=576))

    assert constraint.available is not None
    assert constraint.available.high == math.inf
    assert constraint.headroom_range[0] == 0


def test_a_rare_request_does_not_wait() -> None:
    """One in 1000 s, each served in 20 s at most: nineteen of twenty find the machine idle and get 5.12 s, at the slow end 6.01."""
    demand = batch_demand(kind=DemandKind.INTERACTIVE, requests_per_second=0.001, ttft=Limit(value_s=60, percentile=95))

    available = _named("ttft_s", demand, evidence(decode=10, depth=576)).available

    assert available is not None
    assert available.high == pytest.approx(5.12 / 0.98 * 1.15, rel=0.01)


def test_memory_is_weights_and_cache_of_all_streams() -> None:
    """1 GB of weights and 2 streams of 1000 tokens at 100 kB: 1.2 GB are required; 16 GiB are there, with no margin."""
    demand = replace(single_stream_need(8), concurrent_users=2, context_tokens=1000)

    constraint = _named("memory_bytes", demand, evidence())

    assert constraint.required == 1_000_000_000 + 2 * 1000 * 100_000
    assert constraint.available is not None
    assert (constraint.available.point, constraint.available.basis) == (16 * 2**30, Basis.MEASURED)
    assert (constraint.margin, constraint.of_speed) == (1.0, False)


def test_memory_is_for_the_slots_that_serve() -> None:
    """A rate says nothing of streams: what is required is the cache of the slots that hold it, as the note says."""
    demand = batch_demand(kind=DemandKind.INTERACTIVE, requests_per_second=0.01, ttft=Limit(value_s=60, percentile=95))
    machine = evidence(decode=10, prefill=100, depth=576)
    service = outlook(demand, machine)

    constraint = _named("memory_bytes", demand, machine)

    assert service is not None
    assert constraint.required == 1_000_000_000 + service.slots * 640 * 100_000


def test_stated_memory_replaces_the_machines() -> None:
    """What the demand grants counts, and its basis is that somebody stated it."""
    constraint = _named("memory_bytes", replace(single_stream_need(8), memory_bytes=2e9), evidence())

    assert constraint.available is not None
    assert (constraint.available.point, constraint.available.basis) == (2e9, Basis.STATED)


def test_unknown_memory_is_not_zero() -> None:
    """A record without the model's cache size requires an unknown amount: None, and no headroom is made up."""
    record = run_record()
    machine = evidence_from(replace(record, model=replace(record.model, kv_bytes_per_token=None)))

    constraint = _named("memory_bytes", replace(single_stream_need(8), memory_bytes=2e9), machine)

    assert constraint.required is None
    assert constraint.headroom is None


def test_what_nobody_measures_is_shown_and_not_judged() -> None:
    """Quality floor and budget appear with what was stated, unknown available, and judged False."""
    demand = replace(single_stream_need(8), quality_floor=0.9, budget_per_month=50.0, currency="EUR")
    shown = {c.name: c for c in constraints_for(demand, evidence()) if not c.judged}

    assert {name: c.required for name, c in shown.items()} == {"quality_floor": 0.9, "budget_per_month": 50.0}
    assert all(c.available is None and c.headroom is None for c in shown.values())


def test_a_context_that_the_model_lacks_is_impossible() -> None:
    """No hardware makes a model's context longer: the demand is refused with both numbers."""
    with pytest.raises(DemandError, match=r"40000 tokens.*32768"):
        constraints_for(replace(single_stream_need(8), context_tokens=40000), evidence())


@pytest.mark.parametrize(
    ("sense", "value", "headroom"),
    [
        (Sense.AT_LEAST, 20.0, 2.0),
        (Sense.AT_MOST, 20.0, 0.5),
        (Sense.AT_MOST, 0.0, math.inf),
        (Sense.AT_LEAST, 0.0, 0.0),
    ],
)
def test_headroom_is_a_ratio_to_the_requirement(sense: Sense, value: float, headroom: float) -> None:
    """Available over required where more is better, required over available where less is better."""
    constraint = Constraint(name="x", unit="s", sense=sense, required=10.0, available=Quantity.bare(value), margin=1.5)

    assert constraint.headroom == headroom
    assert constraint.headroom_range == (headroom, headroom)


def test_headroom_of_the_unknown_is_unknown() -> None:
    """Without an available value, or with one that is not bounded, the headroom has no value or no end."""
    unknown = Constraint(name="x", unit="s", sense=Sense.AT_MOST, required=10.0, available=None, margin=1.5)
    open_above = replace(unknown, available=Quantity(point=5.0, low=4.0, high=None, basis=Basis.MEASURED))

    assert (unknown.headroom, unknown.headroom_range) == (None, (None, None))
    assert open_above.headroom_range == (None, 2.5)
