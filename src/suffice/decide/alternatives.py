"""What can be done when a model is too big for the machines at hand: each way with its memory, speed, price, and what nobody has checked yet.

Alternatives are sorted by how little they change: the same model with fewer bits, over several machines, on a GPU, from an API; then another
model: a smaller one of the family, a mixture of experts. An alternative is graded by the rule of :mod:`suffice.decide.verdict`, where its
machine is known. What it answers is never graded: fewer bits and another model answer differently, and only the team's items say how much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from suffice.decide.plan_load import alone, elsewhere
from suffice.decide.verdict import Grade
from suffice.model.basis import Basis
from suffice.model.demand import DemandKind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.evidence import DecodePoint, MachineEvidence
    from suffice.decide.plan_types import MonthlyCost
    from suffice.decide.quantity import Quantity
    from suffice.model.demand import Demand
    from suffice.model.rpc import Network, RpcChain
    from suffice.records.schema import ModelRecord


LOAD: Final = "load"  # what binds where one request alone is served well enough, and nobody has simulated all of them


class AlternativeKind(StrEnum):
    """The ways, in the order in which they change what users get."""

    QUANT = "fewer bits"
    RPC = "several machines"
    GPU = "gpu"
    API = "api"
    SIBLING = "smaller model"
    MOE = "mixture of experts"


class CheckKind(StrEnum):
    """What a check is about."""

    SPEED = "speed"
    LOAD = "load"
    QUALITY = "quality"
    MAKING = "making"
    NETWORK = "network"
    SERVERS = "servers"
    MAIN = "main machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """What nobody has checked yet, in words, and the command that does."""

    kind: CheckKind
    what: str
    command: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternative:
    """One way. None always means: not known, or it does not apply.

    Attributes:
        kind: which way.
        model: that would run, as `--model` takes it; of an API as it calls the model.
        where: the machine, "3 x aws/c7a.4xlarge", a device, or the API's platform.
        grade: how one request alone stands on it, for a demand of one stream; NOT_ENOUGH of a load where one alone is; else OPEN.
        reason: in words: by which constraint, and by how much.
        binding: the name of that constraint; LOAD: one request alone is served, and all of them were not simulated.
        weights_bytes: of the model's file.
        needed_bytes: weights and the caches of the demand's streams; of several machines what the fullest one holds.
        usable_bytes: of one machine, what the system needs taken off.
        decode: tokens per second of one stream at the demand's depth.
        basis: the weakest basis of what was judged.
        cost: of a month.
        cost_unknown: why there is none.
        chain: of several machines.
        network_s: the least and the most that a token spends on the network.
        checks: what remains to be checked.
        notes: what has to be known about it.
    """

    kind: AlternativeKind
    model: str
    where: str
    grade: Grade
    reason: str
    binding: str | None = None
    weights_bytes: float | None = None
    needed_bytes: float | None = None
    usable_bytes: float | None = None
    decode: Quantity | None = None
    basis: Basis | None = None
    cost: MonthlyCost | None = None
    cost_unknown: str | None = None
    chain: RpcChain | None = None
    network_s: tuple[float, float] | None = None
    checks: tuple[Check, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Model and machine in one."""
        return f"{self.model} on {self.where}"

    @property
    def fits(self) -> bool | None:
        """Whether it holds the model with its caches."""
        if self.needed_bytes is None or self.usable_bytes is None:
            return None
        return self.needed_bytes <= self.usable_bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """A machine at hand: what it has for the model that was asked for."""

    name: str
    usable_bytes: float | None
    fits: bool | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Alternatives:
    """All ways, sorted by how little they change.

    Attributes:
        model: that is too big.
        weights_bytes: of its file.
        cache_bytes: of the demand's streams at full context; None: the layout of its cache is not known.
        context_tokens: of each stream.
        streams: at once.
        rooms: the machines at hand.
        items: the ways.
        missing: for each way that is not there, why.
        notes: what concerns several of them.
    """

    model: str
    weights_bytes: float
    cache_bytes: float | None
    context_tokens: int
    streams: int
    rooms: tuple[Room, ...]
    items: tuple[Alternative, ...]
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def of_kind(self, kind: AlternativeKind) -> tuple[Alternative, ...]:
        """Those of one way, in their order."""
        return tuple(item for item in self.items if item.kind is kind)


def one_stream(demand: Demand) -> Demand:
    """What one of the demand's requests needs of an idle machine that is not at hand. The margin of a load is one of load, and is left out."""
    return alone(demand) if has_load(demand) else elsewhere(demand)


def has_load(demand: Demand) -> bool:
    """Whether it is about more than one stream: users, a rate, or a queue of work."""
    return demand.margin_is_of_load or demand.kind is not DemandKind.INTERACTIVE


def graded(demand: Demand, grade: Grade, reason: str) -> tuple[Grade, str]:
    """The grade of a machine from that of one stream on it: too slow for one is too slow, and enough for one decides nothing of a load."""
    if not has_load(demand) or grade is Grade.NOT_ENOUGH:
        return grade, reason
    return Grade.OPEN, f"For one request alone: {reason} Whether it holds the whole load is not judged here."


def in_order(items: Sequence[Alternative]) -> tuple[Alternative, ...]:
    """By how little they change; within a way as given."""
    kinds = list(AlternativeKind)
    return tuple(sorted(items, key=lambda item: kinds.index(item.kind)))


def chained(rate: Quantity, fast_s: float, slow_s: float, n_tokens: int = 1) -> Quantity:
    """The rate of a chain of machines, each of which would have ``rate`` alone.

    Args:
        rate: tokens per second of the whole model on one of the machines, were its memory large enough.
        fast_s: seconds of a pass on the network at best.
        slow_s: at worst.
        n_tokens: of the pass.

    The point lies at the mean of the two; a rate without an end keeps none.
    """

    def slowed(value: float, network_s: float) -> float:
        return n_tokens / (n_tokens / value + network_s) if value > 0 else value

    return replace(
        rate,
        point=slowed(rate.point, (fast_s + slow_s) / 2),
        low=None if rate.low is None else slowed(rate.low, slow_s),
        high=None if rate.high is None else slowed(rate.high, fast_s),
        basis=Basis.PREDICTED,
    )


def chained_evidence(
    one: MachineEvidence, chain: RpcChain, networks: tuple[Network, Network], prompt_tokens: int, name: str
) -> MachineEvidence:
    """Several machines as one: their memory together, one stream's speed after the network.

    Args:
        one: a machine of them, with the speeds that it would have with enough memory.
        chain: of the model over them.
        networks: the best and the worst that may lie between them.
        prompt_tokens: at which prefill is judged.
        name: of all together.
    """
    # A server leaves weights as they are in the file (`ggml_backend_get_default_buffer_type`), where the engine that was measured lays them out
    # anew: by how much it reads prompts more slowly, nobody has measured, so that no low end is known.
    token = [chain.network_s(network) for network in networks]
    prompt = [chain.network_s(network, prompt_tokens) for network in networks]
    decode = tuple(replace(point, rate=chained(point.rate, token[0], token[1])) for point in one.decode)
    prefill = one.prefill_rate
    return replace(
        without_measurements(one),
        name=name,
        decode=decode,
        prefill_rate=None
        if prefill is None
        else replace(chained(prefill, prompt[0], prompt[1], prompt_tokens), low=None),
        memory_usable_bytes=None if one.memory_usable_bytes is None else chain.machines * one.memory_usable_bytes,
    )


def without_measurements(evidence: MachineEvidence) -> MachineEvidence:
    """The evidence with rates alone: times that were measured of one machine and model say nothing of another."""
    return replace(
        evidence,
        prefill_curve=None,
        prefill_interval_ratios=None,
        prefill_basis=Basis.PREDICTED,
        ttft=None,
        ttft_prompt_tokens=None,
        load_s=None,
        service=None,
        service_uncertainty=None,
        quality=None,
        contradictions=(),
        undisturbed=None,
    )


def with_other_model(evidence: MachineEvidence, model: ModelRecord) -> MachineEvidence:
    """A measured machine with another model: its decode rate moves as the bytes of a step do, and nothing bounds it.

    A format has its own kernels, some of which are busy computing where others wait for the memory: the point is where one would look first,
    and a measurement has to say. A record that does not say what it streamed gives no rate.
    """
    scale = evidence.streamed_bytes / model.streamed_bytes if evidence.streamed_bytes and model.streamed_bytes else None
    return replace(
        without_measurements(evidence),
        decode=() if scale is None else tuple(_scaled(point, scale) for point in evidence.decode),
        prefill_rate=None,
        weights_bytes=None if model.file_bytes is None else float(model.file_bytes),
        kv_bytes_per_token=model.kv_bytes_per_token,
        kv_layers=model.kv_layers,
        kv_state_bytes=model.kv_state_bytes,
        context_length=model.context_length,
        streamed_bytes=model.streamed_bytes,
        model_identity=model.identity,
        model_name=model.name,
        model_file=None,
        bits_per_weight=None,
        active_parameters=model.active_parameters,
    )


def _scaled(point: DecodePoint, scale: float) -> DecodePoint:
    rate = point.rate.scaled(scale).with_bounds(low=None, high=None).with_basis(Basis.PREDICTED)
    return replace(point, rate=rate)


def runs_the_same(evidence: MachineEvidence, model: ModelRecord) -> bool:
    """Whether what was measured is this model, or does the same work: equal hash, or equal bytes in a step and in a token of cache."""
    if evidence.model_identity is not None and evidence.model_identity == model.identity:
        return True
    measured = (evidence.streamed_bytes, evidence.kv_bytes_per_token)
    return None not in measured and measured == (model.streamed_bytes, model.kv_bytes_per_token)


def needed_bytes(evidence: MachineEvidence, demand: Demand) -> float | None:
    """Weights, buffers and the caches of the demand's streams."""
    context = demand.needed_context_tokens or evidence.run_context_tokens
    return evidence.memory_needed_bytes(context, demand.streams)
