"""How far models' next-token distributions are from a reference's on documents, all asked in step, memory flat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, UsageError
from suffice.quality.distance import DocumentDistances, are_numbers, distances_in_step

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from suffice.errors import SufficeError
    from suffice.measure.engine.text_seam import TextSession, VocabularyFacts

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


class DistancesInStep:
    """A reference and several candidates that read the same windows in step, so that the reference reads each once for all of them.

    ``found`` has the distances of each candidate by its key. A candidate that fails, or whose logits are no numbers, is left out from
    there on: ``lost`` says why, and its distances so far stay unused. What the reference raises ends all.
    """

    def __init__(self, reference: TextSession, candidates: Mapping[str, TextSession]) -> None:
        self._reference = reference
        self._candidates = dict(candidates)
        self.found = {key: DocumentDistances() for key in candidates}
        self.lost: dict[str, SufficeError] = {}
        for key, session in candidates.items():
            try:
                check_same_vocabulary(reference.facts.vocabulary, session.facts.vocabulary)
            except UsageError as error:
                self._lose(key, error)

    def read(
        self,
        documents: Iterable[tuple[str, Sequence[int]]],
        *,
        windows: Callable[[int, int], Iterable[Window]] = document_windows,
    ) -> Iterator[int]:
        """Read documents (name and tokens), window by window; after each, the number of tokens that were read for it.

        A name that comes again adds to its document. Where the vocabulary wants a token at the beginning of a sequence, it takes the
        place of a later window's first one, as llama-perplexity does.

        Raises:
            EngineError: the reference failed.
        """
        vocabulary = self._reference.facts.vocabulary
        bos = vocabulary.bos if vocabulary.adds_bos else None
        for name, tokens in documents:
            sessions = [self._reference, *self._candidates.values()]
            n_ctx = min(session.facts.n_ctx for session in sessions)
            for window in windows(len(tokens), n_ctx):
                if not self._candidates:
                    return
                read = list(tokens[window.start : window.end])
                if bos is not None and window.start > 0:
                    read[0] = bos
                self._read_window(name, read, window.scored_from - window.start)
                yield len(read)

    def _read_window(self, name: str, tokens: list[int], scored_from: int) -> None:
        """Score the tokens from ``scored_from`` on; the sessions may make blocks of different sizes."""
        reference = _Rows(self._reference, tokens[:-1], scored_from - 1)
        rows = {key: _Rows(session, tokens[:-1], scored_from - 1) for key, session in self._candidates.items()}
        position = scored_from
        while position < len(tokens):
            left = self._left(rows)
            if not left:
                return
            count = min(reference.left(), *left.values())
            taken = reference.take(count)
            blocks = {key: one.take(count) for key, one in rows.items()}
            found = distances_in_step(taken, list(blocks.values()), tokens[position : position + count])
            for key, distances in zip(blocks, found, strict=True):
                self.found[key].add(name, distances)
            position += count

    def _left(self, rows: dict[str, _Rows]) -> dict[str, int]:
        """Rows at hand of each candidate; one that fails is lost, and taken out of ``rows``."""
        left = {}
        for key in tuple(rows):
            try:
                left[key] = rows[key].left()
            except EngineError as error:
                self._lose(key, error)
                del rows[key]
        return left

    def _lose(self, key: str, error: SufficeError) -> None:
        self.lost[key] = error
        del self._candidates[key]


def measure_distances(
    reference: TextSession,
    candidate: TextSession,
    documents: Iterable[tuple[str, Sequence[int]]],
    found: DocumentDistances,
    *,
    windows: Callable[[int, int], Iterable[Window]] = document_windows,
) -> Iterator[str]:
    """Add the distances of documents (name and tokens) to ``found``, window by window; after each, the name of its document.

    Raises:
        UsageError: the vocabularies differ.
        EngineError: one of the engines failed.
    """
    in_step = DistancesInStep(reference, {"": candidate})
    in_step.found[""] = found
    for name, tokens in documents:
        for _ in in_step.read([(name, tokens)], windows=windows):
            yield name
        if in_step.lost:
            raise in_step.lost[""]


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
            if not are_numbers(block.rows):
                raise EngineError("the model's logits are no numbers; its weights are damaged")
            self._rows = block.rows
        return len(self._rows)

    def take(self, count: int) -> NDArray[np.float32]:
        """The next rows of the block at hand."""
        rows = self._rows
        if rows is None:
            raise EngineError("no logits are at hand")
        self._rows = rows[count:]
        return rows[:count]
