"""How far one model's next-token distributions are from another's on documents, both asked in step, memory flat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, UsageError
from suffice.quality.distance import token_distances

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from suffice.measure.engine.text_seam import TextSession, VocabularyFacts
    from suffice.quality.distance import DocumentDistances

_LEAST_CONTEXT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Tokens ``start`` to ``end`` of a document, read from nothing; those from ``scored_from`` on are foretold and scored."""

    start: int
    end: int
    scored_from: int


def document_windows(n_tokens: int, n_ctx: int) -> Iterator[Window]:
    """Windows in which every token but the first is scored once, with at least half a context before it where there is as much.

    Raises:
        UsageError: a context of one token, in which nothing can be foretold.
    """
    if n_ctx < _LEAST_CONTEXT:
        raise UsageError(f"a context of {n_ctx} tokens is too small to foretell one; use {_LEAST_CONTEXT} or more")
    end = scored = min(n_tokens, n_ctx)
    if end > 1:
        yield Window(start=0, end=end, scored_from=1)
    half = n_ctx // 2
    while scored < n_tokens:
        end = min(n_tokens, scored + n_ctx - half)
        yield Window(start=end - n_ctx, end=end, scored_from=scored)
        scored = end


def perplexity_windows(n_tokens: int, n_ctx: int) -> Iterator[Window]:
    """The windows of llama-perplexity: apart, and only the second half of each is scored. What does not fill a window is left out."""
    for start in range(0, n_tokens - n_ctx + 1, n_ctx):
        yield Window(start=start, end=start + n_ctx, scored_from=start + n_ctx // 2 + 1)


def check_same_vocabulary(reference: VocabularyFacts, candidate: VocabularyFacts) -> None:
    """Refuse two models whose logits do not speak of the same tokens.

    Raises:
        UsageError: the vocabularies differ.
    """
    if reference.sha256 != candidate.sha256:
        raise UsageError(
            f"the two models have different vocabularies (of {reference.n_tokens} and {candidate.n_tokens} tokens), so their distributions "
            "cannot be compared token by token; compare their answers instead"
        )


def measure_distances(
    reference: TextSession,
    candidate: TextSession,
    documents: Iterable[tuple[str, Sequence[int]]],
    found: DocumentDistances,
    *,
    windows: Callable[[int, int], Iterable[Window]] = document_windows,
) -> Iterator[str]:
    """Add the distances of documents (name and tokens) to ``found``, window by window; after each, the name of its document.

    Where the vocabulary wants a token at the beginning of a sequence, it takes the place of a later window's first one, as
    llama-perplexity does.

    Raises:
        UsageError: the vocabularies differ.
        EngineError: one of the engines failed.
    """
    check_same_vocabulary(reference.facts.vocabulary, candidate.facts.vocabulary)
    n_ctx = min(reference.facts.n_ctx, candidate.facts.n_ctx)
    vocabulary = reference.facts.vocabulary
    bos = vocabulary.bos if vocabulary.adds_bos else None
    for name, tokens in documents:
        for window in windows(len(tokens), n_ctx):
            read = list(tokens[window.start : window.end])
            if bos is not None and window.start > 0:
                read[0] = bos
            _add_window(found, name, (reference, candidate), read, window.scored_from - window.start)
            yield name


def _add_window(
    found: DocumentDistances, name: str, sessions: tuple[TextSession, TextSession], tokens: list[int], scored_from: int
) -> None:
    """Score the tokens from ``scored_from`` on; the two sessions may make blocks of different sizes."""
    first, second = (_Rows(session, tokens[:-1], scored_from - 1) for session in sessions)
    position = scored_from
    while position < len(tokens):
        count = min(first.left(), second.left())
        found.add(name, token_distances(first.take(count), second.take(count), tokens[position : position + count]))
        position += count


class _Rows:
    """The logits of one session, taken a few rows at a time."""

    def __init__(self, session: TextSession, tokens: list[int], first_position: int) -> None:
        self._blocks = session.logits(tokens, first_position=first_position)
        self._rows: NDArray[np.float32] | None = None

    def left(self) -> int:
        """Rows of the block at hand; the next block is asked for when there are none."""
        if self._rows is None or not len(self._rows):
            block = next(self._blocks, None)
            if block is None:
                raise EngineError("an engine made fewer logits than there are tokens")
            self._rows = block.rows
        return len(self._rows)

    def take(self, count: int) -> NDArray[np.float32]:
        """The next rows of the block at hand."""
        rows = self._rows
        if rows is None:
            raise EngineError("no logits are at hand")
        self._rows = rows[count:]
        return rows[:count]
