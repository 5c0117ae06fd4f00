"""Answers in slots, with a model that says what it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from suffice.errors import EngineError
from suffice.measure.engine.text_answers import AnswerSlots, PromptFeed
from suffice.measure.engine.text_seam import Prompt, TextAnswer
from suffice.model.answers import FinishReason

if TYPE_CHECKING:
    from collections.abc import Sequence

END = 0


class Script:
    """A stepper: the answer to a prompt that begins with token t is ``says[t]``, then the end."""

    def __init__(self, slots: int, says: dict[int, str], n_ctx: int = 100) -> None:
        self.slots, self.n_ctx, self.says = slots, n_ctx, says
        self.texts: list[tuple[int, list[int]] | None] = [None] * slots
        self.steps: list[int] = []  # slots that were busy, by step

    def begin(self, slot: int, tokens: Sequence[int]) -> int:
        """Start over in a slot."""
        self.texts[slot] = (tokens[0], [])
        return self.top(slot)

    def step(self, tokens: Sequence[int | None]) -> list[int]:
        """Go on in all busy slots."""
        assert len(tokens) == self.slots
        self.steps.append(sum(token is not None for token in tokens))
        for slot, token in enumerate(tokens):
            text = self.texts[slot]
            if token is not None and text is not None:
                text[1].append(token)
        return [self.top(slot) if token is not None else -1 for slot, token in enumerate(tokens)]

    def top(self, slot: int) -> int:
        """The next byte, plus one, or the end."""
        text = self.texts[slot]
        assert text is not None
        wanted = self.says[text[0]].encode()
        assert bytes(token - 1 for token in text[1]) == wanted[: len(text[1])]
        return wanted[len(text[1])] + 1 if len(text[1]) < len(wanted) else END

    def piece(self, token: int) -> bytes:
        """A byte."""
        return bytes([token - 1])

    def ends(self, token: int) -> bool:
        """The one that does."""
        return token == END


def run(script: Script, prompts: list[Prompt]) -> list[TextAnswer]:
    """All answers in the order in which they are finished."""
    slots = AnswerSlots(script)
    for index, prompt in enumerate(prompts):
        slots.add(index, prompt)
    found = []
    while not slots.is_idle:
        found += slots.advance()
    return found


@pytest.mark.parametrize("slots", [1, 2, 5, 9])
def test_every_prompt_gets_its_own_answer_in_any_number_of_slots(slots: int) -> None:
    """Short and long answers, an empty one, and more prompts than slots: each index once, with its own text."""
    says = {1: "yes", 2: "", 3: "a longer answer", 4: "é", 5: "no", 6: "x" * 40}
    prompts = [Prompt(tokens=(1 + place % 6, 9, 9), max_tokens=60) for place in range(14)]
    found = run(Script(slots, says), prompts)
    assert sorted(answer.index for answer in found) == list(range(14))
    assert all(answer.text == says[1 + answer.index % 6] for answer in found)
    assert all(answer.finish is FinishReason.STOP for answer in found)


def test_a_finished_slot_takes_the_next_prompt_at_once() -> None:
    """With two slots, three short answers are written beside one long one, and no step is made for nobody."""
    script = Script(2, {1: "abcdefghi", 2: "xyz"})
    found = run(script, [Prompt(tokens=(first,), max_tokens=20) for first in (1, 2, 2, 2)])
    assert [answer.index for answer in found] == [1, 2, 0, 3]
    assert script.steps == [2] * 9


def test_the_longest_answer_and_the_context_cut() -> None:
    """``max_tokens`` counts the answer alone, and prompt and answer together fill the context to its last token."""
    script = Script(2, {1: "abcdefghijkl"}, n_ctx=10)
    four, rest = run(script, [Prompt(tokens=(1,), max_tokens=4), Prompt(tokens=(1, 9, 9, 9), max_tokens=99)])
    assert (four.text, four.finish, len(four.tokens)) == ("abcd", FinishReason.LENGTH, 4)
    assert (rest.text, rest.finish, len(rest.tokens)) == ("abcdef", FinishReason.LENGTH, 6)


@pytest.mark.parametrize(
    ("stops", "text", "finish"),
    [
        (("\n",), "one", FinishReason.STOP),
        (("two", "\n"), "one", FinishReason.STOP),
        (("ne\nt",), "o", FinishReason.STOP),
        (("é",), "one\ntwo ", FinishReason.STOP),
        (("three", ""), "one\ntwo é.", FinishReason.STOP),
        (("o",), "", FinishReason.STOP),
    ],
)
def test_stop_texts_end_an_answer_and_are_cut_off(stops: tuple[str, ...], text: str, finish: FinishReason) -> None:
    """Also over several tokens and inside a character; of several the first counts; an empty one means nothing."""
    (answer,) = run(Script(1, {1: "one\ntwo é."}), [Prompt(tokens=(1,), max_tokens=40, stops=stops)])
    assert (answer.text, answer.finish) == (text, finish)


def test_half_a_character_at_the_end_is_replaced() -> None:
    """An answer that is cut inside a character is still a text."""
    (answer,) = run(Script(1, {1: "aé"}), [Prompt(tokens=(1,), max_tokens=2)])
    assert answer.text == "a\ufffd"


@pytest.mark.parametrize(
    ("prompt", "words"),
    [
        (Prompt(tokens=(), max_tokens=4), "no tokens"),
        (Prompt(tokens=(1,), max_tokens=0), "may have no answer"),
        (Prompt(tokens=(1,) * 10, max_tokens=1), "10 tokens and leaves no room .* of 10"),
    ],
)
def test_a_prompt_that_cannot_be_answered_is_named(prompt: Prompt, words: str) -> None:
    """By its number; those before it are taken, those behind it are not looked at."""
    good = Prompt(tokens=(1,), max_tokens=1)
    feed = PromptFeed([good, good, good, prompt, good], 10)
    assert [index for index, _ in feed.take(2)] == [0, 1]
    assert feed.refused is None
    assert [index for index, _ in feed.take(9)] == [2]
    assert feed.take(9) == []
    with pytest.raises(EngineError, match=f"prompt 3 .*{words}"):
        raise feed.refused or AssertionError
    with pytest.raises(EngineError, match="prompt 3"):
        AnswerSlots(Script(1, {}, n_ctx=10)).add(3, prompt)
