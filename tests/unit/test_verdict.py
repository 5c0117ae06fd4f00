"""The verdict on one machine: four words, a reason each, and what takes evidence away."""

from __future__ import annotations

from dataclasses import replace

import pytest

from helpers.records import bare_record, batch_demand, evidence, run_record
from suffice.decide.advice import settle_sentence
from suffice.decide.compare import decide
from suffice.decide.evidence import evidence_from
from suffice.decide.verdict import Grade, Verdict, decide_machine
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, single_stream_need
from suffice.records.schema import RunRecord

CPU = "cpu"
THIN = "cpu, thin margin \u2014 recheck after quantization"
GPU = "gpu"
UNDECIDED = "undecided"


def _bare(required: float, measured: float | None, margin: float = 1.5) -> Verdict:
    return decide_machine(single_stream_need(required, margin), evidence_from(bare_record(measured)))


@pytest.mark.parametrize(
    ("required", "measured", "word"), [(8, 14, CPU), (9, 10, THIN), (9, 8, GPU), (9, 13.5, CPU), (9, 9, THIN)]
)
def test_plain_numbers_get_the_articles_verdict(required: float, measured: float, word: str) -> None:
    """The three branches of the article, in its words, on records that hold one number."""
    verdict = _bare(required, measured)

    assert verdict.verdict == word
    assert verdict.binding == "decode_tokens_per_second"
    assert verdict.basis is Basis.MEASURED
    assert "plain numbers without intervals" in verdict.reason


def test_the_interval_decides_not_the_point() -> None:
    """A point of 12.1 against 8 x 1.5 with an interval that reaches below 12 is thin; the need is met, the margin is not sure."""
    assert decide_machine(single_stream_need(8), evidence(decode=12.1)).verdict == THIN
    assert decide_machine(single_stream_need(8), evidence(decode=12.4)).verdict == CPU


def test_an_interval_across_the_requirement_is_undecided() -> None:
    """8 needed and 7.9 to 8.2 measured: neither enough nor not enough, and longer measuring settles it."""
    verdict = decide_machine(single_stream_need(8), evidence(decode=8.05))

    assert verdict.verdict == UNDECIDED
    assert verdict.settle is not None
    assert "Measure longer" in verdict.settle


def test_one_repetition_decides_nothing() -> None:
    """A single sample has no interval: undecided, although the point is ten times the need."""
    record = run_record(decode=80)
    series = record.measurement.decode[0]
    assert series.tokens_per_second is not None
    single = replace(series.tokens_per_second, interval=None)
    measurement = replace(record.measurement, decode=(replace(series, tokens_per_second=single),))

    verdict = decide_machine(single_stream_need(8), evidence_from(replace(record, measurement=measurement)))

    assert verdict.verdict == UNDECIDED
    assert verdict.settle is not None
    assert "repetitions" in verdict.settle


def test_a_missing_number_is_undecided() -> None:
    """No decode measurement is not a decode rate of 0: undecided, and the next step is to measure it."""
    verdict = _bare(8, None)

    assert verdict.verdict == UNDECIDED
    assert verdict.constraints[0].constraint.available is None
    assert verdict.settle is not None
    assert "no evidence about decode" in verdict.settle


def test_an_empty_record_is_undecided() -> None:
    """A record of nothing but a version decides nothing."""
    assert decide_machine(single_stream_need(8), evidence_from(RunRecord())).verdict == UNDECIDED


def test_a_contradiction_is_undecided() -> None:
    """A measurement over its ceiling undoes the verdict, even one with tenfold headroom, and is quoted."""
    machine = evidence_from(run_record(decode=80, contradictions=("decode 80 is above its ceiling of 40",)))

    verdict = decide_machine(single_stream_need(8), machine)

    assert verdict.verdict == UNDECIDED
    assert "decode 80 is above its ceiling of 40" in verdict.reason
    assert verdict.settle is not None


@pytest.mark.parametrize(("decode", "word"), [(20, CPU), (10, UNDECIDED), (5, UNDECIDED)])
def test_a_busy_machine_can_only_be_enough(decode: float, word: str) -> None:
    """Disturbed numbers are lower bounds: enough stands; thin and not enough become undecided."""
    verdict = decide_machine(single_stream_need(8), evidence(decode=decode, busy=True))

    assert verdict.verdict == word
    assert "another process ran" in verdict.reason
    assert (verdict.settle is None) == (word == CPU)


@pytest.mark.parametrize(("decode", "word"), [(20, CPU), (10, THIN), (5, UNDECIDED)])
def test_a_slow_build_never_buys_a_gpu(decode: float, word: str) -> None:
    """With a lower-bound engine "gpu" becomes undecided, with the command that gives a better build."""
    verdict = decide_machine(single_stream_need(8), evidence(decode=decode, lower_bound=True))

    assert verdict.verdict == word
    if word == UNDECIDED:
        assert verdict.settle is not None
        assert "suffice[native]" in verdict.settle


@pytest.mark.parametrize("mark", [{}, {"lower_bound": True}, {"busy": True}])
def test_memory_that_lacks_says_gpu_whatever_the_speed(mark: dict[str, bool]) -> None:
    """Neither a busy machine nor a slow build changes what fits: half a GB for a 1 GB model is not enough."""
    demand = replace(single_stream_need(8), memory_bytes=5e8)

    verdict = decide_machine(demand, evidence(decode=80, **mark))

    assert verdict.verdict == GPU
    assert verdict.binding == "memory_bytes"
    assert verdict.settle is not None
    assert "more memory" in verdict.settle


def test_the_worst_constraint_binds() -> None:
    """Decode with tenfold headroom and a TTFT that fails: "gpu", and the TTFT is named."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        tokens_per_second_per_user=2,
        prompt_tokens=Lengths(p50=512, p95=512),
        ttft=Limit(value_s=1, percentile=95),
    )

    verdict = decide_machine(demand, evidence(decode=20, prefill=100))

    assert (verdict.verdict, verdict.binding) == (GPU, "ttft_s")
    assert [item.grade for item in verdict.constraints] == [Grade.ENOUGH, Grade.NOT_ENOUGH, Grade.ENOUGH]


def test_an_upper_limit_has_its_margin_too() -> None:
    """5.17 s of TTFT: within 10 / 1.5 it is enough, within 6 thin, within 5 not enough."""

    def word(limit_s: float) -> str:
        limit = Limit(value_s=limit_s, percentile=95)
        demand = Demand(kind=DemandKind.INTERACTIVE, prompt_tokens=Lengths(p50=512, p95=512), ttft=limit)
        return decide_machine(demand, evidence(decode=20, prefill=100)).verdict

    assert [word(10), word(6), word(5)] == [CPU, THIN, GPU]


def test_batch_is_judged_by_both_phases() -> None:
    """32.0 tokens/s one at a time and 112 at best: 10.7 is enough, 30 thin, 60 open (batching may do it), 120 not enough."""
    machine = evidence(decode=10, prefill=100, depth=576)

    def word(tokens_per_second: float) -> str:
        return decide_machine(batch_demand(requests_per_second=tokens_per_second / 640), machine).verdict

    assert [word(10.7), word(30), word(60), word(120)] == [CPU, THIN, UNDECIDED, GPU]


def test_what_is_not_judged_does_not_decide() -> None:
    """A quality floor that nothing measures is named in the reason and leaves the verdict alone."""
    verdict = decide_machine(replace(single_stream_need(8), quality_floor=1.0), evidence(decode=20))

    assert verdict.verdict == CPU
    assert "Not judged here: quality" in verdict.reason


def test_a_demand_that_asks_nothing_is_undecided() -> None:
    """Without a constraint there is no verdict, and the next step says what to state."""
    verdict = decide_machine(Demand(kind=DemandKind.INTERACTIVE), evidence_from(bare_record(20)))

    assert (verdict.verdict, verdict.binding, verdict.basis) == (UNDECIDED, None, None)
    assert verdict.settle is not None
    assert "State a decode rate" in verdict.settle


def test_a_longer_prompt_than_measured_is_open_or_extrapolated() -> None:
    """One chunk of 512 says little about a prompt of 8000: the basis is extrapolated and the time has no upper end."""
    limit = Limit(value_s=1000, percentile=95)
    demand = Demand(kind=DemandKind.INTERACTIVE, prompt_tokens=Lengths(p50=8000, p95=8000), ttft=limit)

    verdict = decide_machine(demand, evidence(decode=20, prefill=100))

    assert verdict.verdict == UNDECIDED
    assert verdict.basis is Basis.EXTRAPOLATED
    assert verdict.settle is not None
    assert "--prompt-tokens" in verdict.settle


def test_flips_are_where_the_verdict_changes() -> None:
    """The needs that the flip sentence names are the ones at which the verdict flips."""
    machine = evidence_from(bare_record(15))

    verdict = decide_machine(single_stream_need(8), machine)

    assert verdict.flips == (
        "decode: enough up to a need of 10 tokens/s (with margin 1.5), not enough above 15 tokens/s",
    )
    assert [decide_machine(single_stream_need(need), machine).verdict for need in (10, 10.01, 15, 15.01)] == [
        CPU,
        THIN,
        THIN,
        GPU,
    ]


def test_thin_advice_says_how_much_smaller_the_model_must_be() -> None:
    """10 against 9 x 1.5 needs 1.35 times the speed: a model that streams at most 1 GB / 1.35 x 1.02."""
    verdict = decide_machine(single_stream_need(9), evidence(decode=10))

    assert verdict.verdict == THIN
    assert verdict.settle is not None
    # 13.5 / (10 x 0.98) = 1.38; 1 GB / 1.38 = 0.726 GB.
    assert "1.38 times the speed" in verdict.settle
    assert "725.9" in verdict.settle or "726." in verdict.settle or "0.73" in verdict.settle


def test_undecided_always_says_what_would_settle_it() -> None:
    """Every way into "undecided" comes with a next step."""
    cases = [
        evidence(decode=8.05),
        evidence(decode=5, busy=True),
        evidence(decode=5, lower_bound=True),
        evidence_from(bare_record(None)),
        evidence_from(run_record(contradictions=("x",))),
        evidence_from(bare_record(5, device_kind="gpu")),
    ]

    for machine in cases:
        verdict = decide(single_stream_need(8), [machine]).verdict
        assert verdict.verdict == UNDECIDED
        assert verdict.settle


def test_enough_needs_nothing_more() -> None:
    """No advice where none is needed."""
    assert settle_sentence("enough", decide_machine(single_stream_need(8), evidence()).constraints[0].constraint, evidence()) is None  # fmt: skip


@pytest.mark.parametrize(("rate", "shown"), [(7.9999, "0.99"), (11.9999, "1.49")])
def test_rounding_never_makes_a_sentence_untrue(rate: float, shown: str) -> None:
    """7.9999 against 8 does not read "8 against 8, headroom 1.00"; 11.9999 does not read "headroom 1.50"."""
    verdict = decide_machine(single_stream_need(8), evidence_from(bare_record(rate)))

    assert f"headroom {shown}" in verdict.reason
    assert str(rate) in verdict.reason or rate > 8
