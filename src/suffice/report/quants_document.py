"""A comparison of models as one JSON document, for scripts; ``docs/quants.md`` lists its fields."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_distance import DistanceFigures
    from suffice.decide.quants_speed import FrontRow, SpeedFigures
    from suffice.decide.quants_types import CandidateQuality, Flip, KindFigures, ModelQuality, PairedFigures
    from suffice.model.quants import Subject
    from suffice.stats.documents import DocumentMean
    from suffice.stats.estimate import Interval
    from suffice.stats.noninferiority import Judgement


def quants_document(conclusions: Conclusions) -> dict[str, Any]:
    """Everything that was concluded; unknown is null. Rates are in tokens/s, divergences in nats, shares from 0 to 1."""
    record, quality = conclusions.record, conclusions.quality
    speeds = {one.name: one for one in conclusions.speeds}
    fronts = {one.name: one for one in conclusions.fronts}
    distances = {one.candidate: one for one in conclusions.distances if not one.is_self}
    subjects = {model.subject.name: model.subject for model in record.models}
    models = {model.name: model for model in quality.models}
    return {
        "items": {
            "source": record.items_source,
            "sha256": record.items_hash,
            "count": quality.items,
            "labelled": quality.labelled,
            "clusters": quality.clusters,
            "repeated": quality.repeated,
        },
        "policy": {
            "max_loss": quality.policy.max_loss,
            "floor": quality.policy.floor,
            "confidence": quality.policy.confidence,
        },
        "complete": record.complete,
        "reference": {
            **_model(quality.reference, subjects[quality.reference.name]),
            **_speed(speeds[quality.reference.name], fronts[quality.reference.name]),
        },
        "candidates": [
            {
                **_model(models[look.name], subjects[look.name]),
                **_candidate(look),
                **_speed(speeds[look.name], fronts[look.name]),
                **_distance(distances.get(look.name)),
                "verdict": _verdict(conclusions.verdicts.get(look.name)),
                "sentence": sentence,
            }
            for look, sentence in zip(quality.candidates, conclusions.sentences, strict=True)
        ],
        "noise_floors": [_distance(one)["distance"] for one in conclusions.distances if one.is_self],
        "settings": dict(record.settings),
        "notes": [*record.notes, *quality.notes],
    }


def _model(model: ModelQuality, subject: Subject) -> dict[str, Any]:
    return {
        "name": model.name,
        "kind": subject.kind.value,
        "place": subject.place,
        "identity": subject.identity,
        "quantization": subject.quantization,
        "accuracy": model.mean,
        "accuracy_interval": _interval(model.interval),
        "is_binary": model.is_binary,
        "scored": model.scored,
        "unscored": [{"reason": reason, "items": count} for reason, count in model.unscored],
        "errors": model.errors,
        "empty": model.empty,
        "cut_off": model.cut,
        "answers_by_kind": [
            {**asdict(one), "kind": None if one.kind is None else one.kind.value} for one in model.kinds
        ],
        "reaches_floor": _judgement(model.floor),
        "warnings": list(subject.warnings),
    }


def _candidate(look: CandidateQuality) -> dict[str, Any]:
    return {
        **_paired(look.paired),
        "p_holm": look.p_holm,
        "decision": look.decision,
        "finding": look.finding.value,
        "direction": look.direction.value,
        "reason": look.reason,
        "p_passes": look.p_yes,
        "p_fails": look.p_no,
        "items_enough": look.items_enough,
        "then": None if look.then is None else look.then.value,
        "then_by": None if look.then_by is None else look.then_by.value,
        "loss_reached": look.loss_reached,
        "floor_reached": look.floor_reached,
        "loses_at_most": None if look.non_inferior is None else _judgement(look.non_inferior.alone),
        "equivalent": _judgement(look.equivalence),
        "reaches_floor": _judgement(look.floor),
        "left_out": {**asdict(look.left_out), "decision_stands": look.stands_with_left_out},
        "kinds": [_kind(one) for one in look.kinds],
        "agreement": None if look.agreement is None else asdict(look.agreement),
        "flips": [_flip(flip) for flip in look.flips],
    }


def _paired(figures: PairedFigures | None) -> dict[str, Any]:
    interval = None if figures is None else figures.interval
    return {
        "difference": None if figures is None else figures.difference,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "level": None if interval is None else interval.level,
        "method": None if interval is None else interval.method,
        "shortage": None if figures is None or figures.summary.shortage is None else figures.summary.shortage.value,
        "p_value": None if figures is None else figures.p_value,
        "p_method": None if figures is None else figures.p_method,
        "pairs": 0 if figures is None else figures.summary.items,
        "gained": None if figures is None else figures.gained,
        "lost": None if figures is None else figures.lost,
        "reference_mean_of_pairs": None if figures is None else figures.reference_mean,
        "candidate_mean_of_pairs": None if figures is None else figures.candidate_mean,
    }


def _kind(one: KindFigures) -> dict[str, Any]:
    return {
        "kind": None if one.kind is None else one.kind.value,
        **_paired(one.paired),
        "p_holm": one.p_holm,
        "direction": one.direction.value,
        "chance": one.chance,
        "reference_at_chance": one.reference_at_chance,
    }


def _flip(flip: Flip) -> dict[str, Any]:
    return {
        "item": flip.task.item_id,
        "cluster": flip.task.cluster,
        "reference_score": flip.reference.score,
        "candidate_score": flip.candidate.score,
        "reference_answer": flip.reference.text,
        "candidate_answer": flip.candidate.text,
    }


def _judgement(judgement: Judgement | None) -> dict[str, Any] | None:
    if judgement is None:
        return None
    return {
        "limit": judgement.limit,
        "decision_alone": judgement.decision.value,
        "confidence": judgement.confidence,
        "low": judgement.low,
        "high": judgement.high,
        "p_yes": judgement.p_yes,
        "p_no": judgement.p_no,
        "method": judgement.method,
    }


def _speed(one: SpeedFigures, front: FrontRow) -> dict[str, Any]:
    return {
        "decode_tokens_per_second": None if one.decode is None else one.decode.point,
        "decode": None if one.decode is None else asdict(one.decode),
        "decode_depth": one.decode_depth,
        "decode_ratio": None if one.decode_ratio is None else asdict(one.decode_ratio),
        "prefill_tokens_per_second": None if one.prefill is None else one.prefill.point,
        "prefill": None if one.prefill is None else asdict(one.prefill),
        "prefill_ratio": None if one.prefill_ratio is None else asdict(one.prefill_ratio),
        "file_bytes": one.file_bytes,
        "peak_rss_bytes": one.peak_rss_bytes,
        "disturbed": one.disturbed,
        "front": {"standing": front.standing.value, "dominated_by": list(front.dominated_by)},
        "marks": list(one.marks),
    }


def _distance(one: DistanceFigures | None) -> dict[str, Any]:
    if one is None:
        return {"kl_mean": None, "same_top": None, "distance": None}
    return {
        "kl_mean": one.divergence.value,
        "same_top": one.same_top,
        "distance": {
            "of": one.candidate,
            "documents": one.documents,
            "tokens": one.tokens,
            "kl_mean": _mean(one.divergence),
            "kl_p99": {"value": one.p99, "low": one.p99_low, "high": one.p99_high, "shortage": one.p99_shortage},
            "kl_largest": one.largest,
            "documents_above_largest": one.documents_above_largest,
            "same_top": {"value": one.same_top, **(_interval(one.same_top_interval) or {})},
            "reference_perplexity": _mean(one.reference_perplexity),
            "candidate_perplexity": _mean(one.candidate_perplexity),
            "perplexity_ratio": _mean(one.perplexity_ratio),
            "noise": one.noise.value,
            "settings": dict(one.settings),
        },
    }


def _mean(mean: DocumentMean | None) -> dict[str, Any] | None:
    if mean is None:
        return None
    interval = mean.interval
    return {
        "value": mean.value,
        "low": None if interval is None else interval.low,
        "high": None if interval is None else interval.high,
        "shortage": None if mean.shortage is None else mean.shortage.value,
    }


def _interval(interval: Interval | None) -> dict[str, Any] | None:
    return None if interval is None else asdict(interval)


def _verdict(verdicts: tuple[str, str] | None) -> dict[str, str] | None:
    return None if verdicts is None else {"reference": verdicts[0], "candidate": verdicts[1]}
