"""Reads ``demand.toml``. Pydantic stands at this border; inside there is only :class:`~suffice.model.demand.Demand`."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Final

from pydantic import AliasChoices, BaseModel, Field, ValidationError

from suffice.errors import DemandError
from suffice.loaders.demand_images import ImageFields, images_of
from suffice.loaders.demand_toml import (
    MAX_TOKENS,
    STRICT,
    demand_table,
    explained,
    quoted,
    read_demand_file,
    shortened,
)
from suffice.model.demand import DEFAULT_MARGIN, Demand, DemandKind, Lengths, Limit
from suffice.model.training import TrainingKind
from suffice.model.vision import with_images
from suffice.units import GIB, GIGA, SECONDS_PER_DAY, SECONDS_PER_HOUR

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.training import TrainingDemand

_DEFAULT_PERCENTILE: Final = 95.0
_POINTS: Final = 100  # in a share of 1

_Tokens = Annotated[float, Field(ge=1, le=MAX_TOKENS)]
_Positive = Annotated[float, Field(gt=0)]


class _LengthsTable(BaseModel):
    model_config = STRICT

    p50: _Tokens
    p95: _Tokens | None = None


class _LimitTable(BaseModel):
    """A limit at one percentile: ``{ p95 = 2.0 }``."""

    model_config = STRICT

    p50: _Positive | None = None
    p90: _Positive | None = None
    p95: _Positive | None = None
    p99: _Positive | None = None


class _DemandTable(ImageFields):
    """The table ``[demand]``, field by field as docs/demand.md describes it."""

    model_config = STRICT

    kind: str
    model: str | None = None
    prompt_tokens: _Tokens | _LengthsTable | None = None
    output_tokens: _Tokens | _LengthsTable | None = None
    requests_per_second: _Positive | None = None
    requests_per_hour: _Positive | None = None
    requests_per_day: _Positive | None = None
    volume_per_day: _Positive | None = None
    interactive_share: Annotated[float, Field(gt=0, lt=1)] | None = None
    concurrent_users: Annotated[int, Field(gt=0, le=1_000_000)] | None = None
    tokens_per_second_per_user: _Positive | None = None
    ttft_s: _Positive | _LimitTable | None = None
    tpot_s: _Positive | _LimitTable | None = None
    ttft_percentile: Annotated[float, Field(gt=0, lt=100)] | None = None
    tpot_percentile: Annotated[float, Field(gt=0, lt=100)] | None = None
    window_hours: Annotated[float, Field(gt=0, le=24)] | None = Field(
        default=None, validation_alias=AliasChoices("window_hours", "window_h")
    )
    context_tokens: Annotated[int, Field(gt=0, le=MAX_TOKENS)] | None = Field(
        default=None, validation_alias=AliasChoices("context_tokens", "context")
    )
    margin: Annotated[float, Field(ge=1, le=100)] = DEFAULT_MARGIN
    memory_gib: _Positive | None = None
    memory_gb: _Positive | None = None
    quality_floor: Annotated[float, Field(gt=0, lt=1)] | None = None
    quality_max_loss_points: Annotated[float, Field(gt=0, lt=_POINTS)] | None = None
    budget_per_month: Annotated[float, Field(ge=0)] | None = None
    currency: Annotated[str, Field(pattern=r"^[A-Z]{3}$")] | None = None


_ALIASES: Final = {"context": "context_tokens", "window_h": "window_hours"}
_KINDS: Final = '"interactive", "batch" or "scheduled"'
_TRAINING: Final = tuple(kind.value for kind in TrainingKind)


def load_demand(path: Path) -> Demand:
    """The demand in a TOML file.

    Raises:
        DemandError: the file cannot be read, is not TOML, has unknown or wrong fields, or demands what is contradictory
            or impossible; one sentence that names the file and the field. A demand of training is refused as well.
    """
    return parse_demand(read_demand_file(path), source=path.name)


def load_any_demand(path: Path) -> Demand | TrainingDemand:
    """The demand in a TOML file: of answers, or of a training.

    Raises:
        DemandError: as :func:`load_demand`, and :func:`suffice.loaders.training.parse_training`.
    """
    return parse_any_demand(read_demand_file(path), source=path.name)


def parse_any_demand(text: str, *, source: str = "demand") -> Demand | TrainingDemand:
    """The demand in a TOML text, of answers or of a training; ``source`` names it in error messages.

    Raises:
        DemandError: see :func:`load_any_demand`.
    """
    table = demand_table(text, source)
    if table.get("kind") in _TRAINING:
        from suffice.loaders.training import training_of  # noqa: PLC0415  # most demands are none

        return training_of(table, source)
    return _demand_of(table, source)


def parse_demand(text: str, *, source: str = "demand") -> Demand:
    """The demand in a TOML text; ``source`` names it in error messages."""
    return _demand_of(demand_table(text, source), source)


def _demand_of(table: dict[str, object], source: str) -> Demand:
    kind = table.get("kind")
    if kind in _TRAINING:
        raise DemandError(
            f'{source}: kind = "{kind}" is a training, which only `suffice plan` judges; give it the file'
        )
    try:
        parsed = _DemandTable.model_validate(table)
    except ValidationError as error:
        sentence = explained(error, _DemandTable.model_fields, _ALIASES, _KINDS)
        raise DemandError(f"{source}: {sentence}") from error
    try:
        return _to_demand(parsed)
    except (DemandError, ValueError) as error:
        raise DemandError(f"{source}: {error}") from error


def _lengths(value: float | _LengthsTable | None) -> Lengths | None:
    if value is None:
        return None
    if isinstance(value, _LengthsTable):
        return Lengths(p50=value.p50, p95=value.p50 if value.p95 is None else value.p95)
    return Lengths(p50=value, p95=value)


def _limit(name: str, value: float | _LimitTable | None, percentile: float | None) -> Limit | None:
    if value is None:
        if percentile is not None:
            raise DemandError(f"'{name}_percentile' is stated without a limit '{name}_s'")
        return None
    if isinstance(value, _LimitTable):
        stated = {float(key[1:]): seconds for key, seconds in value.model_dump(exclude_none=True).items()}
        if len(stated) != 1 or percentile is not None:
            raise DemandError(f"'{name}_s' takes one limit at one percentile, such as {name}_s = {{ p95 = 2.0 }}")
        (percentile, seconds) = stated.popitem()
        return Limit(value_s=seconds, percentile=percentile)
    return Limit(value_s=value, percentile=_DEFAULT_PERCENTILE if percentile is None else percentile)


def _rate(table: _DemandTable) -> float | None:
    stated = {
        "requests_per_second": (table.requests_per_second, 1),
        "requests_per_hour": (table.requests_per_hour, SECONDS_PER_HOUR),
        "requests_per_day": (table.requests_per_day, SECONDS_PER_DAY),
    }
    given = [name for name, (value, _) in stated.items() if value is not None]
    if table.concurrent_users is not None and given:
        raise DemandError(f"'concurrent_users' and '{given[0]}' are both stated; give the users or the rate")
    if len(given) > 1:
        raise DemandError(
            f"the rate is stated {len(given)} times ({quoted(given)}); give one. Requests of a day beside the rate of the busiest hour are 'volume_per_day'"
        )
    for value, period_s in stated.values():
        if value is not None:
            return value / period_s
    return None


def _memory_bytes(table: _DemandTable) -> float | None:
    if table.memory_gib is not None and table.memory_gb is not None:
        raise DemandError("memory is stated as 'memory_gib' and as 'memory_gb'; give one")
    if table.memory_gib is not None:
        return table.memory_gib * GIB
    return None if table.memory_gb is None else table.memory_gb * GIGA


def _to_demand(table: _DemandTable) -> Demand:
    try:
        kind = DemandKind(table.kind)
    except ValueError:
        raise DemandError(f"kind = {shortened(table.kind)}; write {_KINDS}") from None
    demand = Demand(
        kind=kind,
        prompt_tokens=_lengths(table.prompt_tokens),
        output_tokens=_lengths(table.output_tokens),
        requests_per_second=_rate(table),
        rate_is_daily=table.requests_per_day is not None,
        volume_per_day=table.volume_per_day,
        interactive_share=table.interactive_share,
        concurrent_users=table.concurrent_users,
        tokens_per_second_per_user=table.tokens_per_second_per_user,
        ttft=_limit("ttft", table.ttft_s, table.ttft_percentile),
        tpot=_limit("tpot", table.tpot_s, table.tpot_percentile),
        window_s=None if table.window_hours is None else table.window_hours * SECONDS_PER_HOUR,
        context_tokens=table.context_tokens,
        margin=table.margin,
        memory_bytes=_memory_bytes(table),
        quality_floor=table.quality_floor,
        quality_max_loss=None if table.quality_max_loss_points is None else table.quality_max_loss_points / _POINTS,
        budget_per_month=table.budget_per_month,
        currency=table.currency,
        model=table.model,
    )
    images = images_of(table, with_prompt=demand.prompt_tokens is not None)
    if images is not None:
        demand = with_images(demand, images)
    check_consistency(demand)
    return demand


def check_consistency(demand: Demand) -> None:
    """Refuse demands that say too little to be judged, contradict themselves, or ask for the impossible.

    Raises:
        DemandError: with what to add or change.
    """
    _check_complete(demand)
    needed = None
    if demand.prompt_tokens is not None:
        output = 0.0 if demand.output_tokens is None else demand.output_tokens.p95
        needed = demand.prompt_tokens.p95 + output
    if demand.context_tokens is not None and needed is not None and needed > demand.context_tokens:
        raise DemandError(
            f"contradictory: a context of {demand.context_tokens} tokens cannot hold a P95 prompt and output of "
            f"{needed:.0f} tokens; raise 'context_tokens' or lower the lengths"
        )
    if demand.ttft is not None and demand.prompt_tokens is None:
        raise DemandError("a 'ttft_s' limit depends on the prompt; state 'prompt_tokens' beside it")
    _check_share(demand)
    _check_volume(demand)
    if demand.budget_per_month is not None and demand.currency is None:
        raise DemandError("'budget_per_month' needs a 'currency', such as currency = \"CNY\"")


def _check_share(demand: Demand) -> None:
    if demand.interactive_share is None:
        return
    if demand.kind is not DemandKind.INTERACTIVE:
        raise DemandError(
            f"'interactive_share' is of an interactive demand; nobody waits for a {demand.kind.value} one"
        )
    if demand.requests_per_second is None:
        raise DemandError("'interactive_share' is a share of a request rate; state one, such as 'requests_per_hour'")


def _check_volume(demand: Demand) -> None:
    volume, rate = demand.volume_per_day, demand.requests_per_second
    if volume is None:
        return
    if demand.kind is not DemandKind.INTERACTIVE or demand.rate_is_daily:
        raise DemandError(
            "'volume_per_day' stands beside the rate of the busiest time, or the users, of an interactive demand; elsewhere 'requests_per_day' is the volume"
        )
    most = None if rate is None else rate * SECONDS_PER_DAY
    if most is not None and volume > most and not math.isclose(volume, most):
        raise DemandError(
            f"contradictory: a 'volume_per_day' of {volume:,.6g} is more than the {most:,.6g} that the stated rate makes in a day; "
            "the rate is that of the busiest time"
        )


def _check_complete(demand: Demand) -> None:
    if demand.kind is DemandKind.INTERACTIVE:
        stated = (demand.required_decode_tokens_per_second, demand.ttft, demand.requests_per_second)
        if all(item is None for item in stated):
            raise DemandError(
                "an interactive demand needs 'tokens_per_second_per_user', a 'ttft_s' or 'tpot_s' limit, or a request rate"
            )
        if demand.requests_per_second is not None and (demand.prompt_tokens is None or demand.output_tokens is None):
            raise DemandError("a request rate is work only with 'prompt_tokens' and 'output_tokens'; state both")
        return
    missing = [
        name
        for name, value in (
            ("prompt_tokens", demand.prompt_tokens),
            ("output_tokens", demand.output_tokens),
            ("requests_per_day (or _per_hour, _per_second)", demand.requests_per_second),
        )
        if value is None
    ]
    if demand.kind is DemandKind.SCHEDULED and demand.window_s is None:
        missing.append("window_hours")
    if missing:
        raise DemandError(f"a {demand.kind.value} demand needs {', '.join(missing)}")
