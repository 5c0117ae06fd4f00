"""What `check` and `compare` make of what was asked: the demand, and the lengths to measure at."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.model.demand import Demand

_MEDIAN_PERCENTILE = 50.0


def demand_of(demand_file: Path | None, need: float | None) -> Demand:
    """The demand in a file, or that of one stream behind ``--need``.

    Raises:
        UsageError: both are given, or neither.
        DemandError: see :func:`suffice.loaders.demand.load_demand`.
    """
    from suffice.loaders.demand import load_demand
    from suffice.model.demand import single_stream_need

    if demand_file is not None and need is not None:
        raise UsageError("give a demand file or --need, not both")
    if demand_file is not None:
        return load_demand(demand_file)
    if need is None:
        raise UsageError(
            "what is needed? Give --need TOKENS_PER_SECOND or a demand.toml (docs/demand.md has one to start from)"
        )
    return single_stream_need(options.positive(need, "--need"))


def prompt_length_of(demand: Demand) -> int:
    """The prompt to measure with: that of the percentile whose time to first token is limited, else our default."""
    from suffice.measure.request import DEFAULT_PROMPT_TOKENS

    if demand.prompt_tokens is None:
        return DEFAULT_PROMPT_TOKENS
    percentile = _MEDIAN_PERCENTILE if demand.ttft is None else demand.ttft.percentile
    return round(demand.prompt_tokens.at(percentile)) or 1


def depth_of(demand: Demand, prompt_tokens: int) -> int:
    """Where the demand decodes; when it does not say, behind the prompt: an empty cache would flatter the machine."""
    return prompt_tokens if demand.work_depth_tokens is None else round(demand.work_depth_tokens)
