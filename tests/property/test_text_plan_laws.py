"""Packing questions must change no number: checked by a language model that is a table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from suffice.measure.engine.text_plan import Limits, chunks, packs, rows_of
from suffice.measure.engine.text_seam import ChoiceQuestion

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suffice.measure.engine.text_plan import Part

TOKENS = st.integers(0, 9)
QUESTIONS = st.lists(
    st.builds(
        ChoiceQuestion,
        prefix=st.lists(TOKENS, min_size=1, max_size=12).map(tuple),
        choices=st.lists(st.lists(TOKENS, min_size=1, max_size=5).map(tuple), min_size=1, max_size=6).map(tuple),
    ),
    max_size=6,
)
LIMITS = st.builds(
    Limits,
    context=st.just(20),
    batch=st.integers(1, 30),
    cells=st.integers(20, 40),
    sequences=st.integers(1, 9),
    shares=st.booleans(),
)


def logprob(text: Sequence[int], token: int) -> float:
    """A language model: any number that follows from all tokens before."""
    return -float(hash((*text, token)) % 1009) / 100


def evaluate(pack: list[Part], batch: int, outputs: int) -> list[list[list[float]]]:
    """What an engine does with the rows of a pack: texts by sequence, and answers to what is asked."""
    texts: dict[int, list[int]] = {}
    found: list[list[list[float]]] = [[[] for _ in part.choices] for part in pack]
    for chunk in chunks(rows_of(pack), batch, outputs):
        assert len(chunk) <= batch
        assert sum(bool(row.asked) for row in chunk) <= outputs
        for row in chunk:
            for sequence in row.sequences:
                text = texts.setdefault(sequence, [])
                assert row.position == len(text)
                text.append(row.token)
            for part, choice, token in row.asked:
                found[part][choice].append(
                    logprob(texts[row.sequences[choice if len(row.sequences) > 1 else 0]], token)
                )
    return found


def alone(question: ChoiceQuestion) -> list[list[float]]:
    """The same, one token of one choice at a time."""
    return [
        [logprob((*question.prefix, *choice[:place]), token) for place, token in enumerate(choice)]
        for choice in question.choices
    ]


def joined(plan: Iterable[list[Part]], batch: int, outputs: int) -> dict[int, list[list[float]]]:
    """The choices' log-probabilities by question."""
    found: dict[int, list[list[float]]] = {}
    for pack in plan:
        for part, values in zip(pack, evaluate(pack, batch, outputs), strict=True):
            choices = found.setdefault(part.question, [])
            assert len(choices) == part.first_choice
            choices += values
    return found


@settings(max_examples=200, deadline=None, derandomize=True)
@given(questions=QUESTIONS, limits=LIMITS, outputs=st.integers(1, 5))
def test_packing_changes_no_number_and_keeps_the_limits(
    questions: list[ChoiceQuestion], limits: Limits, outputs: int
) -> None:
    """Every choice of every question gets each of its tokens' log-probabilities once, in order, whatever fits together."""
    plan = list(packs(questions, limits))
    assert joined(plan, limits.batch, outputs) == {place: alone(question) for place, question in enumerate(questions)}
    for pack in plan:
        cells = sum(part.cells for part in pack)
        assert cells <= limits.cells
        assert sum(len(part.choices) for part in pack) <= limits.sequences
        assert limits.shares or all(len(part.choices) == 1 for part in pack)
        assert cells <= limits.batch or len(pack) == 1
