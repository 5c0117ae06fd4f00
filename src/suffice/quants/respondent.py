"""The seam between a comparison and a model that is asked, wherever it runs: a file on this machine, or a server.

:class:`~suffice.quants.fake_respondent.FakeRespondent` ships beside the real ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol, Self

from suffice.loaders.items import item_hash
from suffice.model.choice_text import LETTERS
from suffice.model.items import Message, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from types import TracebackType

    from suffice.model.answers import Answer
    from suffice.model.items import Item
    from suffice.model.quants import Subject

DEFAULT_SLOTS: Final = 4
DEFAULT_MAX_TOKENS: Final = 256
REASONING: Final = "apart"
"""The setting of whoever keeps what a model thinks before it answers apart, as :mod:`suffice.quants.thinking` does."""
THOUGHT_NOTE: Final = "{} of its answers came with reasoning, which is kept apart and not scored"
CUT_THOUGHT_NOTE: Final = "{} of its answers are empty because the model was still reasoning when its longest answer was reached: raise --max-tokens"
LISTED_NOTE: Final = (
    "choices are listed with letters and the letter that is written is read, of all models alike, and not weighed by log-probabilities, "
    "which are not asked of a server"
)
"""For a comparison, not for one model: see :func:`comparison_notes`."""
SERVER_SPEED_NOTE: Final = (
    "the speed of a server is not measured here, and the demand's speed is not judged for it: suffice load does that"
)
_ASK_FOR_LETTER: Final = "Answer with the letter of the right choice, and nothing else."


@dataclass(frozen=True, slots=True, kw_only=True)
class AskOptions:
    """How models are asked; all of it decides answers, and all models of a comparison are asked alike.

    Attributes:
        slots: items that are answered at a time.
        max_tokens: of an answer, for items that do not say.
        chat_prompts: a prompt is asked as the message of a user, and not as a text to go on with.
        choices_as_text: choices are listed, and the answer is read; otherwise they are weighed, where the model allows it.
        threads: of an engine on this machine; None: as many as there are usable CPUs.
        timeout_s: of one answer of a server.
    """

    slots: int = DEFAULT_SLOTS
    max_tokens: int = DEFAULT_MAX_TOKENS
    chat_prompts: bool = False
    choices_as_text: bool = False
    threads: int | None = None
    timeout_s: float = 600.0


class Respondent(Protocol):
    """A model that is asked items. Use it in ``with``."""

    @property
    def subject(self) -> Subject:
        """Who it is."""

    @property
    def settings(self) -> Mapping[str, object]:
        """Everything beside the model and the item that decides an answer, as JSON values; answers of others are never mixed in."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What has to be said about how it was asked; more may come while it is asked."""

    def ask(self, items: Sequence[Item]) -> Iterator[Answer]:
        """One answer for each different question among the items, each as soon as it is finished, in any order.

        An item that cannot be asked (a template refuses it, it is longer than the context) has an answer with ``error``; so has every
        item that is left when the model fails for good. Leaving the iterator early gives up what was begun.
        """

    def close(self) -> None:
        """Free everything; twice is harmless."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def different(items: Iterable[Item]) -> dict[str, Item]:
    """The items by the hash of what is asked, in order; of several that ask the same, the first."""
    found: dict[str, Item] = {}
    for item in items:
        found.setdefault(item_hash(item), item)
    return found


def listed(item: Item) -> Item:
    """An item with choices as a conversation in which they are listed, each with its letter, behind what is asked."""
    lines = [f"{letter}) {choice}" for letter, choice in zip(LETTERS, item.choices, strict=False)]
    question = "\n".join(("", "", *lines, _ASK_FOR_LETTER))
    messages = item.messages or (Message(role=Role.USER, content=item.prompt or ""),)
    last = replace(messages[-1], content=messages[-1].content.rstrip() + question)
    return replace(item, prompt=None, messages=(*messages[:-1], last))


def comparison_notes(
    items: Iterable[Item], options: AskOptions, *, has_server: bool, has_demand: bool
) -> tuple[str, ...]:
    """What has to be said once about how all models of a comparison are asked.

    Args:
        items: what they are asked.
        options: as all are asked.
        has_server: a server takes part.
        has_demand: speed would be judged.
    """
    notes = {
        LISTED_NOTE: options.choices_as_text and any(item.asks_choices for item in items),
        SERVER_SPEED_NOTE: has_server and has_demand,
    }
    return tuple(note for note, holds in notes.items() if holds)
