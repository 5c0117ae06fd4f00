"""What a model thinks before it answers, told from the answer by the marks that models write around it.

Servers do this for the models they know; a model file that is asked here, and a server that does not, give both in one text. They are
split by the same rules, so that the same model scores alike wherever it runs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.measure.engine.text_seam import TextSession

# Qwen, DeepSeek and most others; Magistral; Seed-OSS; Command A; as llama.cpp's common/chat.cpp knows them.
_MARKS: Final = (
    ("<think>", "</think>"),
    ("[THINK]", "[/THINK]"),
    ("<seed:think>", "</seed:think>"),
    ("<|START_THINKING|>", "<|END_THINKING|>"),
)
# gpt-oss writes into channels; the one that is named final is the answer.
_CHANNEL: Final = "<|channel|>"
_FINAL: Final = "<|channel|>final<|message|>"
_ENDS: Final = ("<|return|>", "<|end|>")
_MOST_BLOCKS: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """An answer, and whether thinking came before it. ``answer`` is empty where the text ended within a thought."""

    answer: str
    thought: bool = False


def opens_thought(prompt: str) -> bool:
    """Whether a prompt, as the model reads it, ends with the mark of a thought: some templates write it for the model."""
    return prompt.rstrip().endswith(tuple(begin for begin, _ in _MARKS))


def split_thought(text: str, *, opened: bool = False) -> Said:
    """A text without the thoughts at its beginning.

    Args:
        text: what the model wrote.
        opened: the prompt ended within a thought already, see :func:`opens_thought`.

    A mark that ends a thought and none before it that begins one: the template began it. White space behind a thought belongs to it.
    Marks elsewhere in a text are part of the answer.
    """
    thought = False
    for _ in range(_MOST_BLOCKS):
        found = _first_block(text, opened=opened)
        if found is None:
            break
        text, thought, opened = found.answer, thought or found.thought, False
    return Said(answer=text, thought=thought)


def _first_block(text: str, *, opened: bool) -> Said | None:
    """The text behind one thought at its beginning; None where there is none."""
    stripped = text.lstrip()
    if stripped.startswith(_CHANNEL):
        return _of_channels(stripped)
    for begin, end in _MARKS:
        inner = stripped.removeprefix(begin)
        before, mark, behind = inner.partition(end)
        began = opened or inner != stripped
        if mark and (began or begin not in before):
            return Said(answer=behind.lstrip(), thought=bool(before.strip()))
        if inner != stripped:
            return Said(answer="", thought=bool(before.strip()))
    return Said(answer="", thought=bool(text.strip())) if opened else None


def _of_channels(text: str) -> Said:
    before, mark, answer = text.rpartition(_FINAL)
    if not mark:
        return Said(answer="", thought=True)
    for end in _ENDS:
        answer = answer.removesuffix(end)
    return Said(answer=answer, thought=bool(before))


class HiddenMarks:
    """Marks that are control tokens of a vocabulary (Magistral's, say), which have no text of their own: answers come without them."""

    def __init__(self, session: TextSession) -> None:
        """Look at the vocabulary.

        Raises:
            EngineError: the session failed.
        """
        self._session = session
        self._names: dict[int, str] = {}
        for mark in (mark for marks in _MARKS for mark in marks):
            tokens = session.tokenize(mark, add_special=False, parse_special=True)
            if len(tokens) == 1 and not session.text_of(tokens):
                self._names[tokens[0]] = mark

    def __bool__(self) -> bool:
        return bool(self._names)

    def are_in(self, tokens: Sequence[int]) -> bool:
        """Whether there are some among an answer's tokens."""
        return bool(self._names) and not self._names.keys().isdisjoint(tokens)

    def text_of(self, tokens: Sequence[int], stops: Sequence[str]) -> str:
        """The text of an answer's tokens with the marks in it, up to the first of the texts that end it.

        Raises:
            EngineError: the session failed.
        """
        pieces, begin = [], 0
        for place, token in enumerate(tokens):
            if token in self._names:
                pieces += [self._session.text_of(tokens[begin:place]), self._names[token]]
                begin = place + 1
        text = "".join([*pieces, self._session.text_of(tokens[begin:])])
        return re.split("|".join(map(re.escape, stops)), text, maxsplit=1)[0] if stops else text
