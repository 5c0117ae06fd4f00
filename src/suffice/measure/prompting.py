"""How items become tokens: what a model is really asked. docs/items.md says the same for users ("How prompts become tokens").

Tokens are made with one model's tokenizer and may be given to every model with the same vocabulary.
"""

from __future__ import annotations

import itertools
import unicodedata
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt
from suffice.model.items import Message, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suffice.loaders.chat_template import ChatTemplate
    from suffice.measure.engine.text_seam import TextSession
    from suffice.model.items import Item

NO_TEMPLATE_NOTE: Final = "the model has no chat template: the messages of an item stand one after the other, with a blank line between, and the model goes on"
_BETWEEN_MESSAGES: Final = "\n\n"
_OPENING: Final = "([{<"
_CLOSING: Final = ".,;:!?)]}>%"
_WIDE: Final = frozenset("WF")  # east_asian_width of letters that are written without spaces between


@dataclass(frozen=True, slots=True, kw_only=True)
class _Asked:
    """A prompt's text, and what stands between it and an answer where a template says so."""

    text: str
    from_template: bool
    lead: str | None = None


class Prompting:
    """Makes the tokens of items for one session.

    ``prompt`` of an item is a text that the model goes on with, as it stands; ``messages`` are a conversation and go through the
    ``template``. With ``chat_prompts``, a prompt is the message of a user as well. Without a template nothing goes through one.
    """

    def __init__(self, session: TextSession, template: ChatTemplate | None, *, chat_prompts: bool = False) -> None:
        self._session = session
        self._template = template
        self._chat_prompts = chat_prompts

    def notes(self, items: Iterable[Item]) -> tuple[str, ...]:
        """What has to be said about how these items are asked."""
        wanted = any(item.messages or self._chat_prompts for item in items)
        return (NO_TEMPLATE_NOTE,) if wanted and self._template is None else ()

    def prompt_text(self, item: Item) -> str:
        """The text that the model gets, with its template around it.

        Raises:
            ModelFileError: the template is no valid one.
            UsageError: it refuses the item's messages.
        """
        return self._asked(item, wants_lead=False).text

    def prompt(self, item: Item, max_tokens: int) -> Prompt:
        """The item's tokens, for an answer of ``max_tokens`` where the item does not say how many.

        Raises:
            ModelFileError, UsageError: see :meth:`prompt_text`.
        """
        asked = self._asked(item, wants_lead=False)
        tokens = self._tokens(asked.text, from_template=asked.from_template)
        return Prompt(tokens=tokens, max_tokens=item.max_tokens or max_tokens, stops=item.stop)

    def question(self, item: Item) -> ChoiceQuestion:
        """The item's tokens up to where a choice begins, and those of each choice.

        The prompt and each choice are made tokens together, as a model would see them. What all share with the prompt alone is the
        prefix; a last token of the prompt that becomes another one with the choice behind it counts to the choices.

        Raises:
            ModelFileError, UsageError: see :meth:`prompt_text`.
        """
        asked = self._asked(item, wants_lead=True)
        alone = self._tokens(asked.text, from_template=asked.from_template)
        whole = [
            self._tokens(
                asked.text + (lead_of(asked.text, choice) if asked.lead is None else asked.lead) + choice,
                from_template=asked.from_template,
            )
            for choice in item.choices
        ]
        shared = min(common_length([alone, *whole]), *(len(tokens) - 1 for tokens in whole))
        return ChoiceQuestion(prefix=alone[:shared], choices=tuple(tokens[shared:] for tokens in whole))

    def _asked(self, item: Item, *, wants_lead: bool) -> _Asked:
        messages = item.messages
        if item.prompt is not None and self._chat_prompts and self._template is not None:
            messages = (Message(role=Role.USER, content=item.prompt),)
        if not messages:
            return _Asked(text=item.prompt or "", from_template=False)
        if self._template is None:
            text = _BETWEEN_MESSAGES.join(message.content for message in messages)
            return _Asked(text=text, from_template=False)
        lead = self._template.before_answer(messages) if wants_lead else None
        return _Asked(text=self._template.render(messages), from_template=True, lead=lead)

    def _tokens(self, text: str, *, from_template: bool) -> tuple[int, ...]:
        vocabulary = self._session.facts.vocabulary
        if from_template and vocabulary.adds_bos and vocabulary.bos_text:
            text = text.removeprefix(vocabulary.bos_text)  # it would stand there twice
        return self._session.tokenize(text, add_special=True, parse_special=from_template)


def lead_of(prompt: str, choice: str) -> str:
    """What stands between a prompt without a template and a choice: a space, or nothing where one would be wrong.

    Nothing after or before white space, between letters of scripts that are written without spaces (Chinese, Japanese), after an opening
    bracket, and before a mark that closes something.
    """
    if not prompt or not choice:
        return ""
    before, after = prompt[-1], choice[0]
    if before.isspace() or after.isspace() or before in _OPENING or after in _CLOSING:
        return ""
    return "" if {unicodedata.east_asian_width(letter) for letter in (before, after)} & _WIDE else " "


def common_length(texts: Sequence[Sequence[int]]) -> int:
    """How many tokens all of them begin with."""
    return sum(1 for _ in itertools.takewhile(lambda tokens: len(set(tokens)) == 1, zip(*texts, strict=False)))
