"""All that a comparison of models shows, in one value: quality, distance, speed, and a sentence for each candidate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.decide.quants import compare_quality
from suffice.decide.quants_distance import compare_distances
from suffice.decide.quants_speed import compare_speeds, fronts
from suffice.decide.quants_types import QualityPolicy
from suffice.decide.quants_words import candidate_sentence

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.decide.quants_distance import DistanceFigures
    from suffice.decide.quants_speed import FrontRow, SpeedFigures
    from suffice.decide.quants_types import CandidateQuality, QualityComparison
    from suffice.model.quants import QuantsRecord
    from suffice.records.schema import RunRecord


@dataclass(frozen=True, slots=True, kw_only=True)
class Conclusions:
    """What is said of a comparison. ``speeds`` and ``fronts`` are in the record's order of models, ``sentences`` in that of candidates."""

    record: QuantsRecord
    quality: QualityComparison
    distances: tuple[DistanceFigures, ...]
    speeds: tuple[SpeedFigures, ...]
    fronts: tuple[FrontRow, ...]
    sentences: tuple[str, ...]
    verdicts: Mapping[str, tuple[str, str]]


def conclude(
    record: QuantsRecord,
    policy: QualityPolicy | None = None,
    speeds: Mapping[str, RunRecord] | None = None,
    verdicts: Mapping[str, tuple[str, str]] | None = None,
) -> Conclusions:
    """Everything that follows from a comparison.

    Args:
        record: its rows.
        policy: what a candidate has to reach; one point of loss and no floor by default.
        speeds: run records by the name of the model; what is missing is unknown.
        verdicts: by the name of the candidate, the machine's verdict with the reference and with the candidate.

    Raises:
        RecordError: rows or run records that do not belong together.
    """
    policy = QualityPolicy() if policy is None else policy
    quality = compare_quality(record, policy)
    figures = compare_speeds(record, speeds or {})
    verdicts = dict(verdicts or {})
    ratios = {one.name: one.decode_ratio for one in figures}
    sentences = tuple(
        candidate_sentence(
            look,
            decode=ratios[look.name],
            is_binary=_is_binary(quality, look),
            verdicts=verdicts.get(look.name),
        )
        for look in quality.candidates
    )
    return Conclusions(
        record=record,
        quality=quality,
        distances=compare_distances(record, policy),
        speeds=figures,
        fronts=fronts(record, figures, policy),
        sentences=sentences,
        verdicts=verdicts,
    )


def _is_binary(quality: QualityComparison, look: CandidateQuality) -> bool:
    """Whether both models' scores are right or wrong only."""
    return all(model.is_binary for model in quality.models if model.name in (quality.reference.name, look.name))
