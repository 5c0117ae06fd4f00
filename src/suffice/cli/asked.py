"""What `measure`, `check` and `compare` make of what was asked: the demand, and the run to make for a model."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from suffice.cli import options
from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.request import RunRequest
    from suffice.model.demand import Demand

_MEDIAN_PERCENTILE = 50.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The flags that decide how a model is measured, as the user gave them; None: not given."""

    budget_s: float | None = None
    prompt_tokens: int | None = None
    depth: int | None = None
    threads: int | None = None
    prompt: Path | None = None
    batch: int = 1
    ubatch: int = 512
    kv_type: str = "f16"
    flash_attention: str = "auto"
    mmap: bool = True
    gpu_layers: int = 0

    def request(self, model: ModelFile | ShapeModel, demand: Demand | None) -> RunRequest:
        """The run of one model; lengths that no flag states are those of the demand, else our defaults.

        Raises:
            UsageError: the prompt file is empty or cannot be read.
        """
        from suffice.measure.request import DEFAULT_PROMPT_TOKENS, RunRequest, default_budget_s

        prompt_tokens, depth = self.prompt_tokens, self.depth
        if prompt_tokens is None:
            prompt_tokens = DEFAULT_PROMPT_TOKENS if demand is None else prompt_length_of(demand)
        if depth is None:
            depth = prompt_tokens if demand is None else depth_of(demand, prompt_tokens)
        stated = demand is not None and demand.prompt_tokens is not None
        return RunRequest(
            model=model,
            budget_s=default_budget_s(model) if self.budget_s is None else self.budget_s,
            prompt_tokens=prompt_tokens,
            depth=depth,
            batch=self.batch,
            lengths_stated=stated or self.prompt_tokens is not None or self.depth is not None,
            threads=self.threads,
            prompt=options.read_prompt(self.prompt),
            n_batch=self.ubatch,
            n_ubatch=self.ubatch,
            type_k=self.kv_type,
            type_v=self.kv_type,
            flash_attention=self.flash_attention,
            use_mmap=self.mmap,
            n_gpu_layers=self.gpu_layers,
        )


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
