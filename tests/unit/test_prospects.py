"""Machines that are not at hand: the same rule, and the cheapest that are enough."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import Any

import pytest

from helpers.records import run_record
from suffice.catalogue.catalogue import Catalogue, shipped
from suffice.catalogue.devices import device_named
from suffice.catalogue.entries import Instance, Price
from suffice.catalogue.instances import instance_named
from suffice.cli.prospects import cheapest_machines
from suffice.decide import words
from suffice.decide.covering import all_as_fast
from suffice.decide.evidence import DecodePoint, evidence_from, of_the_asked_model
from suffice.decide.prospects import CPU_RESERVE_BYTES, Prospect, Speeds, cheapest, predicted_evidence, standings
from suffice.decide.quantity import Quantity
from suffice.decide.verdict import Grade
from suffice.errors import UsageError
from suffice.loaders.prospects import device_prospect, machine_spec, prospects_of, works_of
from suffice.loaders.reference import resolve_model
from suffice.model.basis import Basis
from suffice.model.demand import Demand, DemandKind, Lengths, Limit, StreamLengths, single_stream_need
from suffice.predict.elsewhere import decode_lengths
from suffice.report.prospects import CheapestMachines, prospects_document, prospects_markdown, prospects_text
from suffice.units import GIB

MODEL = replace(run_record().model, file_bytes=4 * GIB)
NEED = single_stream_need(10.0, 1.5)
TODAY = date(2026, 11, 30)
LENGTHS = StreamLengths(prompt_tokens=512, depth=512)


def rate(point: float, low: float, high: float) -> Quantity:
    """A predicted rate."""
    return Quantity(point=point, low=low, high=high, basis=Basis.PREDICTED)


def prospect(
    name: str, decode: Quantity | None, *, per_hour: float = 1.0, currency: str = "USD", memory: float | None = 64 * GIB
) -> Prospect:
    """A machine to rent."""
    price = Price(per_hour=per_hour, currency=currency, region="here", date="2026-09-01", source="a list")
    evidence = predicted_evidence(
        name, MODEL, Speeds(depth=0, decode=decode, prefill=None), is_gpu=False, memory_bytes=memory
    )
    return Prospect(evidence=evidence, price=price)


@pytest.mark.parametrize(
    ("decode", "verdict"),
    [
        (rate(18, 15, 21), words.CPU),
        (rate(18, 14, 21), words.CPU_THIN),
        (rate(12, 9, 16), words.UNDECIDED),
        (rate(8, 7, 9), words.GPU),
    ],
)
def test_the_ends_of_a_prediction_decide(decode: Quantity, verdict: str) -> None:
    """Enough with the margin at the low end, not enough at the high end, and in between undecided."""
    (standing,) = standings(NEED, [prospect("m", decode)])

    assert standing.verdict.verdict == verdict
    assert standing.verdict.basis is Basis.PREDICTED


def test_unknown_speed_or_memory_is_never_enough() -> None:
    """No figure, no recommendation."""
    unknown = prospect("no speed", None)
    no_memory = prospect("no memory", rate(100, 90, 110), memory=None)

    found = standings(NEED, [unknown, no_memory])

    assert [one.is_enough for one in found] == [False, False]
    assert found[0].verdict.grade is Grade.OPEN
    assert cheapest(found, 3) == {}


@pytest.mark.parametrize(("memory", "grade"), [(64 * GIB, Grade.ENOUGH), (3 * GIB, Grade.OPEN)])
def test_a_floor_of_memory_is_no_proof_of_too_little(memory: float, grade: Grade) -> None:
    """What is known only as "larger models ran there" may be enough; where it is less than the model takes, nobody knows. Stated, it would be too little."""
    speeds = Speeds(depth=0, decode=rate(18, 15, 21), prefill=None)

    def verdict(*, is_floor: bool) -> Grade:
        evidence = predicted_evidence("box", MODEL, speeds, is_gpu=False, memory_bytes=memory, memory_is_floor=is_floor)
        return standings(NEED, [Prospect(evidence=evidence)])[0].verdict.grade

    assert verdict(is_floor=True) is grade
    assert verdict(is_floor=False) is (Grade.ENOUGH if grade is Grade.ENOUGH else Grade.NOT_ENOUGH)


def test_the_system_keeps_its_memory() -> None:
    """4 GiB of weights on a machine of 4 GiB and a little do not fit."""
    tight = prospect("tight", rate(100, 90, 110), memory=4 * GIB + CPU_RESERVE_BYTES / 2)

    assert standings(NEED, [tight])[0].verdict.grade is Grade.NOT_ENOUGH


def test_the_cheapest_are_those_that_are_enough_within_each_currency() -> None:
    """Cheap and thin is left out, currencies are not mixed, and a machine without a price cannot be ranked."""
    fine = rate(20, 18, 22)
    found = standings(
        NEED,
        [
            prospect("thin", rate(12, 11, 13), per_hour=0.1),
            prospect("dear", fine, per_hour=3.0),
            prospect("cheap", fine, per_hour=1.0),
            prospect("yuan", fine, per_hour=0.5, currency="CNY"),
            replace(prospect("gift", fine), price=None),
        ],
    )

    ranked = cheapest(found, 1)

    assert {currency: [one.prospect.name for one in own] for currency, own in ranked.items()} == {
        "CNY": ["yuan"],
        "USD": ["cheap"],
    }


def test_a_price_is_shown_with_currency_region_and_date() -> None:
    """In text, Markdown and data; one of last year is marked."""
    old = prospect("old|machine", rate(20, 18, 22))
    assert old.price is not None
    old = replace(old, price=replace(old.price, date="2024-12-31"))
    found = CheapestMachines(by_currency=cheapest(standings(NEED, [old]), 3), judged=1, enough=1, today=TODAY)

    text, markdown, (row,) = prospects_text(found), prospects_markdown(found), prospects_document(found)

    for shown in (text, markdown):
        assert "730 USD" in shown
        assert "2024-12-31" in shown
        assert "*" in shown
        assert "here" in shown
    assert "old\\|machine" in markdown
    assert (row["currency"], row["price_date"], row["price_is_old"]) == ("USD", "2024-12-31", True)
    assert row["price_source"] == "a list"


def test_none_enough_is_said() -> None:
    """No empty table."""
    found = CheapestMachines(by_currency={}, judged=7, enough=0, today=TODAY)

    assert prospects_text(found) == "None of the 7 machines of the catalogue is predicted to be enough with the margin."


def test_real_machines_have_sensible_prospects() -> None:
    """More cores of the same family are not slower, an 8B at 4 bits decodes below bandwidth over bytes, deeper is slower."""
    model = resolve_model("llama-3.1-8b:q4_k_m")
    machines = [instance_named(f"aws/c7i.{size}") for size in ("xlarge", "4xlarge", "8xlarge")]

    found = prospects_of(machines, shipped(), model, LENGTHS)

    rates = [one.evidence.decode[0].rate for one in found]
    assert [one.name for one in found] == [machine.key for machine in machines]
    assert rates[0].point < rates[1].point <= 1.02 * rates[2].point
    for machine, own in zip(machines, rates, strict=True):
        assert own.low is not None
        assert own.high is not None
        assert own.low < own.point < own.high
        assert (
            machine.read_bytes_per_s is None
            or own.point < machine.read_bytes_per_s.value / model.shape.streamed_bytes()
        )


def test_machines_that_say_nothing_are_no_prospects() -> None:
    """A family, or one with an accelerator that nobody can predict yet, is left out and not guessed."""
    family = Instance(provider="aws", name="c99 family", source="s", seen="2026")
    accelerator = Instance(
        provider="aws", name="g99.xlarge", source="s", seen="2026", vcpu=4, accelerator="A chip of tomorrow"
    )

    assert prospects_of([family, accelerator], shipped(), resolve_model("llama-2-7b:q4_0"), LENGTHS) == ()


def test_machines_with_accelerators_are_prospects_too() -> None:
    """An 8B on an A10 decodes faster than on any CPU beside it and is judged as a GPU; a 70B does not fit it."""
    machine = next(m for m in shipped().instances if m.accelerator_device == "a10" and m.accelerator_count == 1)

    (small,) = prospects_of([machine], shipped(), resolve_model("llama-3.1-8b:q4_k_m"), LENGTHS)
    (large,) = prospects_of([machine], shipped(), resolve_model("llama-3.1-70b:q4_k_m"), LENGTHS)

    assert small.evidence.is_gpu
    assert 40 < small.evidence.decode[0].rate.point < 130
    assert standings(NEED, [large])[0].verdict.grade is Grade.NOT_ENOUGH
    assert small.rests_on


def test_a_device_is_a_prospect_or_says_why_not() -> None:
    """Two L20 hold 50 GB that one does not; an NPU that nobody measured is refused in words."""
    model = resolve_model("llama-3.1-70b:q5_k_m")
    need = single_stream_need(5.0, 1.5)

    one, two = (device_prospect(device_named("l20"), model, LENGTHS, count=count) for count in (1, 2))

    assert [standing.is_enough for standing in standings(need, [one, two])] == [False, True]
    with pytest.raises(UsageError, match="measure it"):
        device_prospect(device_named("ascend-910b3"), model, LENGTHS)


def test_a_demand_decides_the_lengths() -> None:
    """Without one: a prompt of 512 and decoding behind it."""
    shape = resolve_model("llama-2-7b:q4_0").shape

    works = works_of(shape, StreamLengths.of(NEED))

    assert (works.prefill.n_tokens, works.depth) == (512, 512)
    assert works.decode.streamed_bytes == shape.streamed_bytes()
    assert works.decode.quant == "q4_0"
    assert machine_spec(instance_named("aws/c7i.4xlarge")).vcpus == 16


def test_a_machine_that_was_measured_is_said_to_be() -> None:
    """Llama-2-7B Q4_K_M has the shape of the file that was run on rented machines; under another recipe it was not."""
    machine, lengths = instance_named("aws/c7i.4xlarge"), StreamLengths(prompt_tokens=512, depth=0)

    (same,) = prospects_of([machine], shipped(), resolve_model("llama-2-7b:q4_k_m"), lengths)
    (other,) = prospects_of([machine], shipped(), resolve_model("llama-2-7b:q8_0"), lengths)

    assert same.evidence.decode[0].rate.basis is Basis.MEASURED_ELSEWHERE
    assert any("measured on such a machine on 20" in text for text in same.rests_on)
    assert other.evidence.decode[0].rate.basis is Basis.PREDICTED
    assert standings(NEED, [same])[0].verdict.basis is Basis.MEASURED_ELSEWHERE


@pytest.mark.parametrize(
    ("depth", "lengths"), [(0, (128, 16)), (50, (128, 16)), (512, (1024,)), (256, (512,)), (150, ()), (9000, ())]
)
def test_tokens_in_a_row_stand_for_the_depth_in_their_middle(depth: int, lengths: tuple[int, ...]) -> None:
    """And for no other: decoding 128 tokens from an empty cache says nothing of a depth of 512."""
    assert decode_lengths(depth, (16, 128, 512, 1024)) == lengths


def test_a_machine_whose_memory_nobody_states_is_undecided() -> None:
    """Fast enough, and perhaps too small: neither "cpu" nor named among the cheapest, but counted."""
    unknown = prospect("unknown", rate(100, 90, 110), memory=None)

    (standing,) = standings(NEED, [unknown])

    assert standing.verdict.verdict == words.UNDECIDED
    assert standing.lacks_memory_only
    assert not standing.is_enough


def test_the_largest_memory_that_is_sold_is_not_what_one_has() -> None:
    """An M4 is sold with 16 to 32 GB: what fits in 16 fits, what needs more is open, what needs more than 32 does not fit."""
    m4 = device_named("apple-m4")

    found = [device_prospect(m4, resolve_model(name), LENGTHS) for name in ("llama-3.1-8b:q4_k_m", "qwen3-32b:q4_k_m")]

    assert [one.evidence.memory_usable_bytes is None for one in found] == [False, True]
    assert all(one.evidence.is_gpu for one in found)  # what engines use there is the GPU


def test_other_caches_are_not_taken_for_f16() -> None:
    """A cache of twice the bytes decodes slower on a CPU, and on a device nothing is said."""
    model, deep = resolve_model("llama-2-7b:q8_0"), StreamLengths(prompt_tokens=512, depth=3000)
    machine = [instance_named("aws/c7i.4xlarge")]

    plain, wide = (prospects_of(machine, shipped(), model, deep, kv_type=kind)[0] for kind in ("f16", "f32"))

    assert wide.evidence.decode[0].rate.point < plain.evidence.decode[0].rate.point
    with pytest.raises(UsageError, match="f16"):
        device_prospect(device_named("l20"), model, deep, kv_type="f32")


def test_a_limit_on_the_long_prompts_can_be_kept_by_a_machine_of_the_catalogue() -> None:
    """Machines are predicted as deep as the prompt whose first token is limited, as for a plan: at the median's depth all would stay open."""
    demand = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=Lengths(p50=400, p95=1500),
        output_tokens=Lengths(p50=120, p95=300),
        tokens_per_second_per_user=5.0,
        ttft=Limit(value_s=5.0, percentile=95.0),
    )
    catalogue = Catalogue(devices=shipped().devices, instances=(instance_named("aws/g4dn.xlarge"),), apis=())

    found = cheapest_machines(demand, resolve_model("llama-3.1-8b:q4_k_m"), catalogue, kv_type="f16")

    assert (found.judged, found.enough) == (1, 1)


@pytest.mark.parametrize(
    ("changes", "is_other"),
    [
        ({}, False),
        ({"name": "another name", "file_name": "renamed.gguf"}, False),
        ({"file_bytes": None, "parameters": None}, False),
        ({"file_bytes": round(4.4 * GIB)}, True),
        ({"parameters": 8_030_261_312}, True),
    ],
)
def test_a_record_of_another_model_is_no_evidence_of_this_one(changes: dict[str, Any], *, is_other: bool) -> None:
    """By parameters and bytes, not by names: a small model's speed once made a large one "enough, for nothing a month"."""
    asked = replace(run_record().model, file_bytes=4 * GIB, parameters=134_515_008)
    record = replace(run_record(), model=replace(asked, **changes))

    evidence = of_the_asked_model(asked, record, evidence_from(record))

    assert bool(evidence.contradictions) is is_other


def test_no_step_is_faster_behind_more_tokens() -> None:
    """Two predictions that say so: the slower one stands for both, whichever it is; without the typical depth the deep one alone."""
    slow, fast = rate(10.0, 9.0, 11.0), rate(12.0, 11.0, 13.0)

    def points(decode: Quantity | None, deepest: Quantity | None) -> list[tuple[float | None, Quantity]]:
        deep = None if deepest is None else DecodePoint(depth=4000, rate=deepest)
        return [(one.depth, one.rate) for one in Speeds(depth=400, decode=decode, prefill=None, deepest=deep).points]

    assert points(fast, slow) == [(400, fast), (4000, slow)]
    assert points(slow, fast) == [(400, slow), (4000, slow)]
    assert points(slow, None) == [(400, slow)]
    assert points(None, slow) == [(4000, slow)]
    assert points(None, None) == []


def test_two_predictions_bound_nothing_beyond_both() -> None:
    """What was measured on the machine itself has a slope; two predictions, one of which may stand for both, have none."""
    evidence = prospect("a", decode=rate(10.0, 9.0, 11.0)).evidence
    points = (DecodePoint(depth=400, rate=rate(10.0, 9.0, 11.0)), DecodePoint(depth=1200, rate=rate(8.0, 7.0, 9.0)))
    predicted = replace(evidence, decode=points)
    own = replace(evidence, decode=tuple(replace(one, rate=replace(one.rate, basis=Basis.MEASURED)) for one in points))

    beyond, between, measured = predicted.decode_rate(3000), predicted.decode_rate(800), own.decode_rate(3000)

    assert beyond is not None
    assert beyond.low is None
    assert between is not None
    assert between.low is not None
    assert measured is not None
    assert measured.low is not None


def test_a_machine_covers_another_at_every_depth() -> None:
    """As fast behind typical answers and slower behind long prompts: what holds for one holds not for the other."""
    assert all_as_fast((10.0, 8.0), (10.0, 5.0))
    assert not all_as_fast((10.0, 5.0), (10.0, 8.0))
    assert not all_as_fast((10.0,), (10.0, 5.0))
