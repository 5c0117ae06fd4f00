"""Which tokens are evaluated together; tests/property has the law that packing changes no number."""

from __future__ import annotations

import pytest

from suffice.errors import EngineError
from suffice.measure.engine.text_plan import Limits, chunks, packs, parts_of, rows_of
from suffice.measure.engine.text_seam import ChoiceQuestion


def test_a_prompt_is_evaluated_once_for_all_choices() -> None:
    """Four choices of one token each cost the prompt and nothing else; two questions share a batch."""
    question = ChoiceQuestion(prefix=tuple(range(10)), choices=((1,), (2,), (3,), (4,)))
    limits = Limits(context=100, batch=24, cells=100, sequences=64)
    plan = list(packs([question] * 3, limits))
    assert [[part.cells for part in pack] for pack in plan] == [[10, 10], [10]]
    assert len(list(rows_of(plan[0]))) == 20


@pytest.mark.parametrize(
    ("prefix", "choices", "words"),
    [
        ((), ((1,),), "without tokens"),
        ((1,), (), "without tokens"),
        ((1,), ((1,), ()), "without tokens"),
        ((1,) * 18, ((1,), (1, 2, 3)), "21 tokens with its longest choice, more than the 20"),
    ],
)
def test_what_cannot_be_asked_is_refused_after_what_can(
    prefix: tuple[int, ...], choices: tuple[tuple[int, ...], ...], words: str
) -> None:
    """The questions before are planned first, and the error names the number of the bad one."""
    good = ChoiceQuestion(prefix=(1, 2), choices=((3,),))
    limits = Limits(context=20, batch=100, cells=100, sequences=9)
    plan = packs([good, good, ChoiceQuestion(prefix=prefix, choices=choices), good], limits)
    assert [part.question for part in next(plan)] == [0, 1]
    with pytest.raises(EngineError, match=f"question 2 .*{words}"):
        next(plan)


def test_a_question_with_many_long_choices_is_parted() -> None:
    """Choices that do not fit beside each other get parts of their own, each with the whole prompt."""
    question = ChoiceQuestion(prefix=(1,) * 10, choices=tuple((place,) * 6 for place in range(5)))
    limits = Limits(context=20, batch=8, cells=20, sequences=9)
    parts = list(parts_of(0, question, limits))
    assert [(part.first_choice, len(part.choices), part.cells) for part in parts] == [
        (0, 2, 20),
        (2, 2, 20),
        (4, 1, 15),
    ]
    assert [len(chunk) for chunk in chunks(rows_of(parts[:1]), limits.batch, 99)] == [8, 8, 4]
