"""Reads a demand of training, and looks up what could do it: this machine, instances with accelerators, and bare accelerators."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Final, TypeVar

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from suffice.errors import DemandError
from suffice.loaders.demand_toml import STRICT, demand_table, explained, quoted, read_demand_file, shortened
from suffice.model.demand import DEFAULT_MARGIN
from suffice.model.training import LoraTargets, Method, Optimizer, Precision, TrainingDemand, TrainingKind
from suffice.units import SECONDS_PER_HOUR

if TYPE_CHECKING:
    from pathlib import Path

_MAX_TOKENS: Final = 10.0**17  # ten thousand times more text than there is
_MAX_SEQUENCE: Final = 100_000_000
_MAX_RANK: Final = 65536
_MAX_HOURS: Final = 24 * 366 * 10
_LEAST_RUNS: Final = 1 / 1200  # a month: one in a century
_MOST_RUNS: Final = 100_000

_Count = Annotated[float, Field(ge=1, le=_MAX_TOKENS)]


class _TrainingTable(BaseModel):
    """The table ``[demand]`` of a training, field by field as docs/training.md describes it."""

    model_config = STRICT

    kind: str
    model: str | None = None
    method: str | None = None
    tokens: _Count | None = None
    examples: _Count | None = None
    tokens_per_example: _Count | None = None
    epochs: Annotated[float, Field(gt=0, le=10_000)] | None = None
    sequence_tokens: Annotated[int, Field(ge=1, le=_MAX_SEQUENCE)] | None = None
    batch_tokens: Annotated[int, Field(ge=1, le=10 * _MAX_SEQUENCE)] | None = None
    sequences_at_once: Annotated[int, Field(ge=1, le=65536)] = 1
    lora_rank: Annotated[int, Field(ge=1, le=_MAX_RANK)] | None = None
    lora_targets: str | None = None
    optimizer: str | None = None
    precision: str | None = None
    gradient_checkpointing: bool | None = None
    window_hours: Annotated[float, Field(gt=0, le=_MAX_HOURS)] | None = Field(
        default=None, validation_alias=AliasChoices("window_hours", "window_h", "deadline_hours")
    )
    margin: Annotated[float, Field(ge=1, le=100)] = DEFAULT_MARGIN
    budget: Annotated[float, Field(ge=0)] | None = None
    budget_per_month: Annotated[float, Field(ge=0)] | None = None
    runs_per_month: Annotated[float, Field(ge=_LEAST_RUNS, le=_MOST_RUNS)] | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = None


_ALIASES: Final = {"window_h": "window_hours", "deadline_hours": "window_hours"}
_KINDS: Final = '"finetune" or "pretrain"'
_Choice = TypeVar("_Choice", bound=StrEnum)


def load_training(path: Path) -> TrainingDemand:
    """The demand of a training in a TOML file.

    Raises:
        DemandError: the file cannot be read, is not TOML, has unknown or wrong fields, or says too little or what is contradictory.
    """
    return training_of(demand_table(read_demand_file(path), path.name), path.name)


def training_of(table: dict[str, object], source: str) -> TrainingDemand:
    """The demand in a table ``[demand]``; ``source`` names it in error messages.

    Raises:
        DemandError: see :func:`load_training`.
    """
    try:
        parsed = _TrainingTable.model_validate(table)
    except ValidationError as error:
        sentence = explained(error, _TrainingTable.model_fields, _ALIASES, _KINDS)
        raise DemandError(f"{source}: {sentence}") from error
    try:
        return _to_training(parsed)
    except (DemandError, ValueError) as error:
        raise DemandError(f"{source}: {error}") from error


def _to_training(table: _TrainingTable) -> TrainingDemand:
    kind = _choice(TrainingKind, "kind", table.kind, None)
    method = _choice(Method, "method", table.method, Method.FULL if kind is TrainingKind.PRETRAIN else None)
    _check(table, kind, method)
    if table.sequence_tokens is None:
        raise DemandError(
            "'sequence_tokens' is missing: the length of the sequences decides over memory and attention; state it"
        )
    return TrainingDemand(
        kind=kind,
        tokens=_tokens(table),
        sequence_tokens=table.sequence_tokens,
        method=method,
        batch_tokens=table.batch_tokens,
        sequences_at_once=table.sequences_at_once,
        lora_rank=table.lora_rank,
        lora_targets=_choice(LoraTargets, "lora_targets", table.lora_targets, LoraTargets.ALL),
        optimizer=_choice(Optimizer, "optimizer", table.optimizer, Optimizer.ADAMW),
        precision=_choice(Precision, "precision", table.precision, Precision.BF16),
        gradient_checkpointing=table.gradient_checkpointing,
        window_s=None if table.window_hours is None else table.window_hours * SECONDS_PER_HOUR,
        margin=table.margin,
        budget=table.budget,
        budget_per_month=table.budget_per_month,
        runs_per_month=table.runs_per_month,
        currency=table.currency,
        model=table.model,
        tokens_per_example=table.tokens_per_example,
    )


def _choice(choices: type[_Choice], field: str, text: str | None, default: _Choice | None) -> _Choice:
    known = [choice.value for choice in choices]
    if text is None:
        if default is None:
            raise DemandError(f"'{field}' is missing; write one of {quoted(known)}")
        return default
    if text not in known:
        raise DemandError(f"{field} = {shortened(text)}; write one of {quoted(known)}")
    return choices(text)


def _tokens(table: _TrainingTable) -> float:
    """All tokens that are trained on.

    Raises:
        DemandError: they are stated twice, by half, or not at all.
    """
    by_example = (table.examples, table.tokens_per_example)
    if table.tokens is not None:
        if any(part is not None for part in by_example):
            raise DemandError(
                "'tokens' and 'examples' with 'tokens_per_example' are both stated; give the one or the other"
            )
        return _possible(table.tokens * (table.epochs or 1))
    examples, each = by_example
    if examples is None or each is None:
        raise DemandError("how much is trained on? State 'tokens', or 'examples' and 'tokens_per_example'")
    return _possible(examples * each * (table.epochs or 1))


def _possible(tokens: float) -> float:
    """The tokens of all epochs, when there can be so many.

    Raises:
        DemandError: less than one, or more than there are.
    """
    if not 1 <= tokens <= _MAX_TOKENS:
        raise DemandError(
            f"{tokens:g} tokens in all epochs are no training; check 'tokens', 'examples', 'tokens_per_example' and 'epochs'"
        )
    return tokens


def _check(table: _TrainingTable, kind: TrainingKind, method: Method) -> None:
    """Refuse what contradicts itself.

    Raises:
        DemandError: with what to change.
    """
    if kind is TrainingKind.PRETRAIN and method.has_adapters:
        raise DemandError(
            f'method = "{method}" trains adapters of weights that exist; a pretraining has none yet, it is "full"'
        )
    if method.has_adapters and table.lora_rank is None:
        raise DemandError(f"'{method}' needs 'lora_rank', the width of its adapters, such as lora_rank = 16")
    if not method.has_adapters and (table.lora_rank is not None or table.lora_targets is not None):
        raise DemandError(
            "'lora_rank' and 'lora_targets' are of the methods \"lora\" and \"qlora\"; remove them or change the method"
        )
    if table.currency is None and (table.budget is not None or table.budget_per_month is not None):
        raise DemandError("a budget needs a 'currency', such as currency = \"CNY\"")
    if table.sequence_tokens is not None:
        _check_sequences(table, table.sequence_tokens)


def _check_sequences(table: _TrainingTable, sequence_tokens: int) -> None:
    """Refuse sequences that the data or a step cannot hold.

    Raises:
        DemandError: with what to change.
    """
    if table.batch_tokens is not None:
        _check_batch(table, sequence_tokens, table.batch_tokens)
    if table.tokens is not None and table.tokens < sequence_tokens:
        raise DemandError(
            f"contradictory: {table.tokens:,.0f} tokens hold no sequence of {sequence_tokens:,}; lower 'sequence_tokens'"
        )


def _check_batch(table: _TrainingTable, sequence_tokens: int, batch_tokens: int) -> None:
    """Refuse a step that is smaller than what one device holds at a time.

    Raises:
        DemandError: with what to change.
    """
    if batch_tokens < sequence_tokens:
        raise DemandError(
            f"contradictory: a batch of {batch_tokens} tokens holds no sequence of {sequence_tokens}; raise 'batch_tokens'"
        )
    at_once = table.sequences_at_once * sequence_tokens
    if batch_tokens < at_once:
        raise DemandError(
            f"contradictory: {table.sequences_at_once} sequences of {sequence_tokens} tokens at once are {at_once}, more than a batch of "
            f"{batch_tokens}; lower 'sequences_at_once' or raise 'batch_tokens'"
        )
