"""A model that is too big: what can be done instead, each way with figures that follow from shapes, catalogue and predictions."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.records import evidence
from suffice.catalogue.catalogue import shipped
from suffice.catalogue.entries import ApiPrice
from suffice.catalogue.models import model_named
from suffice.decide.alternatives import LOAD, Alternative, AlternativeKind, Alternatives, CheckKind, with_other_model
from suffice.decide.verdict import Grade, decide_machine
from suffice.errors import DemandError
from suffice.loaders.alternatives import alternatives_for
from suffice.loaders.alternatives_models import fewer_bits, known_of, similar_mixtures, smaller_siblings
from suffice.loaders.model_file import ModelFile, describe_model
from suffice.loaders.prospects import prospects_of
from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel, shape_model
from suffice.model.basis import Basis
from suffice.model.blueprint import blueprint_header
from suffice.model.demand import Demand, DemandKind, Lengths, StreamLengths, single_stream_need
from suffice.model.recipe import quantized_header
from suffice.model.rpc import Cluster, Network
from suffice.units import GIB, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.model.shape import ModelShape

REFERENCE = "llama-3.1-70b:q4_k_m"
MODEL = resolve_model(REFERENCE)
NEED = single_stream_need(5.0)
TODAY = date(2026, 11, 30)
LENGTHS = StreamLengths(prompt_tokens=512, depth=512)


def found_for(demand: Demand = NEED, here: tuple[MachineEvidence, ...] = (), **changes: object) -> Alternatives:
    """The alternatives to Llama 3.1 70B in 4 bits."""
    return alternatives_for(demand, MODEL, shipped(), here=here, today=TODAY, **changes)  # type: ignore[arg-type]  # passed on


@pytest.fixture(scope="module")
def plain() -> Alternatives:
    """For one stream, with no machine at hand."""
    return found_for()


def machine_here(memory_gib: float = 31.0, reference: str = REFERENCE) -> MachineEvidence:
    """A machine with the predicted speed of an instance, under a name of its own."""
    machine = shipped().instance_named("aws/c7i.4xlarge")
    (prospect,) = prospects_of([machine], shipped(), resolve_model(reference), LENGTHS)
    return replace(prospect.evidence, name="this machine", memory_usable_bytes=memory_gib * GIB)


def made(spec_name: str, recipe: str, n_layer: int, reference: str) -> ShapeModel:
    """A shape that no model of the catalogue has."""
    spec = replace(model_named(spec_name).spec, n_layer=n_layer)
    return shape_model(quantized_header(blueprint_header(spec), recipe), reference=reference, source="a test")


def test_the_ways_are_sorted_by_how_little_they_change(plain: Alternatives) -> None:
    """Fewer bits, several machines, a GPU, an API, then other models."""
    kinds = [item.kind for item in plain.items]

    assert kinds == sorted(kinds, key=list(AlternativeKind).index)
    assert set(kinds) == set(AlternativeKind) - {AlternativeKind.API}


def test_each_way_holds_the_model_and_says_with_which_evidence(plain: Alternatives) -> None:
    """Nothing is named whose memory is short or unknown, or whose speed is."""
    for item in plain.items:
        assert item.fits is True
        assert item.decode is not None
        assert item.decode.basis in (Basis.PREDICTED, Basis.MEASURED_ELSEWHERE)
        assert item.reason
        assert item.checks


def test_fewer_bits_are_files_of_the_same_shape(plain: Alternatives) -> None:
    """Bytes are those of the recipe's own header, and what is not smaller is not offered."""
    items = plain.of_kind(AlternativeKind.QUANT)

    assert [item.model for item in items] == [f"llama-3.1-70b:{recipe}" for recipe in ("q3_k_m", "q2_k", "iq2_xxs")]
    for item in items:
        assert item.weights_bytes == resolve_model(item.model).shape.tensor_bytes < MODEL.shape.tensor_bytes


def test_bits_and_other_models_are_to_be_asked_the_items(plain: Alternatives) -> None:
    """Quality is never taken for granted where the answers change, and is not doubted where the model is the same."""
    changed = (AlternativeKind.QUANT, AlternativeKind.SIBLING, AlternativeKind.MOE)
    for item in plain.items:
        kinds = {check.kind for check in item.checks}
        assert (CheckKind.QUALITY in kinds) == (item.kind in changed)
    two_bits = plain.of_kind(AlternativeKind.QUANT)[-1]
    assert CheckKind.MAKING in {check.kind for check in two_bits.checks}


def test_several_machines_add_memory_and_no_speed(plain: Alternatives) -> None:
    """Each holds less than the whole; one stream is slower than the machine alone would be, by the network's time."""
    catalogue = shipped()
    for item in plain.of_kind(AlternativeKind.RPC):
        assert item.chain is not None
        assert item.needed_bytes is not None
        assert item.needed_bytes < MODEL.shape.tensor_bytes < item.needed_bytes * item.chain.machines
        machine = catalogue.instance_named(item.where.rpartition(" x ")[2])
        (alone,) = prospects_of([machine], catalogue, MODEL, LENGTHS)
        rate, together = alone.evidence.decode[0].rate, item.decode
        assert together is not None
        assert item.network_s is not None
        assert rate.high is not None
        assert rate.low is not None
        assert together.high == pytest.approx(1 / (1 / rate.high + item.network_s[0]))
        assert together.low == pytest.approx(1 / (1 / rate.low + item.network_s[1]))


def test_the_bill_of_several_machines_is_that_of_each(plain: Alternatives) -> None:
    """730 hours times their number times the price of one, which has currency, region, date and source."""
    for item in plain.of_kind(AlternativeKind.RPC):
        assert item.cost is not None
        assert item.chain is not None
        (part,) = item.cost.parts
        assert part.units == 730 * item.chain.machines
        assert item.cost.amount == pytest.approx(part.units * part.price.amount)
        assert all((part.price.currency, part.price.region, part.price.date, part.price.source))


def test_a_single_machine_is_billed_for_the_hours_of_the_chain(plain: Alternatives) -> None:
    """A job in a window of 8 hours rents both for 243 of 730 hours; a chain of one stream, and what it is compared with, for all."""
    lengths = Lengths(p50=300, p95=300)
    job = Demand(
        kind=DemandKind.SCHEDULED,
        prompt_tokens=lengths,
        output_tokens=lengths,
        requests_per_second=0.001,
        window_s=8 * SECONDS_PER_HOUR,
    )
    bills = {}
    for name, found in (("all", plain), ("window", found_for(job))):
        (note,) = [one for item in found.of_kind(AlternativeKind.RPC) for one in item.notes if "holds it alone" in one]
        told = re.search(r"for ([\d,]+) ([A-Z]{3}) a month(, rented for 243 of its 730 hours)? \(", note)
        assert told is not None
        assert (told[3] is not None) is (name == "window")
        bills[name] = float(told[1].replace(",", ""))

    assert bills["window"] == pytest.approx(bills["all"] / 3, abs=1)


def test_a_slower_network_costs_speed() -> None:
    """Over 100 Mbit/s and 5 ms the same machines are slower, at both ends."""
    slow = Network.of(gigabit_per_s=0.1, round_trip_ms=5)
    normal, far = (
        found_for(cluster=cluster).of_kind(AlternativeKind.RPC)[0]
        for cluster in (Cluster(), Cluster(fast=slow, slow=slow))
    )

    assert normal.where == far.where
    assert normal.decode is not None
    assert far.decode is not None
    assert far.decode.point < normal.decode.point


def test_gpus_hold_the_whole_model(plain: Alternatives) -> None:
    """Instances have a price, cards have none and say so."""
    items = plain.of_kind(AlternativeKind.GPU)

    assert {item.model for item in items} == {REFERENCE}
    assert any(item.cost is not None for item in items)
    assert all((item.cost is None) == (item.cost_unknown is not None) for item in items)


def test_siblings_are_smaller_and_of_the_family() -> None:
    """The largest first, no mixture, and of equal shapes one."""
    models = smaller_siblings(MODEL, known_of(MODEL))

    assert [model.reference for model in models] == ["llama-3.1-8b:q4_k_m", "llama-3.2-3b:q4_k_m"]


def test_a_mixture_needs_the_memory_of_all_experts_and_reads_few() -> None:
    """Similar in parameters, and less than half of them for a token: memory by all, speed by the active ones."""
    models = similar_mixtures(MODEL, known_of(MODEL))

    assert models
    for model in models:
        assert 0.5 <= model.shape.parameters / MODEL.shape.parameters <= 2
        assert model.shape.active_parameters < 0.5 * MODEL.shape.active_parameters
        assert model.shape.streamed_bytes() < 0.5 * model.shape.tensor_bytes


def test_a_machine_at_hand_is_told_apart_from_those_to_rent() -> None:
    """31 GiB do not hold 40; 2 bits fit, at a speed by bytes that nothing bounds; and two such machines hold it as it is."""
    found = found_for(here=(machine_here(),))

    (room,) = found.rooms
    assert (room.name, room.fits) == ("this machine", False)
    own = [item for item in found.of_kind(AlternativeKind.QUANT) if item.where == "this machine"]
    assert [item.model for item in own] == ["llama-3.1-70b:q2_k", "llama-3.1-70b:iq2_xxs"]
    for item in own:
        assert item.decode is not None
        assert (item.decode.low, item.decode.high, item.grade) == (None, None, Grade.OPEN)
    assert "2 x this machine" in [item.where for item in found.of_kind(AlternativeKind.RPC)]


def test_a_rate_moves_as_the_bytes_of_a_step() -> None:
    """Half the bytes, twice the rate; a record that does not say what it read gives none."""
    record = describe_model(MODEL, type_k="f16", type_v="f16", with_hash=False)
    seen = replace(machine_here(), streamed_bytes=2.0 * (record.streamed_bytes or 0.0))

    moved = with_other_model(seen, record)

    assert moved.decode[0].rate.point == pytest.approx(2 * seen.decode[0].rate.point)
    assert moved.prefill_rate is None
    assert with_other_model(replace(seen, streamed_bytes=None), record).decode == ()


def test_what_was_measured_of_another_model_goes() -> None:
    """The undisturbed machine was measured with it as well, and so was the work of a token."""
    record = describe_model(MODEL, type_k="f16", type_v="f16", with_hash=False)
    seen = replace(machine_here(), streamed_bytes=2.0 * (record.streamed_bytes or 0.0), disturbed=True)
    seen = replace(seen, undisturbed=replace(seen, disturbed=False), active_parameters=1.0)

    moved = with_other_model(seen, record)

    assert moved.undisturbed is None
    assert moved.active_parameters == record.active_parameters
    assert decide_machine(NEED, moved).undisturbed is None


def test_a_record_of_another_model_says_what_fits() -> None:
    """Memory is the machine's, whatever was measured on it."""
    small = replace(evidence(), name="laptop", memory_usable_bytes=50 * GIB)

    found = found_for(here=(small,))

    assert found.rooms[0].fits is True


def test_the_stated_memory_is_that_of_the_machine_at_hand() -> None:
    """What the demand leaves for the model counts, and is not taken for that of a machine to rent."""
    found = found_for(replace(NEED, memory_bytes=20 * GIB), here=(machine_here(),))

    assert found.rooms[0].usable_bytes == 20 * GIB
    assert all(item.usable_bytes == 20 * GIB for item in found.items if item.where == "this machine")
    assert found.of_kind(AlternativeKind.GPU)


def test_a_load_stays_open_where_one_request_is_served() -> None:
    """Nothing is simulated here: enough for one is not enough for five, and too slow for one is too slow for all."""
    lengths = Lengths(p50=300, p95=300)
    users = Demand(
        kind=DemandKind.INTERACTIVE,
        prompt_tokens=lengths,
        output_tokens=lengths,
        concurrent_users=5,
        tokens_per_second_per_user=5.0,
    )

    found = found_for(users)

    assert {item.grade for item in found.items} <= {Grade.OPEN, Grade.NOT_ENOUGH}
    served = [item for item in found.items if item.binding == LOAD]
    assert served
    assert all(CheckKind.LOAD in {check.kind for check in item.checks} for item in served if item.chain is None)
    assert found.streams == 5


def test_an_api_of_the_model_is_billed_by_the_demands_tokens() -> None:
    """A request a minute is 43,800 a month; 1,000 tokens in at 0.5 and 100 out at 2 a million: 21.90 + 8.76."""
    api = ApiPrice(
        platform="Somewhere",
        model="meta-llama/Llama-3.1-70B-Instruct",
        input_per_million=0.5,
        output_per_million=2.0,
        currency="USD",
        date="2026-11-01",
        source="a list",
        seen="2026-11-30",
    )
    catalogue = replace(shipped(), apis=(api,))
    demand = replace(
        NEED,
        requests_per_second=1 / 60,
        prompt_tokens=Lengths(p50=1000, p95=1000),
        output_tokens=Lengths(p50=100, p95=100),
    )

    (item,) = alternatives_for(demand, MODEL, catalogue, today=TODAY).of_kind(AlternativeKind.API)

    assert item.cost is not None
    assert item.cost.amount == pytest.approx(21.90 + 8.76)
    assert [part.price.date for part in item.cost.parts] == ["2026-11-01", "2026-11-01"]


def test_a_way_that_is_not_there_says_why(plain: Alternatives) -> None:
    """No API of this model has a price, and what to do about it is said."""
    (why,) = plain.missing

    assert why.startswith("api: the catalogue has no price of llama-3.1-70b")
    assert "--catalog" in why


def test_a_quantized_model_of_an_unknown_shape_cannot_be_made_smaller() -> None:
    """What it was before is not known; its F16 header would say it."""
    quantized = made("llama-3.2-1b", "q4_k_m", 7, "mine:q4_k_m")
    whole = made("llama-3.2-1b", "f16", 7, "mine:f16")

    found = alternatives_for(NEED, quantized, shipped(), today=TODAY)

    assert not found.of_kind(AlternativeKind.QUANT)
    assert any("give the F16 file" in why for why in found.missing)
    assert [model.reference for model in fewer_bits(whole, known_of(whole))][:2] == ["mine:q8_0", "mine:q6_k"]


def test_a_shape_that_several_models_share_is_told_by_its_name() -> None:
    """Llama 3, 3.1 and 3.3 of 70B are one shape."""
    for name in ("llama-3-70b", "llama-3.1-70b", "llama-3.3-70b"):
        assert known_of(resolve_model(f"{name}:q4_k_m")).stem == name


def _with_header(reference: str, monkeypatch: pytest.MonkeyPatch) -> ModelShape:
    """The shape of a file that is not there, whose header is the catalogue's."""
    model = resolve_model(reference)
    assert isinstance(model, ShapeModel)
    monkeypatch.setattr("suffice.loaders.alternatives_chains.read_gguf_header", lambda _: model.header)
    return model.shape


@pytest.mark.parametrize(
    ("file", "recipe"),
    [
        ("Meta-Llama-3.1-70B-Instruct-Q3_K_M.gguf", "q3_k_m"),
        ("llama-3.1-70b.q8_0-00001-of-00002.gguf", "q8_0"),
        ("llama-3.1-70b.gguf", "q4_k_m"),
    ],
)
def test_a_file_is_known_by_its_shape_and_its_name(file: str, recipe: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its shape has an entry, its name says which and how it is quantized; other models are offered under the same recipe."""
    model = ModelFile(path=Path(file), parts=(), shape=_with_header(f"llama-3.1-70b:{recipe}", monkeypatch))

    known = known_of(model)
    found = alternatives_for(NEED, model, shipped(), today=TODAY)

    assert (known.stem, known.recipe) == ("llama-3.1-70b", recipe)
    assert found.model == file
    assert {item.model.rpartition(":")[2] for item in found.of_kind(AlternativeKind.SIBLING)} == {recipe}
    assert {item.model for item in found.of_kind(AlternativeKind.GPU)} == {file}


def test_a_tuned_model_is_not_taken_for_what_it_was_tuned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    """A file of another name with the shape of an 8B has that shape's bytes, and no API is offered as if it served it."""
    shape = replace(_with_header("llama-3.1-8b:q4_k_m", monkeypatch), name="Our Own")
    ours = ModelFile(path=Path("ours-q4_k_m.gguf"), parts=(), shape=shape)

    found = alternatives_for(NEED, ours, shipped(), today=TODAY)
    theirs = alternatives_for(NEED, resolve_model("llama-3.1-8b:q4_k_m"), shipped(), today=TODAY)

    assert not found.of_kind(AlternativeKind.API)
    assert theirs.of_kind(AlternativeKind.API)
    assert any("has the shape of llama-3-8b and another name" in note for note in found.notes)
    assert not any("another name" in note for note in theirs.notes)


def test_a_context_that_the_model_does_not_have_is_refused() -> None:
    """As everywhere."""
    with pytest.raises(DemandError, match="context"):
        found_for(replace(NEED, context_tokens=1_000_000))


def test_a_model_with_too_short_a_context_is_no_alternative() -> None:
    """Mixtral has 32,768 tokens, and the demand needs 60,000."""
    names = [item.model for item in found_for(replace(NEED, context_tokens=60_000)).items]

    assert names
    assert not any("mixtral" in name for name in names)


def test_a_large_cache_is_told_with_what_another_type_saves() -> None:
    """8 streams of 8,192 tokens take 20 GiB in f16 and 17/32 of it in q8_0."""
    found = found_for(replace(NEED, context_tokens=8192, concurrent_users=8))

    assert found.cache_bytes == 20 * GIB
    assert any("20.00 GiB" in note and "10.62 GiB" in note for note in found.notes)


def _names(items: tuple[Alternative, ...]) -> list[str]:
    return [item.name for item in items]


def test_nothing_depends_on_what_was_asked_before(plain: Alternatives) -> None:
    """Built shapes are remembered; the answer is the same again."""
    assert _names(found_for().items) == _names(plain.items)


def test_a_smaller_model_may_take_a_gpu_where_no_cpu_will_do() -> None:
    """At 60 tokens/s with the margin no CPU runs the 8B, and a machine with an accelerator does."""
    catalogue = shipped()
    need = single_stream_need(60.0)

    item = next(item for item in found_for(need).of_kind(AlternativeKind.SIBLING) if "8b" in item.model)

    assert item.grade is Grade.ENOUGH
    assert catalogue.instance_named(item.where).accelerator is not None


def test_where_no_gpu_is_enough_the_cheapest_and_the_fastest_are_named() -> None:
    """Nothing decodes a 70B at 3,000 tokens/s; what holds it is still told, with what it lacks."""
    items = [
        item for item in found_for(single_stream_need(3000.0)).of_kind(AlternativeKind.GPU) if item.cost is not None
    ]

    assert [item.grade for item in items] == [Grade.NOT_ENOUGH] * 2
    first, last = items
    assert first.cost is not None
    assert last.cost is not None
    assert first.decode is not None
    assert last.decode is not None
    assert first.cost.amount < last.cost.amount
    assert first.decode.point < last.decode.point
