"""Machines that are not at hand: the same verdict rule on predictions, and the cheapest that would be enough.

A prospect that is "enough" is so at the low end of its predicted range and with the whole margin, as a measured machine would be.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.decide.evidence import DEPTH_TOLERANCE, DEPTH_TOLERANCE_TOKENS, DecodePoint, MachineEvidence
from suffice.decide.service_screen import screened_outlooks
from suffice.decide.verdict import Grade, Verdict, decide_machine
from suffice.model.basis import Basis
from suffice.model.demand import StreamLengths
from suffice.units import GIB

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.catalogue.entries import Price
    from suffice.decide.quantity import Quantity
    from suffice.model.demand import Demand
    from suffice.records.schema import ModelRecord

# What system and engine take beside weights and cache, where nobody has looked: kept free, so that "fits" is not by a hair.
CPU_RESERVE_BYTES: Final = GIB
GPU_RESERVE_BYTES: Final = 2 * GIB
_ANSWER_TOKENS: Final = 256  # in the cache behind the depth, where the demand states no context


def predicted_lengths(demand: Demand) -> StreamLengths:
    """The lengths at which machines are predicted for a demand: also deep enough for the first token behind the prompt whose wait is limited.

    What is predicted at a depth bounds what is shallower, and nothing beyond; a little beyond changes a step by less than its range.
    """
    lengths = StreamLengths.of(demand)
    if demand.ttft is None:
        return lengths
    reached = math.ceil((lengths.prompt_tokens - DEPTH_TOLERANCE_TOKENS) / DEPTH_TOLERANCE)
    return replace(lengths, deepest=reached) if reached > lengths.depth else lengths


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """What is predicted of one model on one machine. None: not known. ``deepest``: decoding at another depth, where that is asked for."""

    depth: float  # tokens in the cache while it decodes
    decode: Quantity | None
    prefill: Quantity | None
    deepest: DecodePoint | None = None

    @property
    def points(self) -> tuple[DecodePoint, ...]:
        """Decoding by depth, that of the typical answer first. No step becomes faster behind more tokens: where the two say so the slower one stands for both."""
        if self.decode is None:
            return () if self.deepest is None else (self.deepest,)
        first = DecodePoint(depth=self.depth, rate=self.decode)
        if self.deepest is None:
            return (first,)
        is_slower = self.deepest.rate.point <= self.decode.point
        return (first, self.deepest if is_slower else replace(self.deepest, rate=self.decode))


@dataclass(frozen=True, slots=True, kw_only=True)
class Prospect:
    """A machine of the catalogue for one model: the evidence, what it rests on, and what it costs (None: not known)."""

    evidence: MachineEvidence
    rests_on: tuple[str, ...] = ()
    price: Price | None = None

    @property
    def name(self) -> str:
        """As the catalogue calls it."""
        return self.evidence.name


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """A prospect and how it stands against a demand.

    ``demand``: the verdict was taken over from a simulation of a slower machine, and :meth:`judged_alone` looks at this one; None: it was not.
    """

    prospect: Prospect
    verdict: Verdict
    demand: Demand | None = None

    def judged_alone(self) -> Standing:
        """With figures of its own."""
        if self.demand is None:
            return self
        return replace(self, verdict=decide_machine(self.demand, self.prospect.evidence), demand=None)

    @property
    def is_enough(self) -> bool:
        """Whether it may be named as enough: at the margin, and in a memory that is known."""
        return self.verdict.grade is Grade.ENOUGH and self.prospect.evidence.memory_usable_bytes is not None

    @property
    def lacks_memory_only(self) -> bool:
        """Whether it is fast enough, and nobody knows whether the model fits."""
        return self.prospect.evidence.memory_usable_bytes is None and _speed_is_enough(self.verdict)


def _speed_is_enough(verdict: Verdict) -> bool:
    graded = [item.grade for item in verdict.constraints if item.constraint.judged and item.constraint.of_speed]
    return bool(graded) and all(grade is Grade.ENOUGH for grade in graded)


def predicted_evidence(
    name: str,
    model: ModelRecord,
    speeds: Speeds,
    *,
    is_gpu: bool,
    memory_bytes: float | None,
    memory_is_floor: bool = False,
) -> MachineEvidence:
    """Evidence from predicted speeds.

    Args:
        name: of the machine.
        model: what a record says of the model.
        speeds: of it on the machine.
        is_gpu: whether an accelerator would run it.
        memory_bytes: of the machine, or of its accelerators together; a reserve is taken off.
        memory_is_floor: it has as much or more.
    """
    basis, points = speeds.decode.basis if speeds.decode is not None else Basis.PREDICTED, speeds.points
    deepest = max([one.depth or 0.0 for one in points]) if points else speeds.depth
    return MachineEvidence(
        name=name,
        is_gpu=is_gpu,
        decode=points,
        prefill_rate=speeds.prefill,
        prefill_curve=None,
        prefill_interval_ratios=None,
        prefill_basis=basis,
        ttft=None,
        ttft_prompt_tokens=None,
        load_s=None,
        weights_bytes=model.file_bytes,
        kv_bytes_per_token=model.kv_bytes_per_token,
        kv_layers=model.kv_layers,
        kv_state_bytes=model.kv_state_bytes,
        overhead_bytes=0.0,
        memory_usable_bytes=_usable(memory_bytes, is_gpu=is_gpu),
        memory_is_floor=memory_is_floor,
        context_length=model.context_length,
        run_context_tokens=round(deepest) + _ANSWER_TOKENS,
        streamed_bytes=model.streamed_bytes,
        disturbed=False,  # nobody ran anything
        unfinished=False,
        disturbance_reasons=(),
        engine_lower_bound=False,
        engine_advice=None,
        flash_attention_unproven=False,
        contradictions=(),
        model_identity=model.identity,
        model_name=model.name,
        memory_basis=Basis.STATED,
        active_parameters=model.active_parameters,
    )


def _usable(memory_bytes: float | None, *, is_gpu: bool) -> float | None:
    if memory_bytes is None:
        return None
    return max(memory_bytes - (GPU_RESERVE_BYTES if is_gpu else CPU_RESERVE_BYTES), 0.0)


def standings(demand: Demand, prospects: Sequence[Prospect]) -> tuple[Standing, ...]:
    """Each prospect's verdict, in the order given.

    Raises:
        DemandError: the model cannot hold the context that the demand needs.
    """
    elsewhere = replace(demand, memory_bytes=None)  # what is stated there is the memory of the machine at hand
    services = screened_outlooks(elsewhere, [one.evidence for one in prospects])
    return tuple(
        Standing(
            prospect=one,
            verdict=decide_machine(elsewhere, one.evidence, service),
            demand=None if service is None else elsewhere,
        )
        for one, service in zip(prospects, services, strict=True)
    )


def cheapest(found: Sequence[Standing], most: int) -> dict[str, tuple[Standing, ...]]:
    """By currency, the cheapest machines that are enough at the margin; prices of two currencies are not compared.

    A machine without a price cannot be ranked and is left out.
    """
    by_currency: dict[str, list[tuple[float, Standing]]] = {}
    for one in found:
        price = one.prospect.price
        if one.is_enough and price is not None:
            by_currency.setdefault(price.currency, []).append((price.per_hour, one))
    return {currency: own for currency, ranked in sorted(by_currency.items()) if (own := _first(ranked, most))}


def _first(ranked: list[tuple[float, Standing]], most: int) -> tuple[Standing, ...]:
    """The cheapest, each judged by figures of its own; one that is only just enough by those of another is left out."""
    found: list[Standing] = []
    for _, one in sorted(ranked, key=lambda pair: (pair[0], pair[1].prospect.name)):
        if len(found) == most:
            break
        alone = one.judged_alone()
        if alone.is_enough:
            found.append(alone)
    return tuple(found)
