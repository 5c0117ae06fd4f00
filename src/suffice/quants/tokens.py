"""The tokens of all items, made once, so that every model with the same vocabulary is asked the very same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, ModelFileError, UsageError
from suffice.loaders.chat_template import ChatTemplate
from suffice.loaders.items import item_hash
from suffice.measure.engine.text_plan import check_question
from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt
from suffice.measure.prompting import Prompting
from suffice.quants.respondent import listed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from suffice.measure.engine.text_seam import TextSession
    from suffice.model.items import Item
    from suffice.quants.respondent import AskOptions

TEMPLATE_DAY: Final = datetime(2025, 1, 1, 12, tzinfo=UTC)
"""The day that templates believe it is, in every run: those that write it into the prompt would ask something else tomorrow."""
_LONG_CHARACTERS: Final = 8  # a token of the context; texts have three to five, so a longer one is looked at first
_UNBOUNDED: Final = 2**31 - 1  # tokens; the engine counts them in 32 bits
_BETWEEN_TELLINGS: Final = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Unaskable:
    """An item that this model cannot be asked, and why."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenBook:
    """What a model is asked, by the hash of each item; an answer's longest is among it.

    Attributes:
        made_by: the name of the model whose tokenizer and template made it.
        vocabulary_sha256: of that model; others with the same one can be asked the same tokens.
        template_sha256: of its chat template; None where it has none.
        adds_bos: whether its texts begin with a token of their own.
        chat_prompts, choices_as_text, max_tokens: as asked for.
        entries: grows when further items are asked.
    """

    made_by: str
    vocabulary_sha256: str
    template_sha256: str | None
    adds_bos: bool
    chat_prompts: bool
    choices_as_text: bool
    max_tokens: int
    notes: tuple[str, ...] = ()
    entries: dict[str, Prompt | ChoiceQuestion | Unaskable] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, object]:
        """What decides the tokens, beside the items."""
        return {
            "vocabulary_sha256": self.vocabulary_sha256,
            "template_sha256": self.template_sha256,
            "template_day": TEMPLATE_DAY.date().isoformat(),
            "adds_bos": self.adds_bos,
            "chat_prompts": self.chat_prompts,
            "choices_as_text": self.choices_as_text,
            "max_tokens": self.max_tokens,
        }


def prompting_for(session: TextSession, template: str | None, *, name: str, chat_prompts: bool) -> Prompting:
    """How items become tokens of a model with this template, whose date is always the same day."""
    vocabulary = session.facts.vocabulary
    chat = None
    if template is not None:
        chat = ChatTemplate(
            name=name,
            source=template,
            bos_text=vocabulary.bos_text,
            eos_text=vocabulary.eos_text,
            now=TEMPLATE_DAY,
        )
    return Prompting(session, chat, chat_prompts=chat_prompts)


class TokenMaker:
    """Makes the tokens of items with an open session and the template of its model."""

    def __init__(self, session: TextSession, name: str, template: str | None, options: AskOptions) -> None:
        vocabulary = session.facts.vocabulary
        self._session, self._name, self._options = session, name, options
        self._template_sha256 = template_hash(template)
        self._vocabulary = vocabulary
        self._context = session.facts.session.n_ctx_train or _UNBOUNDED
        self._prompting = prompting_for(session, template, name=name, chat_prompts=options.chat_prompts)

    def book(self, items: Iterable[Item], progress: Callable[[str], None]) -> TokenBook:
        """The tokens of all items.

        Raises:
            EngineError: the session failed.
        """
        kept = list(items)
        asked = (listed(item) if self._is_listed(item) else item for item in kept)
        book = TokenBook(
            made_by=self._name,
            vocabulary_sha256=self._vocabulary.sha256,
            template_sha256=self._template_sha256,
            adds_bos=self._vocabulary.adds_bos,
            chat_prompts=self._options.chat_prompts,
            choices_as_text=self._options.choices_as_text,
            max_tokens=self._options.max_tokens,
            notes=self._prompting.notes(asked),
        )
        self.add(book, kept, progress)
        return book

    def add(self, book: TokenBook, items: Iterable[Item], progress: Callable[[str], None] = lambda _: None) -> None:
        """Put further items into the book.

        Raises:
            EngineError: the session failed.
        """
        for number, item in enumerate(items):
            if number and number % _BETWEEN_TELLINGS == 0:
                progress(f"{self._name}: made the tokens of {number} items")
            asked = item_hash(item)
            if asked not in book.entries:
                book.entries[asked] = self._entry(item)

    def _is_listed(self, item: Item) -> bool:
        return item.asks_choices and self._options.choices_as_text

    def _entry(self, item: Item) -> Prompt | ChoiceQuestion | Unaskable:
        asked = listed(item) if self._is_listed(item) else item
        try:
            if self._is_far_too_long(asked):
                return Unaskable(reason=f"the prompt has more than the {self._context} tokens of the model's context")
            if item.asks_choices and asked is item:
                return self._prompting.question(item)
            return self._prompting.prompt(asked, self._options.max_tokens)
        except (ModelFileError, UsageError) as error:
            return Unaskable(reason=str(error))
        except EngineError as error:
            self._check_alive()  # or every item would be taken for one that the tokenizer refuses
            return Unaskable(reason=str(error))

    def _check_alive(self) -> None:
        self._session.tokenize("a", add_special=False, parse_special=False)

    def _is_far_too_long(self, item: Item) -> bool:
        """Whether a beginning of the text alone has more tokens than the context; the whole might take the tokenizer minutes."""
        text = self._prompting.prompt_text(item)
        size = _LONG_CHARACTERS * self._context
        while size < len(text):
            tokens = self._session.tokenize(text[:size], add_special=False, parse_special=False)
            if len(tokens) > self._context:
                return True
            size *= 2
        return False


def template_hash(template: str | None) -> str | None:
    """SHA-256 of a chat template; None for none."""
    return None if template is None else hashlib.sha256(template.encode("utf-8", "surrogatepass")).hexdigest()


def too_long(tokens: int, context: int) -> str:
    """Why a prompt cannot be asked."""
    return f"the prompt has {tokens} tokens, and the model's context has room for {context}"


def needed_tokens(entry: Prompt | ChoiceQuestion) -> tuple[int, int]:
    """Room in the context that an item has to have, and that it may use: one token of an answer, and all of a longest one."""
    if isinstance(entry, Prompt):
        return len(entry.tokens) + 1, len(entry.tokens) + entry.max_tokens
    longest = len(entry.prefix) + max(map(len, entry.choices), default=0)
    return longest, longest


def problem_of(entry: Prompt | ChoiceQuestion | Unaskable, context: int) -> str | None:
    """Why an item cannot be asked in a context of so many tokens; None where it can."""
    if isinstance(entry, Unaskable):
        return entry.reason
    least, _ = needed_tokens(entry)
    if least > context:
        return too_long(least if isinstance(entry, ChoiceQuestion) else least - 1, context)
    if isinstance(entry, Prompt):
        return None if entry.tokens else "the prompt is empty: it has no tokens"
    try:
        check_question(0, entry, context)
    except EngineError:
        return "the prompt or one of its choices is empty: it has no tokens"
    return None
