"""The seam for what a model says, beside :mod:`suffice.measure.engine.seam` for how fast it is.

A :class:`TextEngine` opens a model and gives a :class:`TextSession`: texts become tokens and back, prompts get greedy answers, choices get
log-probabilities, and a text its logits. Nothing is drawn at random: the same session settings and the same tokens give the same results.
:class:`~suffice.measure.engine.fake_text.FakeTextEngine` ships beside the real one.

``n_sequences`` of the settings is the number of slots, prompts that are answered at a time; ``n_ctx`` is the room of each, prompt and
answer together. An answer does not depend on what its neighbours in the other slots are: each prompt is read alone, and every step
evaluates as many tokens as there are slots.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path
    from types import TracebackType

    import numpy as np
    from numpy.typing import NDArray

    from suffice.measure.engine.seam import EngineIdentity, EngineSettings, SessionFacts
    from suffice.model.answers import FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class VocabularyFacts:
    """A model's tokens. Models whose ``sha256`` agree give every token number the same text, so their logits can be compared."""

    n_tokens: int
    sha256: str  # over the texts of all tokens, in order
    adds_bos: bool  # a text that starts a sequence gets the beginning-of-sequence token in front
    bos: int | None
    eos: int | None
    end_tokens: tuple[int, ...]  # all that end an answer
    bos_text: str = ""
    eos_text: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class TextFacts:
    """What is known once the model is open."""

    session: SessionFacts
    vocabulary: VocabularyFacts
    n_ctx: int  # tokens of prompt and answer that each slot has room for
    slots: int
    shares_prefixes: bool  # False: a recurrent state, so that each choice is read with a prompt of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What is to be answered, and when an answer ends at the latest. ``stops`` are texts; the answer is cut before the first of them."""

    tokens: tuple[int, ...]
    max_tokens: int
    stops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TextAnswer:
    """The answer to the prompt with the number ``index``.

    ``tokens`` are those that were generated, without the one that ended the answer; of a stop text, the tokens are still there. ``finish``
    is ``LENGTH`` where ``max_tokens`` or the context ended it.
    """

    index: int
    tokens: tuple[int, ...]
    text: str
    finish: FinishReason


@dataclass(frozen=True, slots=True, kw_only=True)
class ChoiceQuestion:
    """Tokens of a prompt, and those of each way to go on."""

    prefix: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LogitsBlock:
    """Logits after the tokens at ``first_position`` and those that follow it, a row each.

    Row i belongs to the token at ``first_position + i`` and foretells the next one. ``rows`` is a view that holds until the next block is
    asked for.
    """

    first_position: int
    rows: NDArray[np.float32]


class TextSession(Protocol):
    """An open model. All methods raise EngineError (EngineCrashError when the process died)."""

    @property
    def facts(self) -> TextFacts:
        """What was known once the model was open."""

    def resize(self, n_ctx: int, slots: int) -> None:
        """Make room for longer or shorter texts, or for another number of them, without loading the model again.

        How long the prompts are is known only when they are tokens, and those are made by an open session. ``facts`` change.

        Raises:
            EngineError: there is no memory for that much; the session can be resized again, or closed.
        """

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """The tokens of a text, with the model's own tokenizer.

        ``add_special`` puts in front (and behind) what the vocabulary wants around a whole text; ``parse_special`` reads the names of control
        tokens as those tokens, which a template needs and a user's text must not do.
        """

    def text_of(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens; ``special`` shows control tokens by name. Bytes that are no UTF-8 are replaced."""

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[TextAnswer]:
        """Greedy answers, each as soon as it is finished; prompts are taken as slots become free.

        Leaving the iterator early forgets what was begun. One iterator at a time may be used, and nothing else of the session meanwhile.

        Raises:
            EngineError: a prompt is empty or leaves no room for one token of an answer; those before it were answered.
        """

    def choice_logprobs(self, questions: Iterable[ChoiceQuestion]) -> Iterator[tuple[tuple[float, ...], ...]]:
        """For each question in order, for each of its choices, the natural log-probability of each of its tokens.

        A prefix is read once for all its choices, and small questions are read together. What is read together is rounded together: with
        quantized weights a question's numbers move a little with its neighbours (docs/items.md). Asked one question a call they do not,
        which takes half as long again for short ones.

        Raises:
            EngineError: an empty prefix or choice, or one that does not fit into ``n_ctx``; those before it were answered.
        """

    def logits(self, tokens: Sequence[int], *, first_position: int = 0) -> Iterator[LogitsBlock]:
        """Logits after every token from ``first_position`` on, in blocks, in order; memory stays flat however long the text.

        Raises:
            EngineError: no tokens, more than ``n_ctx``, or a first position outside.
        """

    def close(self) -> None:
        """End the session and free everything; twice is harmless."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


class TextEngine(Protocol):
    """Something that can run a GGUF model and tell what it says."""

    @property
    def identity(self) -> EngineIdentity:
        """What the engine is, as it says itself."""

    def open_text(self, model: Path, settings: EngineSettings) -> TextSession:
        """Load a model.

        Raises:
            EngineError: the engine refused the model or the settings, with its own words, or the model has no tokenizer.
            EngineCrashError: it died while loading.
        """
