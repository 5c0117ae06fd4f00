"""The tables of a comparison of models, as rows of text whose first is the header; a table without anything to say has no other."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from suffice.decide.quants_speed import Front
from suffice.decide.quants_types import Finding
from suffice.decide.quants_words import difference_text, percent, points, score_word, share_text
from suffice.report.tables import one_line, shortened
from suffice.units import format_bytes, format_memory

if TYPE_CHECKING:
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_distance import DistanceFigures
    from suffice.decide.quants_speed import Rate, Ratio
    from suffice.decide.quants_types import Agreement, CandidateQuality, Flip, ModelQuality
    from suffice.model.quants import Outcome
    from suffice.stats.documents import DocumentMean

MOST_FLIPS: Final = 20
_NAME_CHARACTERS: Final = 40
_ANSWER_CHARACTERS: Final = 60
_SHOWN_REASONS: Final = 3
_LEAST_P: Final = 0.0001
_UNKNOWN: Final = "unknown"
_ALIKE: Final = 0.9  # share of equal choices that a reader expects of a candidate that passes
Rows = list[list[str]]


def name_text(name: str) -> str:
    """A model's name in a cell."""
    return shortened(one_line(name), _NAME_CHARACTERS)


def p_text(p_value: float | None) -> str:
    """A p-value: ``0.032``, or ``<0.0001``."""
    if p_value is None:
        return _UNKNOWN
    return f"<{_LEAST_P:.4f}" if p_value < _LEAST_P else f"{p_value:.2g}"


def model_rows(conclusions: Conclusions) -> Rows:
    """Each model's own score; none where nothing is labelled."""
    quality = conclusions.quality
    if not quality.labelled:
        return [[]]
    binary = all(model.is_binary for model in quality.models)
    header = [
        "model",
        score_word(is_binary=binary),
        f"{quality.policy.confidence:.0%}",
        "scored",
        "no score",
        "errors",
        "cut off",
    ]
    has_floor = any(model.floor is not None for model in quality.models)
    rows = [header + (["reaches the floor"] if has_floor else [])]
    for model in quality.models:
        row = [name_text(model.name), *_score_cells(model)]
        row += [f"{model.scored:,}", f"{model.labelled - model.scored:,}", f"{model.errors:,}", f"{model.cut:,}"]
        if has_floor:
            row.append(_UNKNOWN if model.floor is None else model.floor.decision.value)
        rows.append(row)
    return rows


def _score_cells(model: ModelQuality) -> list[str]:
    if model.mean is None:
        return [_UNKNOWN, ""]
    if model.interval is None:
        return [percent(model.mean), f"no interval: {model.shortage}"]
    return [percent(model.mean), f"{percent(model.interval.low)} to {percent(model.interval.high)}"]


def candidate_rows(conclusions: Conclusions) -> Rows:
    """Each candidate's difference to the reference, and what was found."""
    quality = conclusions.quality
    loss = points(quality.policy.max_loss)
    rows = [["candidate", "difference", "p", "corrected", "gained", "lost", "pairs", f"loses at most {loss}", "found"]]
    for look in quality.candidates:
        figures = look.paired
        if figures is None:
            continue
        judged = look.non_inferior
        rows.append(
            [
                name_text(look.name),
                difference_text(figures),
                p_text(figures.p_value),
                p_text(look.p_holm),
                f"{figures.gained:,}",
                f"{figures.lost:,}",
                f"{figures.summary.items:,}",
                "not asked" if judged is None else judged.decision.value,
                found_text(look),
            ]
        )
    return rows


def found_text(look: CandidateQuality) -> str:
    """The finding in a cell, with the direction where one is shown beside it."""
    if look.finding in (Finding.EQUIVALENT, Finding.PASSES) and look.direction in ("worse", "better"):
        return f"{look.finding} ({look.direction})"
    return look.finding.value


def kind_rows(conclusions: Conclusions) -> Rows:
    """The difference on each kind of score; none where there is one kind only."""
    kinds = {task.kind for task in conclusions.record.tasks if task.is_labelled}
    rows = [["candidate", "kind", "difference", "p, corrected", "pairs", "shown"]]
    if len(kinds) < 2:  # noqa: PLR2004  # the table above has it already
        return rows
    for look in conclusions.quality.candidates:
        rows += [
            [
                name_text(look.name),
                "scored elsewhere" if one.kind is None else one.kind.value,
                difference_text(one.paired),
                p_text(one.p_holm),
                f"{one.paired.summary.items:,}",
                one.direction.value,
            ]
            for one in look.kinds
        ]
    return rows


def agreement_rows(conclusions: Conclusions) -> Rows:
    """How alike the outputs are."""
    rows = [["candidate", "identical text", "same choice", "first difference", "length"]]
    rows += [
        [name_text(look.name), *_agreement_cells(look.agreement)]
        for look in conclusions.quality.candidates
        if look.agreement is not None
    ]
    return rows


def _agreement_cells(agreement: Agreement) -> list[str]:
    place = ""
    if agreement.divergence_characters is not None:
        share = agreement.divergence_share
        place = f"after {agreement.divergence_characters:.4g} characters" + (
            "" if share is None else f", {percent(share)} of the shorter"
        )
    length = ""
    if agreement.length_ratio is not None:
        ends = agreement.length_interval
        length = f"{agreement.length_ratio:.3f} of the reference's {agreement.length_unit}"
        length += "" if ends is None else f" ({ends.low:.3f} to {ends.high:.3f})"
    return [
        "" if agreement.identical is None else share_text(agreement.identical),
        "" if agreement.same_choice is None else share_text(agreement.same_choice),
        place,
        length,
    ]


def distance_rows(conclusions: Conclusions) -> Rows:
    """Divergences and perplexities, the noise floor among them."""
    rows = [["candidate", "mean KL", "P99 KL", "largest KL", "same top", "perplexity", "ratio", "noise"]]
    rows += [_distance_row(one) for one in conclusions.distances]
    return rows


def _distance_row(one: DistanceFigures) -> list[str]:
    same = one.same_top_interval
    p99 = f"{one.p99:.3g}" + (
        f" (no interval: {one.p99_shortage or 'unknown'})"
        if one.p99_low is None or one.p99_high is None
        else f" ({one.p99_low:.3g} to {one.p99_high:.3g})"
    )
    perplexities = [
        _UNKNOWN if mean is None else f"{mean.value:.4g}"
        for mean in (one.reference_perplexity, one.candidate_perplexity)
    ]
    return [
        name_text(one.candidate) + (" (itself)" if one.is_self else ""),
        _mean_text(one.divergence),
        p99,
        f"{one.largest:.3g}, more in at most {percent(one.documents_above_largest)} of documents",
        percent(one.same_top) + ("" if same is None else f" ({percent(same.low)} to {percent(same.high)})"),
        " -> ".join(perplexities),
        _UNKNOWN if one.perplexity_ratio is None else _mean_text(one.perplexity_ratio, "{:.4f}"),
        one.noise.value,
    ]


def _mean_text(mean: DocumentMean, form: str = "{:.3g}") -> str:
    text = form.format(mean.value)
    if mean.interval is None:
        return text if mean.value == 0 else f"{text} (no interval: {mean.shortage})"
    return f"{text} ({form.format(mean.interval.low)} to {form.format(mean.interval.high)})"


def speed_rows(conclusions: Conclusions) -> Rows:
    """Speed, memory and the front; only models of which something is known."""
    rows = [["model", "decode", "ratio", "prefill", "ratio", "file", "peak memory", "speed and score"]]
    if all(one.decode is None and one.prefill is None for one in conclusions.speeds):
        return rows
    for one, front in zip(conclusions.speeds, conclusions.fronts, strict=True):
        standing = front.standing.value
        if front.standing is Front.DOMINATED:
            standing += f" by {', '.join(name_text(name) for name in front.dominated_by)}"
        rows.append(
            [
                name_text(one.name),
                _rate_text(one.decode),
                _ratio_text(one.decode_ratio),
                _rate_text(one.prefill),
                _ratio_text(one.prefill_ratio),
                _UNKNOWN if one.file_bytes is None else format_bytes(one.file_bytes),
                _UNKNOWN if one.peak_rss_bytes is None else format_memory(one.peak_rss_bytes),
                standing,
            ]
        )
    return rows


def _rate_text(rate: Rate | None) -> str:
    if rate is None:
        return _UNKNOWN
    if rate.low is None or rate.high is None:
        return f"{rate.point:.4g} tokens/s (no interval)"
    return f"{rate.point:.4g} tokens/s ({rate.low:.4g} to {rate.high:.4g})"


def _ratio_text(ratio: Ratio | None) -> str:
    if ratio is None:
        return _UNKNOWN
    if ratio.low is None or ratio.high is None:
        return f"{ratio.point:.3g}x (no interval)"
    return f"{ratio.point:.3g}x" + ("" if ratio.low == ratio.high else f" ({ratio.low:.3g} to {ratio.high:.3g})")


def flip_rows(conclusions: Conclusions) -> tuple[Rows, int]:
    """At most 20 flips, taken from the candidates in turn, with the number of all."""
    candidates = conclusions.quality.candidates
    rows = [["candidate", "item", "score", "reference's answer", "candidate's answer"]]
    in_turn = [
        flip for flips in zip_longest(*(look.flips[:MOST_FLIPS] for look in candidates)) for flip in flips if flip
    ]
    kept = {id(flip) for flip in in_turn[:MOST_FLIPS]}
    chosen = [(look, flip) for look in candidates for flip in look.flips if id(flip) in kept]
    rows += [[name_text(look.name), *_flip_cells(flip)] for look, flip in chosen]
    return rows, sum(len(look.flips) for look in candidates)


def _flip_cells(flip: Flip) -> list[str]:
    scores = f"{flip.reference.score:.3g} -> {flip.candidate.score:.3g}"
    return [name_text(flip.task.item_id), scores, answer_text(flip.reference), answer_text(flip.candidate)]


def answer_text(outcome: Outcome) -> str:
    """An answer on one line, shortened; what is no text stands in brackets."""
    if outcome.text is None:
        return (
            "(not kept)" if outcome.reason is None else f"({shortened(one_line(outcome.reason), _ANSWER_CHARACTERS)})"
        )
    if not outcome.text.strip():
        return "(empty)"
    return shortened(one_line(outcome.text.strip()), _ANSWER_CHARACTERS)


def marks(conclusions: Conclusions) -> list[str]:
    """What qualifies the tables: warnings and notes of the models, and why scores are unknown."""
    found = [*conclusions.record.notes, *conclusions.quality.notes]
    for model, quality, speed in zip(
        conclusions.record.models, conclusions.quality.models, conclusions.speeds, strict=True
    ):
        own = [*model.subject.warnings, *model.notes, *speed.marks]
        own += [f"no score on {count:,} items: {reason}" for reason, count in quality.unscored[:_SHOWN_REASONS]]
        if len(quality.unscored) > _SHOWN_REASONS:
            others = sum(count for _, count in quality.unscored[_SHOWN_REASONS:])
            own.append(f"no score on {others:,} more items, for other reasons")
        found += [f"{quality.name}: {mark}" for mark in own]
    found += [mark for look in conclusions.quality.candidates for mark in _choice_marks(look)]
    kept = max((look.left_out.count for look in conclusions.quality.candidates), default=0)
    if kept:
        found.append("items without a pair of scores are left out of differences, and counted")
    return found


def _choice_marks(look: CandidateQuality) -> list[str]:
    """A pass beside choices that are shown to be other ones: scores of a model that guesses hide what a candidate changed."""
    same = None if look.agreement is None else look.agreement.same_choice
    if look.decision != "passes" or same is None or same.interval is None or same.interval.high >= _ALIKE:
        return []
    other = f"{percent(1 - same.value)} of {same.items:,} items"
    what = f"its score passes, and yet it takes another choice than the reference on {other}"
    return [f"{look.name}: {what}: look at the flips before relying on the score"]
