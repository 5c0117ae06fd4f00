"""Plans of trainings: what is enough, what it costs, and what is said of it."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from helpers.records import run_record
from suffice.catalogue.catalogue import shipped
from suffice.catalogue.entries import Price
from suffice.cli.plan_training import plan_training, refuse_serving_options
from suffice.decide.evidence import evidence_from
from suffice.decide.training import (
    ANY_UTILISATION,
    UTILISATIONS,
    Task,
    judge_here,
    judge_machine,
    ranked,
    utilisation_of,
)
from suffice.decide.training_types import TrainingMachine, TrainingPlace
from suffice.decide.verdict import Grade
from suffice.errors import UsageError
from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.loaders.training_plan import plan_of_training
from suffice.model.kv_cache import KvLayout
from suffice.model.training import LoraTargets, Method, TrainingDemand, TrainingKind
from suffice.model.training_work import training_shape
from suffice.report.training import training_document, training_markdown, training_text
from suffice.units import GIB, GIGA, SECONDS_PER_HOUR, SECONDS_PER_MINUTE, TERA

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.decide.training_types import TrainingPlan
    from suffice.records.schema import RunRecord

LORA = TrainingDemand(
    kind=TrainingKind.FINETUNE,
    tokens=18e6,
    sequence_tokens=2048,
    method=Method.LORA,
    lora_rank=16,
    window_s=24.0 * SECONDS_PER_HOUR,
    currency="USD",
)
FULL = replace(LORA, method=Method.FULL, lora_rank=None)
PRICE = Price(per_hour=2.0, currency="USD", region="here", date="2026-11", source="a test")
CARD = TrainingMachine(
    place=TrainingPlace.INSTANCE,
    name="test/one",
    device="Card",
    devices=1,
    memory_bytes=48.0 * GIGA,
    flop_per_s=100.0 * TERA,
    price=PRICE,
)
BOARD = replace(
    CARD, name="test/eight", devices=8, memory_bytes=80.0 * GIGA, fast_links=True, architecture="Ampere GA100"
)


@cache
def model() -> ShapeModel:
    """Llama 3.1 8B."""
    found = resolve_model("llama-3.1-8b:q4_k_m")
    assert isinstance(found, ShapeModel)
    return found


def task(demand: TrainingDemand) -> Task:
    """The demand of that model."""
    found = Task.of(demand, training_shape(model().header, model().shape))
    assert found is not None
    return found


def plan(demand: TrainingDemand = LORA, runs: tuple[RunRecord, ...] = ()) -> TrainingPlan:
    """Of the catalogue that ships."""
    return plan_of_training(demand, model(), shipped(), runs)


def test_time_and_cost_by_hand() -> None:
    """Operations over 100 TFLOP/s at 0.35 of it, and 2 USD for each of those hours; the ends are 0.80 and 0.15."""
    option = judge_machine(task(LORA), CARD, 1)
    total = task(LORA).total_flop(checkpointing=option.checkpointing)

    assert option.time_s is not None
    assert option.time_s.high is not None
    assert option.cost is not None
    assert option.time_s.point == pytest.approx(total / (0.35 * 100 * TERA))
    assert (option.time_s.low, option.time_s.high) == pytest.approx((total / (80 * TERA), total / (15 * TERA)))
    assert option.cost.amount == pytest.approx(option.time_s.point / SECONDS_PER_HOUR * 2.0)
    assert option.cost.high == pytest.approx(option.time_s.high / SECONDS_PER_HOUR * 2.0)


@pytest.mark.parametrize(
    ("window_h", "grade"), [(100.0, Grade.ENOUGH), (2.5, Grade.THIN), (1.0, Grade.OPEN), (0.01, Grade.NOT_ENOUGH)]
)
def test_the_window_grades_as_the_verdict_does(window_h: float, grade: Grade) -> None:
    """Enough at the slow end with the margin, thin without it, not enough at the fast end, and open between."""
    slow = judge_machine(task(LORA), CARD, 1).time_s
    assert slow is not None
    assert slow.high is not None
    hours = slow.high / SECONDS_PER_HOUR / 2.0  # so that 2.5 h reach the slow end, and 2.5 / 1.5 h do not

    option = judge_machine(task(replace(LORA, window_s=window_h * hours * SECONDS_PER_HOUR)), CARD, 1)

    assert option.grade is grade
    assert option.binding == ("memory_bytes" if grade is Grade.ENOUGH else "wall_time_s")


def test_memory_alone_fails_a_machine_that_is_fast_enough() -> None:
    """All weights of 8 billion parameters need 128 GB for their states, and a card of 48 GB has less, however long the window."""
    option = judge_machine(task(replace(FULL, window_s=1e9)), CARD, 1)

    assert (option.grade, option.binding) == (Grade.NOT_ENOUGH, "memory_bytes")
    assert "Not enough: memory" in option.reason


def test_the_fewest_machines_that_are_enough_are_named() -> None:
    """Three of them reach the window with the margin where two do not; their price is that of three."""
    one = judge_machine(task(LORA), CARD, 1).time_s
    assert one is not None
    assert one.high is not None
    window_s = one.high * LORA.margin / 2.5

    option = judge_machine(task(replace(LORA, window_s=window_s)), CARD, 8)

    assert (option.grade, option.count, option.devices) == (Grade.ENOUGH, 3, 3)
    assert option.name == "3 x test/one"
    assert option.cost is not None
    assert option.cost.hours_of_machines == pytest.approx(one.point / SECONDS_PER_HOUR)


def test_a_batch_leaves_devices_idle() -> None:
    """A step of two sequences is shared by two devices at most, and the others are paid for."""
    demand = replace(LORA, batch_tokens=4096)

    option = judge_machine(task(demand), BOARD, 8)

    assert (option.count, option.devices) == (1, 2)
    assert any("6 of its devices idle" in note for note in option.notes)


def test_gradients_of_all_weights_need_links_that_are_known() -> None:
    """Cards in slots, and several machines of them, have no upper end of time for a full training; adapters are small enough."""
    slots = replace(BOARD, fast_links=False)
    times = {
        name: judge_machine(task(demand), machine, 1).time_s
        for name, demand, machine in (
            ("slots, full", FULL, slots),
            ("slots, adapters", LORA, slots),
            ("board, full", FULL, BOARD),
        )
    }

    assert {name for name, time_s in times.items() if time_s is not None and time_s.high is None} == {"slots, full"}
    assert judge_machine(task(replace(FULL, window_s=1e9)), slots, 1).grade is Grade.OPEN


def test_checkpointing_is_used_where_activations_do_not_fit() -> None:
    """Long sequences on a small card are computed again, short ones are not; what is stated holds."""
    long_ones = replace(LORA, sequence_tokens=32768)

    assert judge_machine(task(long_ones), CARD, 1).checkpointing
    assert not judge_machine(task(replace(LORA, sequence_tokens=512)), CARD, 1).checkpointing
    assert judge_machine(task(replace(LORA, sequence_tokens=512, gradient_checkpointing=True)), CARD, 1).checkpointing


def test_published_utilisations_are_used_where_they_were_published() -> None:
    """Full trainings on joined A100 and H100; everything else gets the range of all."""
    assert utilisation_of(FULL, BOARD) is UTILISATIONS["Ampere GA100"]
    for other in (replace(BOARD, fast_links=False), replace(BOARD, architecture="Ada")):
        assert utilisation_of(FULL, other) is ANY_UTILISATION
    assert utilisation_of(LORA, BOARD) is ANY_UTILISATION
    assert ANY_UTILISATION.low <= min(one.low for one in UTILISATIONS.values())
    assert ANY_UTILISATION.high >= max(one.high for one in UTILISATIONS.values())


@pytest.mark.parametrize(
    ("name", "tokens", "sequence_tokens", "gpu_hours", "architecture", "peak_tflops"),
    [
        ("llama-2-7b", 2e12, 4096, 184_320, "Ampere GA100", 312),
        ("llama-2-70b", 2e12, 4096, 1_720_320, "Ampere GA100", 312),
        ("llama-3.1-8b", 15e12, 8192, 1_460_000, "Hopper", 989),
        ("llama-3.1-405b", 15.6e12, 8192, 30_840_000, "Hopper", 989),
    ],
)
def test_published_hours_lie_in_the_predicted_range(
    name: str, tokens: float, sequence_tokens: int, gpu_hours: float, architecture: str, peak_tflops: float
) -> None:
    """Eight GPUs for as long as it takes them: the GPU hours of the model cards lie between our ends."""
    found = resolve_model(f"{name}:bf16")
    assert isinstance(found, ShapeModel)
    demand = TrainingDemand(
        kind=TrainingKind.PRETRAIN, tokens=tokens, sequence_tokens=sequence_tokens, gradient_checkpointing=False
    )
    asked = Task.of(demand, training_shape(found.header, found.shape))
    machine = replace(BOARD, architecture=architecture, flop_per_s=peak_tflops * TERA)
    assert asked is not None

    time_s = judge_machine(asked, machine, 1).time_s

    assert time_s is not None
    assert time_s.low is not None
    assert time_s.high is not None
    assert time_s.low * 8 < gpu_hours * SECONDS_PER_HOUR < time_s.high * 8


def _measured(**changes: Any) -> RunRecord:  # noqa: ANN401  # fields of a record
    record = run_record(prefill=100.0, memory_usable_bytes=64 * GIB, **changes)
    return replace(record, model=replace(record.model, active_parameters=8_000_000_000))


def test_this_machine_is_bounded_by_its_speed_of_reading_prompts() -> None:
    """100 tokens/s of a model of 8 billion are 1.6 TFLOP/s: 18 million tokens take days at least, and how many more is not known."""
    here = judge_here(task(LORA), evidence_from(_measured()))
    least_h = task(LORA).total_flop(checkpointing=here.checkpointing) / (2 * 8e9 * 100) / SECONDS_PER_HOUR

    assert here.time_s is not None
    assert here.time_s.point / SECONDS_PER_HOUR == pytest.approx(least_h, rel=0.03)  # at the high end of its interval
    assert here.time_s.high is None
    assert (here.grade, here.binding) == (Grade.NOT_ENOUGH, "wall_time_s")
    assert judge_here(task(replace(LORA, window_s=1e9)), evidence_from(_measured())).grade is Grade.OPEN


def test_a_busy_machine_is_not_called_too_slow() -> None:
    """What was measured on one is a lower bound of speed, so that nothing follows about the least time."""
    assert judge_here(task(LORA), evidence_from(_measured(disturbed=True))).grade is Grade.OPEN


def test_a_record_without_a_speed_leaves_the_time_open() -> None:
    """Nothing is guessed from a record that holds no prompt."""
    here = judge_here(task(LORA), evidence_from(run_record(memory_usable_bytes=64 * GIB)))

    assert here.time_s is None
    assert here.grade is Grade.OPEN


def test_the_budget_is_judged_in_its_currency_alone() -> None:
    """A tenth of the least cost is not enough; another currency, or no price, leaves it open, since nothing is converted."""
    cost = judge_machine(task(LORA), CARD, 1).cost
    assert cost is not None
    poor = replace(LORA, budget=cost.low / 10)

    assert judge_machine(task(poor), CARD, 1).binding == "budget"
    assert judge_machine(task(poor), CARD, 1).grade is Grade.NOT_ENOUGH
    assert judge_machine(task(replace(LORA, budget=1e6)), CARD, 1).grade is Grade.ENOUGH
    assert judge_machine(task(replace(LORA, budget=1e6, currency="CNY")), CARD, 1).grade is Grade.OPEN
    assert judge_machine(task(replace(LORA, budget=1e6)), replace(CARD, price=None), 1).grade is Grade.OPEN


def test_options_are_ranked_by_what_they_cost() -> None:
    """Enough before open before not enough; in each the plan's currency by cost, then others, then what has no price."""
    options = plan().options
    grades = [option.grade for option in options]
    order = [Grade.ENOUGH, Grade.THIN, Grade.OPEN, Grade.NOT_ENOUGH]
    enough = [option for option in options if option.grade is Grade.ENOUGH]
    dollars = [option.cost.amount for option in enough if option.cost is not None and option.cost.currency == "USD"]

    assert grades == sorted(grades, key=order.index)
    assert len(dollars) > 5
    assert dollars == sorted(dollars)
    assert [option.cost is None for option in enough] == sorted(option.cost is None for option in enough)
    assert ranked(reversed(options), "USD") == options


def test_every_price_of_a_plan_says_where_and_when_it_was_seen() -> None:
    """Currency, region, date and source stand with every amount."""
    document = training_document(plan(), LORA)
    priced = [option for option in document["options"] if option["cost"] is not None]

    assert len(priced) > 20
    for option in priced:
        assert option["price_date"]
        assert [price for price in option["prices"] if all(price.values())], option["name"]
        parts = sum(part["units"] * option["prices"][0]["amount"] for part in option["cost_parts"])
        assert parts == pytest.approx(option["cost"])


def test_the_document_is_json_with_the_names_of_a_plan() -> None:
    """Scripts read the names that `plan --json` has."""
    document = json.loads(json.dumps(training_document(plan(runs=(_measured(),)), LORA)))
    names = set(document["options"][0])

    assert {
        "kind",
        "name",
        "count",
        "verdict",
        "reason",
        "binding",
        "headroom",
        "basis",
        "currency",
        "price_date",
    } <= names
    assert {
        "hours",
        "hours_low",
        "hours_high",
        "cost",
        "cost_low",
        "cost_high",
        "prices",
        "cost_parts",
        "notes",
    } <= names
    assert {option["kind"] for option in document["options"]} == {"this machine", "gpu instance", "gpu"}
    assert document["trained_parameters"] == 41_943_040


def test_text_and_markdown_show_the_same_figures() -> None:
    """The best option's hours and cost stand in both, and in the document."""
    found = plan()
    best = found.options[0]
    assert best.cost is not None
    cost = f"{best.cost.amount:,.2f} {best.cost.currency}"

    for text in (training_text(found, LORA), training_markdown(found, LORA)):
        assert best.name in text.replace("\\", "")
        assert cost in text
        assert "41,943,040 trained" in text


def test_at_least_stands_before_the_low_end_of_time_and_cost() -> None:
    """Where nobody knows how long it takes at most, the middle is no least; where somebody does, nothing is marked."""
    slots = judge_machine(task(FULL), replace(BOARD, fast_links=False), 1)
    board = judge_machine(task(FULL), BOARD, 1)
    assert slots.time_s is not None
    assert slots.time_s.low is not None
    assert slots.cost is not None
    assert slots.time_s.low < slots.time_s.point
    assert slots.time_s.high is None
    least_min, cost = slots.time_s.low / SECONDS_PER_MINUTE, slots.cost

    for text in (report(replace(plan(), options=(slots,)), FULL) for report in (training_text, training_markdown)):
        assert f"at least {least_min:.3g} min" in text
        assert f"at least {cost.low:,.2f} USD" in text
        assert f"{cost.amount:,.2f}" not in text
    bounded = training_text(replace(plan(), options=(replace(board, notes=()),)), FULL)
    assert "at least" not in bounded.partition("judged")[0]


def test_every_price_that_is_shown_has_its_source() -> None:
    """By a number behind its date, and each number stands once below, in text and in Markdown."""
    found = plan()
    sources = list(dict.fromkeys(one.cost.price.source for one in found.options[:20] if one.cost is not None))

    for text in (training_text(found, LORA), training_markdown(found, LORA).replace("\\", "")):
        rows = [line for line in text.splitlines() if " USD " in line and "GiB of" in line]
        assert len(rows) >= 10
        assert all(re.search(r"20[0-9-]{2,8} \[[0-9]+\]", row) for row in rows)
        for number, source in enumerate(sources, start=1):
            assert sum(line.startswith(f"[{number}] {source[:20]}") for line in text.splitlines()) == 1


def test_the_machine_at_hand_is_shown_wherever_it_stands() -> None:
    """It is behind all that would do, and still what a reader asks about first."""
    found = plan(runs=(_measured(),))

    assert found.options[0].place is not TrainingPlace.HERE
    for text in (training_text(found, LORA, shown=3), training_markdown(found, LORA, shown=3)):
        assert "at least" in text
        assert "Test CPU" in text
        assert "20 steps of it would tell" in text


def test_a_hostile_model_name_stays_text() -> None:
    """Neither a line break, a control character nor markup comes out of a name."""
    found = replace(plan(), model="<script>alert(1)</script>\n# x\u001b[31m")

    assert "<script>" not in training_markdown(found, LORA)
    for text in (training_text(found, LORA), training_markdown(found, LORA)):
        assert "\n# x" not in text
        assert "\u001b" not in text


@pytest.mark.parametrize(
    ("demand", "code"),
    [(LORA, 0), (replace(LORA, window_s=0.1), 1), (replace(FULL, tokens=2e12, window_s=720.0 * SECONDS_PER_HOUR), 3)],
)
def test_exit_codes_are_those_of_a_verdict(
    demand: TrainingDemand, code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """0 where an option is enough, 1 where none is, 3 where that is open; the file is Markdown, stdout one JSON document."""
    out = tmp_path / "plan.md"

    assert plan_training(demand, model(), shipped(), (), json_output=True, out=out) == code
    assert json.loads(capsys.readouterr().out)["judged"] > 100
    assert out.read_text(encoding="utf-8").startswith("# Plan: training\n")


def test_a_file_that_ends_in_json_is_the_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same document as on stdout; every option is in it."""
    out = tmp_path / "plan.JSON"

    plan_training(LORA, model(), shipped(), (), json_output=True, out=out)

    assert json.loads(out.read_text(encoding="utf-8")) == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("each", "sequence", "words"),
    [
        (600.0, 2048, ("packed into sequences of 2,048", "3.41 times the work")),
        (4000.0, 2048, ("are cut into sequences of 2,048",)),
        (None, 200_000, ("longer than the 131,072 that the model was made for",)),
    ],
)
def test_what_the_length_of_sequences_means_is_said(each: float | None, sequence: int, words: tuple[str, ...]) -> None:
    """Padding would be 2048 / 600 times the work; what is cut is not seen; beyond its context a model may not learn."""
    notes = " ".join(plan(replace(LORA, tokens_per_example=each, sequence_tokens=sequence)).notes)

    assert all(part in notes for part in words)


def test_sequences_that_fit_need_no_word() -> None:
    """As long as an example, and within the model's context."""
    assert "sequences of" not in " ".join(plan(replace(LORA, tokens_per_example=2048.0)).notes).lower()


@pytest.mark.parametrize(
    ("name", "changes", "words"),
    [
        ("llama-3.1-8b", {"lora_rank": 65536}, "lora_rank = 65536 is more than the width"),
        ("deepseek-v3", {"lora_targets": LoraTargets.QUERY_VALUE}, 'write "attention" or "all"'),
    ],
)
def test_adapters_that_have_no_place_are_refused(name: str, changes: dict[str, Any], words: str) -> None:
    """Wider than the model, or on matrices that latent attention does not have: that is no cheap training of nothing."""
    with pytest.raises(UsageError, match=words):
        plan_of_training(replace(LORA, **changes), resolve_model(f"{name}:bf16"), shipped())


def test_a_margin_of_the_command_line_wins(capsys: pytest.CaptureFixture[str]) -> None:
    """It is shown, and judged with."""
    plan_training(LORA, resolve_model("llama-3.1-8b:bf16"), shipped(), (), json_output=False, margin=3.0)

    assert "margin 3 on time" in capsys.readouterr().out


def test_options_of_serving_are_refused() -> None:
    """To leave them aside would answer another question; what was not given is no matter."""
    with pytest.raises(UsageError, match="--kind, --rate: about serving"):
        refuse_serving_options(
            {"--kind": ("api",), "--rate": ["EUR=1USD"], "--chart": None, "--region": (), "--all": False}
        )
    refuse_serving_options({"--kind": None, "--everything": False})


def test_a_model_whose_work_is_not_known_is_refused() -> None:
    """One sentence with the reason instead of a guess."""
    unknown = replace(model(), shape=replace(model().shape, kv=KvLayout(unknown_reason="it has an indexer")))

    with pytest.raises(UsageError, match="it has an indexer"):
        plan_of_training(LORA, unknown, shipped())
