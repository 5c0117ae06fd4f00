"""Kept comparisons of ``suffice quants`` beside run records: whose quality they tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from suffice.decide.quants_evidence import policy_of, quality_evidence
from suffice.decide.quants_words import points
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quality import QualityEvidence
    from suffice.decide.quants_types import QualityPolicy
    from suffice.model.demand import Demand

RECORD_NAME: Final = "quants.json"
_POINTS: Final = 100


def with_quality(
    demand: Demand, evidences: Sequence[MachineEvidence], files: Sequence[Path], max_loss_points: float | None = None
) -> tuple[Demand, list[MachineEvidence], list[str]]:
    """The demand with the loss that it is judged by, the evidence of machines with the quality of their models, and what has to be said.

    Models are known by the hash of their file. A comparison without any model of the records would be a slip, and is refused.

    Args:
        demand: as it was stated.
        evidences: of machines.
        files: kept comparisons, or the folders that hold them.
        max_loss_points: of 100, that may be lost where the demand does not say.

    Raises:
        UsageError: a comparison of none of the models, two of one model, or a loss that is none.
        RecordError: a file that is no comparison.
    """
    if not files:
        if max_loss_points is not None:
            raise UsageError("--max-loss is about --quality, and no comparison is given")
        return demand, list(evidences), []
    policy = policy_of(demand, None if max_loss_points is None else loss_of(max_loss_points))
    paths = [path / RECORD_NAME if path.is_dir() else path for path in files]
    known, warnings = _by_identity(policy, paths)
    if not any(evidence.model_identity in known for evidence in evidences):
        names = ", ".join(path.name for path in files)
        raise UsageError(
            f"--quality {names}: none of the run records is of a model that was compared there; measure the file that was compared, or "
            "use the records in the comparison's folder"
        )
    found = [
        replace(evidence, quality=known.get(evidence.model_identity)) if evidence.model_identity else evidence
        for evidence in evidences
    ]
    missing = [evidence.name for evidence in found if evidence.quality is None]
    warnings += [f"{name}: its model is in no comparison, so its quality is not judged" for name in missing]
    if demand.quality_max_loss is None and max_loss_points is None:
        warnings.append(
            f"the demand states no quality_max_loss_points: a loss of at most {points(policy.max_loss)} is allowed (--max-loss says otherwise)"
        )
    return replace(demand, quality_max_loss=policy.max_loss), found, warnings


def loss_of(value: float) -> float:
    """A loss as a share from points of 100.

    Raises:
        UsageError: none that could be shown.
    """
    if not 0 < value < _POINTS:
        raise UsageError(
            f"--max-loss {value:g}: points of 100, more than 0 (which can never be shown) and less than 100"
        )
    return value / _POINTS


def _by_identity(policy: QualityPolicy, files: Sequence[Path]) -> tuple[dict[str | None, QualityEvidence], list[str]]:
    from suffice.decide.quants import compare_quality
    from suffice.records.quants_store import load_quants

    known: dict[str | None, QualityEvidence] = {}
    warnings = []
    for path in files:
        record = load_quants(path)
        comparison = compare_quality(record, policy)
        warnings += [f"{path.name}: {note}" for note in comparison.notes]
        for model in record.models:
            subject = model.subject
            if subject.identity in known:
                raise UsageError(
                    f"--quality {path.name}: {subject.name} is in another comparison as well, or twice in this one; give one"
                )
            known[subject.identity] = quality_evidence(comparison, subject.name, source=path.name)
    return known, warnings
