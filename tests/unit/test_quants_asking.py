"""Asking a model all items: what is kept, what is asked again, what it scores, and what is told meanwhile."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from suffice.errors import UsageError
from suffice.loaders.items import item_hash
from suffice.model.items import Item, ScoreKind, ScoreRule
from suffice.quants.asking import ask_all, outcomes_of, tasks_of
from suffice.quants.fake_respondent import FakeRespondent
from suffice.quants.respondent import listed

if TYPE_CHECKING:
    from pathlib import Path

EXACT = ScoreRule(kind=ScoreKind.EXACT)


def text_item(number: int, **fields: object) -> Item:
    """A question whose right answer is "yes"."""
    given = {"id": f"q{number}", "line": number, "rule": EXACT, "prompt": f"Is {number} a number?", "answers": ("yes",)}
    return Item(**{**given, **fields})  # type: ignore[arg-type]


def choice_item(number: int, **fields: object) -> Item:
    """A question with two choices, of which the first is right."""
    rule = ScoreRule(kind=ScoreKind.MULTIPLE_CHOICE)
    given = {"answers": (), "choices": ("red", "blue"), "correct": (0,), "rule": rule, **fields}
    return text_item(number, **given)


def test_each_answer_is_scored_in_the_order_of_the_items(tmp_path: Path) -> None:
    """Right, wrong, cut off, failed and weighed answers become outcomes, in the items' order whatever order they came in."""
    items = (text_item(1), text_item(2), choice_item(3), text_item(4), choice_item(5, correct=()))
    model = FakeRespondent(
        texts={"q1": " yes\n", "q2": "no"},
        cut=frozenset({"q2"}),
        choices={"q3": [-3.0, -1.0], "q5": [-3.0, -1.0]},
        errors={"q4": "too long"},
        notes=("asked gently",),
    )

    asked, answers = ask_all(model, items, tmp_path)

    assert [outcome.score for outcome in asked.outcomes] == [1.0, 0.0, 0.0, None, None]
    assert [outcome.text for outcome in asked.outcomes] == [" yes\n", "no", "blue", None, "blue"]
    assert [outcome.is_cut for outcome in asked.outcomes] == [False, True, False, False, False]
    assert asked.outcomes[3].reason == "there is no answer: too long"
    assert asked.subject == model.subject
    assert asked.notes == ("asked gently",)
    assert set(answers) == {item_hash(item) for item in items}


def test_a_run_goes_on_with_what_is_missing(tmp_path: Path) -> None:
    """Answers that are there are not asked again; errors are, and what a kill left unasked."""
    items = tuple(text_item(number) for number in range(6))
    with pytest.raises(ZeroDivisionError):
        ask_all(FakeRespondent(errors={"q1": "busy"}, raises=(3, ZeroDivisionError())), items, tmp_path)
    again = FakeRespondent(texts={item.id: "yes" for item in items})

    asked, _ = ask_all(again, items, tmp_path, resume=True)

    assert again.asked == ["q1", "q3", "q4", "q5"]
    assert [outcome.score for outcome in asked.outcomes] == [0.0, 1.0, 0.0, 1.0, 1.0, 1.0]


def test_an_interruption_closes_the_model_and_keeps_its_answers(tmp_path: Path) -> None:
    """After Ctrl-C nothing stays open, and each answer that had come is in the file."""
    items = tuple(text_item(number) for number in range(4))
    model = FakeRespondent(raises=(2, KeyboardInterrupt()))

    with pytest.raises(KeyboardInterrupt):
        ask_all(model, items, tmp_path)

    (kept,) = (tmp_path / "answers").iterdir()
    rows = [json.loads(line) for line in kept.read_text(encoding="utf-8").splitlines()]
    assert [row.get("item_id") for row in rows] == [None, "q0", "q1"]
    assert model.closed == 1


def test_answers_of_an_earlier_run_are_not_taken_unasked(tmp_path: Path) -> None:
    """Without resume, a folder that has answers of this model already is refused with the way out."""
    items = (text_item(1),)
    ask_all(FakeRespondent(), items, tmp_path)

    with pytest.raises(UsageError, match="holds 1 answers of fake already; go on with them by --resume"):
        ask_all(FakeRespondent(), items, tmp_path)


def test_other_models_and_settings_have_files_of_their_own(tmp_path: Path) -> None:
    """Three askings that differ in model or settings never meet in one file."""
    items = (text_item(1),)
    for model in (FakeRespondent(), FakeRespondent(identity="other"), FakeRespondent(settings={"seed": 1})):
        ask_all(model, items, tmp_path)

    assert len(list((tmp_path / "answers").iterdir())) == 3


def test_the_same_question_is_asked_once(tmp_path: Path) -> None:
    """Items that ask the same share the answer, and each is scored by its own label."""
    items = (text_item(1), text_item(2, prompt="Is 1 a number?", answers=("no",)))
    model = FakeRespondent(texts={"q1": "yes"})

    asked, _ = ask_all(model, items, tmp_path)

    assert model.asked == ["q1"]
    assert [outcome.score for outcome in asked.outcomes] == [1.0, 0.0]


def test_progress_tells_how_far_it_is(tmp_path: Path) -> None:
    """At a second an answer, after 8 of 12 with one error, four seconds are left; what was there before counts as done."""
    items = tuple(text_item(number) for number in range(12))
    ask_all(FakeRespondent(), items[:2], tmp_path)
    now = iter(range(1000))
    told: list[str] = []

    ask_all(
        FakeRespondent(name="q4_k_m", errors={"q4": "x"}),
        items,
        tmp_path,
        progress=told.append,
        resume=True,
        clock=lambda: float(next(now) // 2),
    )

    assert told[0] == "q4_k_m: 2 of 12 items"
    assert any("8 of 12 items, 1 error, about 4 s left" in line for line in told)
    assert told[-1] == "q4_k_m: 12 of 12 items, 1 error"


def test_functions_score_what_they_are_given(tmp_path: Path) -> None:
    """A score function of the user's gets the answer's text."""
    rule = ScoreRule(kind=ScoreKind.FUNCTION, function="mine:short")
    items = (text_item(1, rule=rule, answers=()),)
    model = FakeRespondent(texts={"q1": "a b c"})

    asked, _ = ask_all(model, items, tmp_path, functions={"mine:short": lambda text, _: len(text.split()) < 3})

    assert asked.outcomes[0].score == 0.0


def test_tasks_are_the_items_without_their_texts() -> None:
    """A task has the item's hash, group, kind, and whether it has a right answer."""
    first, second = tasks_of((text_item(1, group="g"), choice_item(2, correct=())))

    assert (first.item_id, first.cluster, first.kind, first.is_labelled) == ("q1", "group g", ScoreKind.EXACT, True)
    assert first.item_hash == item_hash(text_item(7, prompt="Is 1 a number?"))
    assert (second.cluster, second.is_labelled) == ("item q2", False)


def test_a_choice_that_was_read_from_a_text_is_shown_as_the_choice() -> None:
    """Where the text names a choice that one is the answer; where it does not, the text itself stands there."""
    items = (choice_item(1), choice_item(2))
    texts = {"q1": "The answer is (B).", "q2": "Hard to say."}
    answers = {answer.item_hash: answer for answer in FakeRespondent(texts=texts).ask(items)}

    first, second = outcomes_of(items, answers)

    assert (first.text, first.score) == ("blue", 0.0)
    assert (second.text, second.score) == ("Hard to say.", 0.0)


def test_choices_are_listed_behind_the_question() -> None:
    """Each choice stands on a line with its letter, behind a prompt as behind the last of several messages."""
    (message,) = listed(choice_item(1, prompt="Colour? ")).messages

    assert message.content.startswith("Colour?\n\nA) red\nB) blue\nAnswer with the letter")
    assert listed(choice_item(1)).prompt is None
