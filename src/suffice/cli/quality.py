"""Kept comparisons of ``suffice quants`` beside run records: whose quality they tell."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quality import QualityEvidence
    from suffice.model.demand import Demand


def with_quality(
    demand: Demand, evidences: Sequence[MachineEvidence], files: Sequence[Path]
) -> tuple[list[MachineEvidence], list[str]]:
    """The evidence of machines with the quality of their models, and what has to be said.

    Models are known by the hash of their file. A comparison without any model of the records would be a slip, and is refused.

    Raises:
        UsageError: a comparison of none of the models, or two of one model.
        RecordError: a file that is no comparison.
    """
    if not files:
        return list(evidences), []
    known = _by_identity(demand, files)
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
    warnings = [f"{name}: its model is in no comparison, so its quality is not judged" for name in missing]
    if demand.quality_floor is None and demand.quality_max_loss is None:
        warnings.append(
            "the demand states neither quality_floor nor quality_max_loss_points, so quality does not decide anything"
        )
    return found, warnings


def _by_identity(demand: Demand, files: Sequence[Path]) -> dict[str | None, QualityEvidence]:
    from suffice.decide.quants import compare_quality
    from suffice.decide.quants_evidence import policy_of, quality_evidence
    from suffice.records.quants_store import load_quants

    known: dict[str | None, QualityEvidence] = {}
    for path in files:
        record = load_quants(path)
        comparison = compare_quality(record, policy_of(demand))
        for model in record.models:
            subject = model.subject
            if subject.identity in known:
                raise UsageError(
                    f"--quality {path.name}: {subject.name} is in another comparison as well, or twice in this one; give one"
                )
            known[subject.identity] = quality_evidence(comparison, subject.name, source=path.name)
    return known
