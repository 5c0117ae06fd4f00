"""How options of a training read."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.decide.wording import grade_sentence
from suffice.model.training import Precision

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.training_types import TrainingMachine
    from suffice.decide.verdict import GradedConstraint
    from suffice.model.training import TrainingDemand


def reason_text(binding: GradedConstraint | None, graded: Sequence[GradedConstraint]) -> str:
    """Why an option stands as it does: the binding constraint, the time, and what else is not enough."""
    if binding is None:
        return "Nothing in the demand could be judged."
    sentences = [grade_sentence(binding.constraint, binding.grade.value)]
    others = [
        item
        for item in graded
        if item is not binding
        and item.constraint.judged
        and (item.grade.value == "not enough" or item.constraint.name == "wall_time_s")
    ]
    sentences += [grade_sentence(item.constraint, item.grade.value) for item in others]
    return " ".join(sentences)


def here_note(*, time_known: bool) -> str:
    """What the time on a measured machine rests on."""
    if not time_known:
        return "The record holds no speed of reading prompts, so that nothing is known of the time."
    return (
        "The time is the least: at the measured speed of reading prompts, with three passes or more a token. "
        "A training framework of other kernels was not measured; 20 steps of it would tell."
    )


def option_notes(
    demand: TrainingDemand, machine: TrainingMachine, *, devices: int, idle: int, joined: bool, checkpointing: bool
) -> tuple[str, ...]:
    """What has to be known about an option."""
    notes = []
    if machine.computes_in is not None:
        notes.append(
            f"{machine.device} does not compute in {_asked(demand.precision)}: it would in {machine.computes_in}."
        )
    if checkpointing and demand.gradient_checkpointing is None:
        notes.append("Activations are computed again (gradient checkpointing), since they may not fit otherwise.")
    if devices > 1:
        notes.append(f"{devices} devices, each with sequences of its own, share weights and optimizer (ZeRO 3, FSDP).")
        if demand.batch_tokens is None:
            notes.append(
                f"One step is then of at least {devices * demand.tokens_at_once:,} tokens; the demand states no batch."
            )
    if not joined:
        notes.append(
            "How fast its devices are joined is not known here, and gradients of all weights travel between them: the time has no upper end."
        )
    if idle:
        notes.append(f"{idle} of its devices idle: a batch of {demand.batch_tokens:,} tokens has no more sequences.")
    return tuple(notes)


def _asked(precision: Precision) -> str:
    return "bf16" if precision is Precision.BF16_PURE else precision.value
