"""Laws of trainings and images: more work never takes less, more memory never fits worse, and hostile files."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.decide.training import Task, judge_machine
from suffice.decide.training_types import TrainingMachine, TrainingPlace
from suffice.decide.verdict import WORST_FIRST
from suffice.errors import DemandError
from suffice.loaders.demand import parse_any_demand
from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.model.training import Method, TrainingDemand, TrainingKind
from suffice.model.training_memory import training_memory
from suffice.model.training_work import TrainingShape, training_shape
from suffice.model.vision import encoder_flop, rule_names, rule_of, views_of
from suffice.units import GIGA, TERA

QUICK = settings(max_examples=80, deadline=None, derandomize=True)
FIELDS = (
    "method", "model", "tokens", "examples", "tokens_per_example", "epochs", "sequence_tokens", "batch_tokens", "sequences_at_once",
    "lora_rank", "lora_targets", "optimizer", "precision", "gradient_checkpointing", "window_hours", "deadline_hours", "margin", "budget",
    "budget_per_month", "runs_per_month", "currency", "unknown",
)  # fmt: skip
VALUES = st.one_of(
    st.integers(-(10**25), 10**25).map(str),
    st.floats().map(lambda value: repr(value).replace("e+", "e")),
    st.sampled_from(
        [
            '"full"',
            '"lora"',
            '"qlora"',
            '"sgd"',
            '"fp32"',
            '"all"',
            '"USD"',
            "true",
            "[]",
            "{}",
            "9" * 5000,
            '"\\u001b[31m"',
        ]
    ),
)
TAME = st.builds(
    TrainingDemand,
    kind=st.just(TrainingKind.FINETUNE),
    tokens=st.floats(1e3, 1e12),
    sequence_tokens=st.integers(1, 32768),
    method=st.sampled_from(Method),
    lora_rank=st.integers(1, 256),
    sequences_at_once=st.integers(1, 8),
    window_s=st.floats(60, 1e8),
)
CARD = TrainingMachine(
    place=TrainingPlace.DEVICE, name="card", device="card", devices=1, memory_bytes=24.0 * GIGA, flop_per_s=100.0 * TERA
)


def _shape() -> TrainingShape:
    model = resolve_model("qwen2.5-0.5b:q8_0")
    assert isinstance(model, ShapeModel)
    return training_shape(model.header, model.shape)


SHAPE = _shape()


@QUICK
@given(TAME, st.floats(1, 100))
def test_more_tokens_never_take_less_time(demand: TrainingDemand, factor: float) -> None:
    """Time and grade are monotone in the tokens."""
    few, many = (Task.of(one, SHAPE) for one in (demand, replace(demand, tokens=demand.tokens * factor)))
    assert few is not None
    assert many is not None

    first, second = judge_machine(few, CARD, 1), judge_machine(many, CARD, 1)

    assert first.time_s is not None
    assert second.time_s is not None
    assert second.time_s.point >= first.time_s.point
    assert WORST_FIRST.index(second.grade) <= WORST_FIRST.index(first.grade)


@QUICK
@given(TAME, st.floats(1, 8))
def test_more_memory_never_fits_worse(demand: TrainingDemand, factor: float) -> None:
    """A card with more memory, and as fast, is no worse."""
    task = Task.of(demand, SHAPE)
    assert task is not None

    small = judge_machine(task, CARD, 1)
    large = judge_machine(task, replace(CARD, memory_bytes=24.0 * GIGA * factor), 1)

    assert WORST_FIRST.index(large.grade) >= WORST_FIRST.index(small.grade)


@QUICK
@given(TAME, st.integers(1, 64))
def test_ranges_are_ranges_and_checkpointing_never_takes_more(demand: TrainingDemand, devices: int) -> None:
    """Low ends are not above high ones, and what is computed again is not kept."""
    plain, again = (
        training_memory(SHAPE, demand, checkpointing=checkpointing, devices=devices).total
        for checkpointing in (False, True)
    )

    assert 0 < again.low <= again.high
    assert plain.low <= plain.high
    assert again.high <= plain.high + SHAPE.shape.n_embd * 2 * demand.tokens_at_once


@QUICK
@given(st.sampled_from(["finetune", "pretrain"]), st.dictionaries(st.sampled_from(FIELDS), VALUES, max_size=8))
def test_any_values_in_known_fields_of_a_training(kind: str, fields: dict[str, str]) -> None:
    """A training that can be judged, or one printable sentence."""
    body = "\n".join(f"{name} = {value}" for name, value in fields.items())
    try:
        demand = parse_any_demand(f'[demand]\nkind = "{kind}"\n{body}\n')
    except DemandError as error:
        assert str(error).isprintable()  # noqa: PT017  # either is right; what is raised has a sentence
        return
    assert isinstance(demand, TrainingDemand)
    assert Task.of(demand, SHAPE) is not None


@QUICK
@given(st.sampled_from(rule_names()), st.integers(1, 5000), st.integers(1, 5000))
def test_any_image_has_tokens_and_an_encoder(name: str, width_px: int, height_px: int) -> None:
    """Whatever its size, an image is some tokens and some work, or refused as a strip."""
    rule = rule_of(name)
    assert rule is not None
    try:
        views = views_of(rule, width_px, height_px)
    except ValueError as error:
        assert "200:1" in str(error)  # noqa: PT017  # either is right
        return

    assert 1 <= views.tokens <= 16384
    assert encoder_flop(rule, views) > 0
