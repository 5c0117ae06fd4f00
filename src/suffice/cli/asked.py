"""What `measure`, `check` and `compare` make of what was asked: the demand, and the run to make for a model."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.cli import options
from suffice.errors import UsageError
from suffice.model.demand import users_with_margin

if TYPE_CHECKING:
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.numa import NumaNode
    from suffice.measure.request import RunRequest
    from suffice.model.demand import Demand

_MOST_SLOTS: Final = 32  # that are measured unasked; more users are extrapolated, and told
_SLOTS_OF_A_RATE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RunOptions:
    """The flags that decide how a model is measured, as the user gave them; None: not given."""

    budget_s: float | None = None
    prompt_tokens: int | None = None
    depth: int | None = None
    threads: int | None = None
    prompt: Path | None = None
    batch: int = 1
    slots: int = 1
    ubatch: int = 512
    kv_type: str = "f16"
    flash_attention: str = "auto"
    mmap: bool = True
    gpu_layers: int = 0
    nodes: tuple[NumaNode, ...] = ()  # see nodes_of; an engine on each of several copies its weights

    def request(self, model: ModelFile | ShapeModel, demand: Demand | None) -> RunRequest:
        """The run of one model; lengths that no flag states are those of the demand, else our defaults.

        Raises:
            UsageError: the prompt file is empty or cannot be read.
        """
        from suffice.measure.request import RunRequest, default_budget_s
        from suffice.model.demand import StreamLengths

        lengths = StreamLengths.of(demand, self.prompt_tokens)
        stated = demand is not None and demand.prompt_tokens is not None
        return RunRequest(
            model=model,
            budget_s=default_budget_s(model, slots=self.slots) if self.budget_s is None else self.budget_s,
            prompt_tokens=lengths.prompt_tokens,
            depth=lengths.depth if self.depth is None else self.depth,
            batch=self.batch,
            slots=self.slots,
            served_tokens=None if demand is None else _longest_request(demand),
            lengths_stated=stated or self.prompt_tokens is not None or self.depth is not None,
            threads=self.threads,
            prompt=options.read_prompt(self.prompt),
            n_batch=self.ubatch,
            n_ubatch=self.ubatch,
            type_k=self.kv_type,
            type_v=self.kv_type,
            flash_attention=self.flash_attention,
            use_mmap=self.mmap and len(self.nodes) <= 1,
            n_gpu_layers=self.gpu_layers,
            nodes=self.nodes,
        )


def nodes_of(numa_node: int | None, *, per_node: bool) -> tuple[NumaNode, ...]:
    """NUMA nodes of this machine that ``--numa-node`` or ``--per-node`` ask for; none when neither was given.

    Raises:
        UsageError: see :func:`suffice.measure.numa.choose_nodes`.
    """
    if numa_node is None and not per_node:
        return ()
    from suffice.measure.numa import choose_nodes, read_numa_nodes

    return choose_nodes(read_numa_nodes(), number=numa_node, per_node=per_node)


def default_slots(demand: Demand, *, engines: int = 1) -> int:
    """Sequences up to which the service curve of a demand is measured when nobody says; 1: none.

    Its users with the margin, which is one of load, or some for a rate. Several ``engines`` side by side share the users evenly, and
    have two slots at least: they are measured by their curves.
    """
    if demand.concurrent_users is not None:
        users = demand.concurrent_users
        slots = users if users == 1 else users_with_margin(users, demand.margin / engines)
        return min(max(slots, min(engines, 2)), _MOST_SLOTS)
    return _SLOTS_OF_A_RATE if demand.requests_per_second is not None else 1


def _longest_request(demand: Demand) -> int | None:
    """Tokens of a long prompt with a long answer; None where the demand states no lengths."""
    if demand.prompt_tokens is None:
        return None
    output = 0.0 if demand.output_tokens is None else demand.output_tokens.p95
    return math.ceil(demand.prompt_tokens.p95 + output)


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
