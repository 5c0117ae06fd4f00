"""Laws of what is concluded from a comparison."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from helpers.quants import subject
from suffice.decide.quants import compare_quality
from suffice.decide.quants_conclusion import conclude
from suffice.decide.quants_types import CandidateQuality, Direction, Finding, QualityPolicy
from suffice.model.items import ScoreKind
from suffice.model.quants import AskedModel, Outcome, QuantsRecord, Task
from suffice.records.quants_store import quants_from, quants_to_json
from suffice.report.json_values import json_text
from suffice.report.quants import quants_markdown, quants_text
from suffice.report.quants_csv import quants_csv
from suffice.report.quants_document import quants_document

QUICK = settings(max_examples=25, deadline=None, derandomize=True)
POLICY = QualityPolicy(max_loss=0.05)
TEXTS = (None, "yes", "no", "", "yes, it is", "大模型", "=1", "\x1b[31m", "a\nb")
KINDS = (ScoreKind.JSON, ScoreKind.EXACT, ScoreKind.MULTIPLE_CHOICE, None)


@st.composite
def rows(draw: st.DrawFn, models: int = 3) -> QuantsRecord:
    """A comparison of some models on up to 60 items, some alike, some without labels or scores."""
    chance = random.Random(draw(st.integers(0, 10**9)))  # noqa: S311  # drawing each item by itself is slow
    count, groups = draw(st.integers(1, 60)), draw(st.sampled_from([2, 8, 30, 500]))
    unknown, graded = draw(st.sampled_from([0.0, 0.01, 0.3])), draw(st.booleans())
    tasks = tuple(
        Task(
            item_id=f"i{number}",
            item_hash=f"{chance.randrange(4 * groups)}",
            cluster=f"group {chance.randrange(groups)}",
            kind=chance.choice(KINDS) if graded else ScoreKind.EXACT,
            is_labelled=chance.random() < 0.9,
        )
        for number in range(count)
    )
    return QuantsRecord(
        items_source="items.jsonl",
        items_hash=None,
        tasks=tasks,
        models=tuple(
            AskedModel(subject=subject(f"m{place}"), outcomes=tuple(_outcome(chance, task, unknown) for task in tasks))
            for place in range(models)
        ),
    )


def _outcome(chance: random.Random, task: Task, unknown: float) -> Outcome:
    score: float | None = float(chance.random() < 0.8)
    if task.kind in (ScoreKind.JSON, None) and chance.random() < 0.3:
        score = chance.random()
    if not task.is_labelled or chance.random() < unknown:
        score = None
    tokens = None if chance.random() < 0.01 else chance.randrange(9)
    return Outcome(score=score, text=chance.choice(TEXTS), tokens=tokens)


def gist(look: CandidateQuality) -> list[object]:
    """The figures and findings of one candidate, as approximate numbers."""
    figures = look.paired
    found: list[object] = [look.finding, look.direction, look.left_out, look.items_enough, look.then]
    found += [(one.kind, one.direction) for one in look.kinds]
    numbers = [look.p_holm, look.p_yes, look.p_no]
    if figures is not None:
        found += [figures.gained, figures.lost]
        numbers += [figures.difference, figures.p_value]
        numbers += [] if figures.interval is None else [figures.interval.low, figures.interval.high]
    return [*found, *(None if number is None else pytest.approx(number, abs=1e-9) for number in numbers)]


@QUICK
@given(rows(models=2))
def test_swapping_reference_and_candidate_mirrors(record: QuantsRecord) -> None:
    """What one gains the other loses; p, equivalence and agreement stay."""
    swapped = replace(record, models=tuple(reversed(record.models)))
    one, other = (compare_quality(some, POLICY).candidates[0] for some in (record, swapped))

    mirror = {Direction.WORSE: Direction.BETTER, Direction.BETTER: Direction.WORSE}
    assert one.direction is mirror.get(other.direction, other.direction)
    assert (one.finding is Finding.EQUIVALENT) == (other.finding is Finding.EQUIVALENT)
    assert one.left_out.reference_only == other.left_out.candidate_only
    assert (one.paired is None) == (other.paired is None)
    if one.paired is not None and other.paired is not None:
        assert one.paired.difference == pytest.approx(-other.paired.difference)
        assert (one.paired.gained, one.paired.lost) == (other.paired.lost, other.paired.gained)
        assert one.paired.p_value == pytest.approx(other.paired.p_value, abs=1e-9)
    if one.agreement is not None and other.agreement is not None:
        assert one.agreement.identical == other.agreement.identical
        assert one.agreement.divergence_characters == other.agreement.divergence_characters
        if one.agreement.length_ratio is not None and other.agreement.length_ratio is not None:
            assert one.agreement.length_ratio * other.agreement.length_ratio == pytest.approx(1)


@QUICK
@given(rows(), st.integers(0, 10**6))
def test_the_order_of_items_does_not_matter(record: QuantsRecord, seed: int) -> None:
    """Shuffled items lead to the same figures and findings."""
    order = list(range(len(record.tasks)))
    random.Random(seed).shuffle(order)  # noqa: S311  # no secret
    shuffled = replace(
        record,
        tasks=tuple(record.tasks[place] for place in order),
        models=tuple(
            replace(model, outcomes=tuple(model.outcomes[place] for place in order)) for model in record.models
        ),
    )

    first, second = compare_quality(record, POLICY), compare_quality(shuffled, POLICY)

    assert [gist(look) for look in first.candidates] == [gist(look) for look in second.candidates]
    assert [model.unscored for model in first.models] == [model.unscored for model in second.models]
    assert first.clusters == second.clusters


@QUICK
@given(rows())
def test_a_kept_comparison_leads_to_the_same_conclusions(record: QuantsRecord) -> None:
    """Written and read, it is the same record, and so are its text and document."""
    read = quants_from(json.loads(quants_to_json(record)), source="kept")

    assert read == record
    assert quants_text(conclude(read)) == quants_text(conclude(record))
    assert quants_document(conclude(read)) == quants_document(conclude(record))


@QUICK
@given(rows())
def test_every_comparison_can_be_reported(record: QuantsRecord) -> None:
    """Whatever the rows are, each report is made, one line an item in the CSV's rows, and JSON is JSON."""
    found = conclude(record, QualityPolicy(floor=0.5))

    assert "# Comparison" in quants_markdown(found)
    assert quants_csv(found).startswith('"suffice quants: id"')
    assert len(json.loads(json_text(quants_document(found)))["candidates"]) == 2


@QUICK
@given(rows())
def test_unlabelled_and_unpaired_items_decide_nothing(record: QuantsRecord) -> None:
    """Without them, the paired figures and p-values of a candidate are the same."""
    reference, candidate = record.models[:2]
    kept = [
        place
        for place, task in enumerate(record.tasks)
        if task.is_labelled
        and reference.outcomes[place].score is not None
        and candidate.outcomes[place].score is not None
    ]
    assume(kept)
    only = replace(
        record,
        tasks=tuple(record.tasks[place] for place in kept),
        models=tuple(
            replace(model, outcomes=tuple(model.outcomes[place] for place in kept)) for model in record.models[:2]
        ),
    )
    one = compare_quality(record, POLICY).candidates[0].paired
    other = compare_quality(only, POLICY).candidates[0].paired

    assert one is not None
    assert other is not None
    assert (one.gained, one.lost) == (other.gained, other.lost)
    assert one.difference == pytest.approx(other.difference)


@QUICK
@given(st.integers(0, 40), st.integers(0, 40), st.integers(0, 40))
def test_losing_more_never_turns_a_fail_into_a_pass(lost: int, gained: int, more: int) -> None:
    """With everything else equal, a candidate that loses more items does not stand better."""
    order = {"fails": 0, "not enough items": 1, "passes": 2}

    def decision(losses: int) -> int:
        scores = [(1.0, 0.0)] * losses + [(0.0, 1.0)] * gained + [(1.0, 1.0)] * (400 - losses - gained)
        tasks = tuple(
            Task(item_id=f"{n}", item_hash=f"{n}", cluster=f"item {n}", kind=ScoreKind.EXACT, is_labelled=True)
            for n in range(400)
        )
        models = tuple(
            AskedModel(subject=subject(f"m{side}"), outcomes=tuple(Outcome(score=pair[side]) for pair in scores))
            for side in (0, 1)
        )
        record = QuantsRecord(items_source="i", items_hash=None, tasks=tasks, models=models)
        return order[compare_quality(record, POLICY).candidates[0].decision]

    assert decision(lost + more) <= decision(lost)
