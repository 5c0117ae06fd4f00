"""What a model thinks before it answers, told from its answer, in files as in servers."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from helpers.asked_servers import asked as asked_server
from helpers.asked_servers import item, said
from suffice.load.mock_server import served_in_thread
from suffice.measure.engine.fake_text import FAKE_TEMPLATE, FakeModel, FakeTextEngine, FakeTextSession
from suffice.model.answers import FinishReason
from suffice.model.quants import Subject, SubjectKind
from suffice.quants import local, thinking
from suffice.quants.asking import outcomes_of
from suffice.quants.local import LocalRespondent
from suffice.quants.respondent import CUT_THOUGHT_NOTE, THOUGHT_NOTE, AskOptions
from suffice.quants.subjects import LocalModel
from suffice.quants.thinking import Said, opens_thought, split_thought

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from suffice.measure.engine.text_seam import Prompt, TextAnswer
    from suffice.model.answers import Answer
    from suffice.model.items import Item


@pytest.mark.parametrize(
    ("text", "answer", "thought"),
    [
        ("Rome", "Rome", False),
        ("\n\nRome\n", "\n\nRome\n", False),
        ("<think>Paris? No.</think>\n\nRome\n", "Rome\n", True),
        ("\n<think>\nParis? No.\n</think>Rome", "Rome", True),
        ("<think>\n\n</think>\n\nRome", "Rome", False),
        ("Paris? No.\n</think>\n\nRome", "Rome", True),
        ("<think>Paris? Perhaps", "", True),
        ("<think>a</think><think>b</think>Rome", "Rome", True),
        ("[THINK]Paris?[/THINK]Rome", "Rome", True),
        ("<seed:think>Paris?</seed:think>Rome", "Rome", True),
        ("<|START_THINKING|>Paris?<|END_THINKING|>Rome", "Rome", True),
        (
            "<|channel|>analysis<|message|>Paris?<|start|>assistant<|channel|>final<|message|>Rome<|return|>",
            "Rome",
            True,
        ),
        ("<|channel|>final<|message|>Rome", "Rome", False),
        ("<|channel|>analysis<|message|>Paris? Per", "", True),
        ("The tag <think> begins and </think> ends.", "The tag <think> begins and </think> ends.", False),
        ("I <think> so", "I <think> so", False),
        ("", "", False),
    ],
)
def test_thoughts_are_told_from_the_answer(text: str, answer: str, thought: bool) -> None:  # noqa: FBT001  # a parameter
    """By the marks of several families, at the beginning only; an empty thought is none, one without an end leaves no answer."""
    assert split_thought(text) == Said(answer=answer, thought=thought)


def test_a_thought_that_the_prompt_began() -> None:
    """Some templates write the first mark: then everything up to the last mark is the thought, and all of it where none comes."""
    assert opens_thought("<|im_start|>assistant\n<think>\n")
    assert not opens_thought("<think>\n\n</think>\n\n")
    assert split_thought("Paris? Per", opened=True) == Said(answer="", thought=True)
    assert split_thought("Paris?</think> Rome", opened=True) == Said(answer="Rome", thought=True)
    assert split_thought("<think>Paris?</think> Rome", opened=True) == Said(answer="Rome", thought=True)


OPTIONS = AskOptions(slots=2, max_tokens=8, threads=1)
THOUGHT = "<think>Or is it Paris?</think>\n\nRome"
CAPITAL = item("capital", prompt="The capital of Italy:", answers=("Rome",))


def respondent_of(
    said: str, items: Sequence[Item], options: AskOptions = OPTIONS, template: str = FAKE_TEMPLATE
) -> LocalRespondent:
    """A model file that answers this to the question of Italy's capital."""
    engine = FakeTextEngine(default=FakeModel(answers={"capital of Italy": said}))
    subject = Subject(name="ref", kind=SubjectKind.FILE, place="ref.gguf", identity="ref")
    model = LocalModel(path=Path("ref.gguf"), subject=subject, template=template)
    return LocalRespondent(engine, model, items, options)


def answers_of(respondent: LocalRespondent, items: Sequence[Item]) -> dict[str, Answer]:
    """The answers by the item's id."""
    return {answer.item_id: answer for answer in respondent.ask(items)}


def test_a_file_and_a_server_that_think_score_alike() -> None:
    """Neither thought is scored, both are counted in the same words, and the settings of both say how they are kept."""
    options = replace(OPTIONS, max_tokens=100)
    with respondent_of(THOUGHT, (CAPITAL,), options) as local:
        found = answers_of(local, (CAPITAL,))["capital"]
    with served_in_thread(lambda request: said(request, THOUGHT)) as server:
        answers, respondent = asked_server(server, (CAPITAL,), options)

    assert found.text == answers["capital"].text == "Rome"
    assert local.notes == respondent.notes == (THOUGHT_NOTE.format(1),)
    assert local.settings["reasoning"] == respondent.settings["reasoning"] == "apart"
    for answer in (found, answers["capital"]):
        (outcome,) = outcomes_of((CAPITAL,), {answer.item_hash: answer})
        assert outcome.score == 1


def test_an_answer_that_never_came_out_of_a_thought() -> None:
    """It is empty and cut, and a note says what helps."""
    with respondent_of(THOUGHT, (CAPITAL,)) as local:
        found = answers_of(local, (CAPITAL,))["capital"]

    assert (found.text, found.finish, found.tokens) == ("", FinishReason.LENGTH, 8)
    assert local.notes == (THOUGHT_NOTE.format(1), CUT_THOUGHT_NOTE.format(1))


def test_a_template_that_begins_the_thought() -> None:
    """The prompt's end is looked at, so that an answer that was cut within the thought is not taken for one."""
    template = "{{ messages[0].content }}<think>\n"
    options = replace(OPTIONS, chat_prompts=True)
    with respondent_of("Paris? Perhaps Rome.", (CAPITAL,), options, template) as local:
        found = answers_of(local, (CAPITAL,))["capital"]

    assert (found.text, found.finish) == ("", FinishReason.LENGTH)
    assert local.notes[-1] == CUT_THOUGHT_NOTE.format(1)


def test_the_token_that_ends_an_answer_is_counted() -> None:
    """As servers count it; one that was cut has none."""
    cut = replace(CAPITAL, id="cut", max_tokens=2)
    with respondent_of("Rome", (CAPITAL, cut)) as local:
        found = answers_of(local, (CAPITAL, cut))

    assert (found["capital"].text, found["capital"].tokens) == ("Rome", len("Rome") + 1)
    assert (found["cut"].finish, found["cut"].tokens) == (FinishReason.LENGTH, 2)


def test_marks_without_a_text_are_found_by_their_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where they are control tokens, an answer's text does not have them; a stop still cuts it, and companies miss nobody."""
    monkeypatch.setattr(thinking, "_MARKS", (("<|system|>", "<|user|>"),))
    monkeypatch.setattr(local, "_TOGETHER", 2)
    begin, end = 258, 259  # the fake's tokens of these names
    answers = FakeTextSession.answers

    def thinking_first(self: FakeTextSession, prompts: Iterable[Prompt]) -> Iterator[TextAnswer]:
        for found in answers(self, prompts):
            if found.index == 0:
                yield replace(found, tokens=(begin, *b"Paris? A. No.", end, *b"Rome. It is."), text="Paris? A")
            else:
                yield found

    monkeypatch.setattr(FakeTextSession, "answers", thinking_first)
    items = (
        replace(CAPITAL, stop=(". I",)),
        *(replace(CAPITAL, id=f"q{n}", prompt=f"The capital of Italy {n}") for n in range(4)),
    )
    with respondent_of("Rome", items) as asked:
        found = answers_of(asked, items)

    assert {name: answer.text for name, answer in found.items()} == {
        "capital": "Rome",
        "q0": "Rome",
        "q1": "Rome. It is.",
        "q2": "Rome",
        "q3": "Rome. It is.",
    }
    assert asked.notes == (THOUGHT_NOTE.format(3),)
