"""What a run is asked to measure, and what is refused before anything is measured."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import UsageError
from suffice.model.demand import DEFAULT_PROMPT_TOKENS
from suffice.stats.stopping import StoppingRule
from suffice.units import GIGA

if TYPE_CHECKING:
    from suffice.loaders.model_file import ModelFile
    from suffice.loaders.shape_model import ShapeModel
    from suffice.measure.machine import MachineFacts
    from suffice.measure.numa import NumaNode
    from suffice.records.schema import RunRecord

DEFAULT_BUDGET_S: Final = 40.0
DEFAULT_SLICES_BUDGET_S: Final = 13.0  # slices are short: their repetitions cost a part of the whole model's ...
SLICES_BUDGET_MODEL_BYTES: Final = 10 * GIGA  # ... of up to this size; larger ones get more, up to four times as much
MOST_BUDGET_FACTOR: Final = 4.0
SERVICE_SHARE: Final = 0.5  # of the budget, for the service curve; the default budget grows by as much ...
LEAST_SERVED_BUDGET_S: Final = 60.0  # ... and to this at least: a curve has many points, also of short slices
ASKED_LENGTHS: Final = "asked_lengths"
"""In the settings of a record: prompt length and depth as they were asked for, before a budget shortened them."""
NOT_RUN: Final = "not run: "
"""With this begins the warning of a record whose model does not fit in memory."""
FLASH_ATTENTION_CHOICES: Final = ("auto", "on", "off")


class SliceChoice(StrEnum):
    """How a model without a file is stood in for."""

    AUTO = "auto"  # whole when it is so small that a cache would hold its slices, else in slices
    SLICES = "slices"
    WHOLE = "whole"


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What to measure. ``depth`` and ``prompt_tokens`` are shortened, and the record says so, when the budget is too small."""

    model: ModelFile | ShapeModel
    budget_s: float = DEFAULT_BUDGET_S
    prompt_tokens: int = DEFAULT_PROMPT_TOKENS
    depth: int = 0
    batch: int = 1  # sequences that decode together, beside one alone
    slots: int = 1  # more than 1: also the service curve, up to so many sequences
    served_tokens: int | None = None  # of the longest request of that curve; None: twice the depth
    lengths_stated: bool = True  # False: lengths are our own defaults, which nobody misses when they are shortened
    threads: int | None = None  # None: swept, and the best for decode and for prefill are used
    prompt: str | None = None  # None: random tokens
    n_batch: int = 512
    n_ubatch: int = 512
    type_k: str = "f16"
    type_v: str = "f16"
    flash_attention: str = "auto"
    use_mmap: bool = True
    n_gpu_layers: int = 0
    nodes: tuple[NumaNode, ...] = ()  # that the run is placed on; the single stream is that of the first
    slices: SliceChoice = SliceChoice.AUTO
    rule: StoppingRule = field(default_factory=StoppingRule)

    @property
    def instances(self) -> int:
        """Engines that serve side by side: one on each node."""
        return max(1, len(self.nodes))

    @property
    def stream_budget_s(self) -> float:
        """What the single stream may take: all, or what the service curve leaves."""
        return self.budget_s if self.slots == 1 else self.budget_s * (1 - SERVICE_SHARE)

    @property
    def budget_factor(self) -> float:
        """The budget in units of what the single stream may take of it."""
        return self.budget_s / self.stream_budget_s


def default_budget_s(model: ModelFile | ShapeModel, *, slots: int = 1) -> float:
    """What a run takes when nobody says: more for a model that is loaded and run whole, and for a service curve."""
    size = model.shape.tensor_bytes / SLICES_BUDGET_MODEL_BYTES
    stream_s = DEFAULT_BUDGET_S
    if not model.parts:
        stream_s = DEFAULT_SLICES_BUDGET_S * min(max(size, 1.0), MOST_BUDGET_FACTOR)
    return stream_s if slots == 1 else max(stream_s / (1 - SERVICE_SHARE), LEAST_SERVED_BUDGET_S)


def check_request(request: RunRequest, facts: MachineFacts) -> None:
    """Refuse settings that this machine or model cannot have.

    Raises:
        UsageError: with the flag and what is possible.
    """
    if request.threads is not None and request.threads > facts.usable_cpus:
        where = " of that node" if request.nodes else ""
        raise UsageError(f"--threads {request.threads}: this process may use {facts.usable_cpus} CPUs{where} at once")
    if request.instances > 1 and request.slots == 1:
        raise UsageError("--per-node measures the service curve of an engine on each node; give --slots N, 2 at least")
    if request.flash_attention not in FLASH_ATTENTION_CHOICES:
        raise UsageError(f"--flash-attention {request.flash_attention}: choose {', '.join(FLASH_ATTENTION_CHOICES)}")
    if not 1 <= request.batch <= request.n_ubatch:
        raise UsageError(
            f"--batch {request.batch}: from 1 to the {request.n_ubatch} tokens of a micro-batch (--ubatch)"
        )
    if not 1 <= request.slots <= request.n_ubatch:
        raise UsageError(
            f"--slots {request.slots}: from 1 to the {request.n_ubatch} tokens of a micro-batch (--ubatch)"
        )
    for flag, size in (("--batch", request.batch), ("--slots", request.slots)):
        if size > 1 and request.n_gpu_layers:
            raise UsageError(f"{flag} is measured on CPUs; leave out --gpu-layers, or {flag}")
    context = request.model.shape.context_length
    for flag, value in (("--prompt-tokens", request.prompt_tokens), ("--depth", request.depth)):
        if context is not None and value > context:
            raise UsageError(
                f"{flag} {value} is more than the context of {context} tokens that this model was made for"
            )


def check_same_run(earlier: RunRecord, now: RunRecord, asked: dict[str, Any]) -> None:
    """Refuse to go on with the record of another run: repetitions of different things are no sample.

    Raises:
        UsageError: it is complete, or of another model, engine, setting or machine.
    """
    if earlier.complete:
        raise UsageError("the record to resume is complete already; leave out --resume to measure anew")
    _check_identity(earlier, now)
    if _slices_of(earlier) != _slices_of(now):
        raise UsageError(
            "the record to resume is of other slices than this version of suffice makes; leave out --resume"
        )
    changed = [name for name, value in asked.items() if earlier.settings.get("asked", asked).get(name) != value]
    if changed:
        raise UsageError(
            f"the record to resume was made with another {', '.join(changed)}; leave out --resume or use the same"
        )


def check_same_slots(earlier: RunRecord, request: RunRequest) -> None:
    """Refuse to go on with another service curve than was begun.

    Raises:
        UsageError: it is of another number of slots.
    """
    service = earlier.measurement.service
    if service is not None and service.slots != request.slots:
        raise UsageError(
            f"the record to resume was made with --slots {service.slots}; leave out --resume or use the same"
        )
    if service is not None and service.instances != request.instances:
        raise UsageError(
            f"the record to resume has the service curve of {service.instances} engines side by side; leave out --resume"
        )


def check_same_figures(record: RunRecord, now: RunRecord, request: RunRequest, *, n_ctx: int) -> None:
    """Refuse a complete record of another model, engine, machine, setting or length than the run that ``request`` asks for.

    Args:
        record: complete.
        now: the blank record of the run that is asked for.
        request: that run.
        n_ctx: the context that it would open, which its lengths decide.

    Raises:
        UsageError: with what differs.
    """
    _check_identity(record, now)
    wanted = {
        "n_ctx": n_ctx,
        "n_ubatch": request.n_ubatch,
        "type_k": request.type_k,
        "type_v": request.type_v,
        "flash_attention": request.flash_attention,
        "n_sequences": request.batch,
    }
    if request.threads is not None:
        wanted["n_threads"] = request.threads
    asked = record.settings.get("asked", {})
    changed = [name for name, value in wanted.items() if asked.get(name, value) != value]
    if changed:
        raise UsageError(
            f"the record to keep was made with another {', '.join(changed)}; leave out --resume or use the same"
        )
    check_same_lengths(record, request)


def check_same_lengths(record: RunRecord, request: RunRequest) -> None:
    """Refuse a record of another prompt length or depth than ``request`` asks for.

    One that was asked for the same, and shortened it to fit its budget, is of this length; it says so itself.

    Raises:
        UsageError: with what differs.
    """
    measurement = record.measurement
    prompt_tokens = None if measurement.prefill is None else measurement.prefill.prompt_tokens
    depth = measurement.decode[0].depth if measurement.decode else None
    lengths = (
        ("prompt", "prompt_tokens", request.prompt_tokens, prompt_tokens),
        ("depth", "depth", request.depth, depth),
    )
    told = record.settings.get(ASKED_LENGTHS)
    for what, name, wanted, taken in lengths:
        asked = told.get(name) if isinstance(told, dict) else None
        if asked == wanted or taken is None or (asked is None and _may_be(record, what, wanted, taken, request)):
            continue
        raise UsageError(
            f"the record to keep was made with a {what} of {taken if asked is None else asked} tokens, not {wanted}; "
            "leave out --resume or use the same"
        )


def _may_be(record: RunRecord, what: str, wanted: int, taken: int, request: RunRequest) -> bool:
    """Whether a length is the wanted one, or what a budget left of it, in a record that does not say what was asked for."""
    if taken >= wanted:
        return taken == wanted
    said = (
        f"the {what} was shortened from {wanted} to {taken} tokens",
        f"the {what} has {taken} tokens instead of {wanted},",
    )
    is_deep_in_prompt = what == "depth" and request.depth <= request.prompt_tokens
    return not request.lengths_stated or is_deep_in_prompt or any(text.startswith(said) for text in record.warnings)


def _check_identity(earlier: RunRecord, now: RunRecord) -> None:
    if earlier.model.identity != now.model.identity:
        raise UsageError("the record to resume is of another model file; leave out --resume or give that file")
    if (earlier.engine.name, earlier.engine.version) != (now.engine.name, now.engine.version):
        raise UsageError("the record to resume was made by another engine; leave out --resume or use that engine")
    if earlier.machine != now.machine:
        raise UsageError("the record to resume was made on another machine; leave out --resume")


def _slices_of(record: RunRecord) -> object:
    """What was run in place of the model: None for the model itself."""
    extrapolation = record.measurement.extrapolation
    return None if extrapolation is None else (extrapolation.kinds, extrapolation.slices)
