"""The tables of a comparison of models, as rows of text whose first is the header; a table without anything to say has no other."""

from __future__ import annotations

from itertools import zip_longest
from typing import TYPE_CHECKING, Final

from suffice.decide.quants_speed import Front
from suffice.decide.quants_types import Finding
from suffice.decide.quants_words import counted, difference_text, percent, points, score_word, share_text
from suffice.report.tables import one_line, shortened
from suffice.units import format_bytes, format_memory

if TYPE_CHECKING:
    from suffice.decide.quants_conclusion import Conclusions
    from suffice.decide.quants_distance import DistanceFigures
    from suffice.decide.quants_speed import Rate, Ratio
    from suffice.decide.quants_types import Agreement, CandidateQuality, Flip, ModelQuality
    from suffice.model.items import ScoreKind
    from suffice.model.quants import Outcome
    from suffice.stats.documents import DocumentMean

MOST_FLIPS: Final = 20
_NAME_CHARACTERS: Final = 40
_ANSWER_CHARACTERS: Final = 60
_LEAST_P: Final = 0.0001
_UNKNOWN: Final = "unknown"
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
        "empty",
        "cut off",
    ]
    has_floor = any(model.floor is not None for model in quality.models)
    rows = [header + (["reaches the floor"] if has_floor else [])]
    for model in quality.models:
        row = [name_text(model.name), *_score_cells(model)]
        row += [f"{model.scored:,}", f"{model.labelled - model.scored:,}", f"{model.errors:,}"]
        row += [f"{model.empty:,}", f"{model.cut:,}"]
        if has_floor:
            row.append(_floor_cell(conclusions, model))
        rows.append(row)
    return rows


def _floor_cell(conclusions: Conclusions, model: ModelQuality) -> str:
    """A candidate's as it was decided beside the others, the reference's alone."""
    look = next((one for one in conclusions.quality.candidates if one.name == model.name), None)
    if look is not None and look.floor is not None:
        return {True: "yes", False: "no", None: "not enough items"}[look.floor_reached]
    return _UNKNOWN if model.floor is None else model.floor.decision.value


def answer_rows(conclusions: Conclusions) -> Rows:
    """How many answers of each kind were empty or cut off, where any was."""
    rows = [["model", "kind", "answers", "empty", "cut off"]]
    rows += [
        [name_text(model.name), kind_text(one.kind), f"{one.answers:,}", f"{one.empty:,}", f"{one.cut:,}"]
        for model in conclusions.quality.models
        for one in model.kinds
        if one.empty or one.cut
    ]
    return rows


def kind_text(kind: ScoreKind | None) -> str:
    """A kind of score for a reader."""
    return "scored elsewhere" if kind is None else kind.value


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
                "not asked" if judged is None else {True: "yes", False: "no", None: "not shown"}[look.loss_reached],
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
                kind_text(one.kind),
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
        place = f"after {counted(agreement.divergence_characters, 'character')}" + (
            "" if share is None else f", {percent(share)} of the shorter"
        )
    length = ""
    if agreement.length_ratio is not None:
        ends = agreement.length_interval
        length = f"{agreement.length_ratio:.3f} of the reference's {agreement.length_unit}"
        length += "" if ends is None else f" ({ends.low:.3f} to {ends.high:.3f})"
        length = "unknown: every answer was cut off" if agreement.all_cut else length
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
        f" (no interval: {_of_documents(one.p99_shortage)})"
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
        f"{one.largest:.3g}",
        percent(one.same_top) + ("" if same is None else f" ({percent(same.low)} to {percent(same.high)})"),
        " -> ".join(perplexities),
        _UNKNOWN if one.perplexity_ratio is None else _mean_text(one.perplexity_ratio, "{:.4f}"),
        one.noise.value,
    ]


def _of_documents(shortage: str | None) -> str:
    """Why there is no interval: what is counted here are documents, whatever it is elsewhere."""
    return "unknown" if shortage is None else shortage.replace("items", "documents").replace("groups", "documents")


def distance_note(conclusions: Conclusions) -> str:
    """What can be said of a largest divergence: how many further documents may hold a larger one."""
    if not conclusions.distances:
        return ""
    one = conclusions.distances[0]
    return (
        f"nats per token, of {counted(one.documents, 'document')} and {counted(one.tokens, 'token')}; with {conclusions.quality.policy.confidence:.0%} "
        f"confidence at most {percent(one.documents_above_largest)} of further documents hold a larger divergence than the largest here"
    )


def speed_note(conclusions: Conclusions) -> str:
    """At which depth decode was measured, and what the ratios are."""
    depths = sorted({one.decode_depth for one in conclusions.speeds if one.decode_depth is not None})
    parts = []
    if depths:
        at = " and ".join(f"{depth:,.0f}" for depth in depths)
        parts.append(f"decode with {at} tokens in the cache; a verdict takes it at the demand's depth, with more range")
    ratios = [
        ratio for one in conclusions.speeds for ratio in (one.decode_ratio, one.prefill_ratio) if ratio is not None
    ]
    if any(ratio.by_rounds for ratio in ratios):
        parts.append("ratios are within rounds, side by side, and need not be the quotient of the two rates")
    return "; ".join(parts)


def _mean_text(mean: DocumentMean, form: str = "{:.3g}") -> str:
    text = form.format(mean.value)
    if mean.interval is None:
        return text if mean.value == 0 else f"{text} (no interval: {_of_documents(mean.shortage)})"
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
