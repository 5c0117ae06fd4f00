"""Builders of comparisons: models with chosen scores on chosen items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.model.items import ScoreKind
from suffice.model.quants import (
    AskedModel,
    Distance,
    DocumentFigures,
    Outcome,
    Quantile,
    QuantsRecord,
    Subject,
    SubjectKind,
    Task,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def tasks(
    count: int, *, kind: ScoreKind | None = ScoreKind.EXACT, groups: int | None = None, labelled: bool = True
) -> tuple[Task, ...]:
    """``count`` different items, each on its own or in so many groups in turn."""
    return tuple(
        Task(
            item_id=f"i{number}",
            item_hash=f"{number:064x}",
            cluster=f"item i{number}" if groups is None else f"group g{number % groups}",
            kind=kind,
            is_labelled=labelled,
        )
        for number in range(count)
    )


def subject(name: str) -> Subject:
    """A file of that name."""
    return Subject(name=name, kind=SubjectKind.FILE, place=f"{name}.gguf", identity=f"hash of {name}", file_bytes=1000)


def asked(name: str, scores: Sequence[float | None], texts: Sequence[str | None] | None = None) -> AskedModel:
    """A model with these scores; its texts are "right" and "wrong" unless they are given."""
    written = texts or [None if score is None else ("right" if score == 1 else "wrong") for score in scores]
    return AskedModel(
        subject=subject(name),
        outcomes=tuple(
            Outcome(score=score, text=text, reason="the engine failed" if score is None else None, tokens=1)
            for score, text in zip(scores, written, strict=True)
        ),
    )


def paired_scores(count: int, *, right: int, lost: int, gained: int = 0) -> tuple[list[float], list[float]]:
    """Scores of a reference with ``right`` items right, and of a candidate that loses and gains so many of them."""
    reference = [1.0] * right + [0.0] * (count - right)
    candidate = [0.0] * lost + [1.0] * (right - lost) + [1.0] * gained + [0.0] * (count - right - gained)
    return reference, candidate


def comparison(reference: Sequence[float | None], *candidates: Sequence[float | None]) -> QuantsRecord:
    """A comparison of "ref" with "c1", "c2" and so on, on independent items of one kind."""
    models = (asked("ref", reference), *(asked(f"c{place}", own) for place, own in enumerate(candidates, 1)))
    return QuantsRecord(items_source="items.jsonl", items_hash="ab", tasks=tasks(len(reference)), models=models)


def distance(candidate: str, divergences: Sequence[float], *, is_self: bool = False, tokens: int = 100) -> Distance:
    """A distance with one document for each mean divergence, of ``tokens`` tokens."""
    return Distance(
        candidate=candidate,
        documents=tuple(
            DocumentFigures(
                name=f"d{place}",
                tokens=tokens,
                divergence=value * tokens,
                same_top=tokens - round(10 * value),
                reference_loss=2.0 * tokens + place,
                candidate_loss=(2.0 + value) * tokens + place,
            )
            for place, value in enumerate(divergences)
        ),
        p99=Quantile(value=max(divergences), low=None, high=None, shortage="not enough groups"),
        largest=max(divergences),
        is_self=is_self,
    )
