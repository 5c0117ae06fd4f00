"""The user's text that distances are measured on: read from files, or made of the items and their right answers; bounded, evenly taken."""

from __future__ import annotations

import hashlib
import json
import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError, UsageError
from suffice.loaders.files import read_small_file
from suffice.loaders.json_lines import JsonLines
from suffice.measure.prompting import Prompting
from suffice.model.items import ScoreKind
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from suffice.measure.engine.text_seam import TextSession
    from suffice.model.items import Item

MAX_TEXT_BYTES: Final = 64 * MIB
"""Of all text files together."""
DEFAULT_MAX_TOKENS: Final = 16_384
BLOCK_TOKENS: Final = 512
"""Of the blocks into which one long text is cut, so that there is an interval."""
MOST_BLOCKS_PER_DOCUMENT: Final = 8  # of a document, so that one of them does not use up all tokens
_LEAST_TOKENS: Final = 2  # the first one is not foretold
_CHARACTERS_PER_TOKEN: Final = 4  # of English; only where a long text is cut depends on it
_MOST_CHARACTERS_PER_TOKEN: Final = 16  # so much of a text is made tokens at most, per token that is wanted
_LINES_SHOWN: Final = 5
_LINES_SUFFIXES: Final = (".jsonl", ".ndjson")
_SPREAD: Final = (math.sqrt(5) - 1) / 2


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDocument:
    """What counts as one document: a text, or the items of one group. ``is_whole_file``: a plain text file, to be cut where it is long."""

    name: str
    text: str = ""
    items: tuple[Item, ...] = ()
    is_whole_file: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTexts:
    """Documents in the order of their files; ``notes`` say what was left out."""

    documents: tuple[TextDocument, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenizedTexts:
    """What is read: pairs of a document's name and the tokens of one text of it; a name may come several times.

    ``sha256`` is of all names and tokens. ``notes`` say how the text was cut, and how much of it was taken.
    """

    segments: tuple[tuple[str, tuple[int, ...]], ...]
    sha256: str
    notes: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """All tokens that are read."""
        return sum(len(tokens) for _, tokens in self.segments)

    @property
    def longest(self) -> int:
        """Tokens of the longest text."""
        return max((len(tokens) for _, tokens in self.segments), default=0)


def documents_of(items: Sequence[Item], texts: Sequence[Path] = ()) -> UserTexts:
    """The documents of text files, or without any, of the items' own prompts with their right answers.

    A plain text file is one document; each line ``{"text": ...}`` of a ``.jsonl`` file is one; the items of one group are one.

    Raises:
        UsageError: a file is missing, a folder, a pipe, no UTF-8 text or empty, has a line that cannot be used, or there is too much text.
    """
    if not texts:
        return _of_items(items)
    documents: list[TextDocument] = []
    left_bytes = MAX_TEXT_BYTES
    names = _short_names(texts)
    for path, name in zip(texts, names, strict=True):
        found = _of_lines(path, name) if path.suffix.lower() in _LINES_SUFFIXES else [_of_file(path, name)]
        left_bytes -= sum(len(document.text.encode(errors="replace")) for document in found)
        if left_bytes < 0:
            raise UsageError(f"the text files have more than {MAX_TEXT_BYTES // MIB} MiB together; give a part of them")
        documents += found
    return UserTexts(documents=tuple(documents))


def _short_names(paths: Sequence[Path]) -> list[str]:
    """File names; where two are alike, with their number."""
    names = [path.name for path in paths]
    return [f"{name} ({place})" if names.count(name) > 1 else name for place, name in enumerate(names, start=1)]


def _of_file(path: Path, name: str) -> TextDocument:
    text = read_small_file(path, limit_bytes=MAX_TEXT_BYTES, error=UsageError)
    if "\0" in text:
        raise UsageError(
            f"{path} is no text: it holds zero bytes; give a UTF-8 text file, or JSON lines with a text each"
        )
    if not text.strip():
        raise UsageError(f"{path} holds no text")
    return TextDocument(name=name, text=text.removesuffix("\n"), is_whole_file=True)


def _of_lines(path: Path, name: str) -> list[TextDocument]:
    documents, problems = [], []
    size = 0
    for line in JsonLines(path, error=UsageError):
        text = None if line.document is None else line.document.get("text")
        if not isinstance(text, str):
            problems.append(f"line {line.number}: {line.problem or 'no text under the name text'}")
        elif text.strip():
            size += len(text)
            documents.append(TextDocument(name=f"{name} line {line.number}", text=text))
        if size > MAX_TEXT_BYTES:
            raise UsageError(f"{path} has more than {MAX_TEXT_BYTES // MIB} MiB of text; give a part of it")
    if problems:
        more = f"; and {len(problems) - _LINES_SHOWN} more" if len(problems) > _LINES_SHOWN else ""
        shown = "; ".join(problems[:_LINES_SHOWN])
        raise UsageError(f'{path}: every line has to be {{"text": "..."}}; {shown}{more}')
    if not documents:
        raise UsageError(f"{path} holds no text")
    return documents


def _of_items(items: Sequence[Item]) -> UserTexts:
    groups: dict[str, list[Item]] = {}
    for item in items:
        groups.setdefault(item.cluster, []).append(item)
    documents = tuple(TextDocument(name=name, items=tuple(group)) for name, group in groups.items())
    unanswered = sum(right_answer(item) is None for item in items)
    notes = (f"of {unanswered} items no right answer is known as a text: distances are on their prompts alone",)
    return UserTexts(documents=documents, notes=notes if unanswered else ())


def right_answer(item: Item) -> str | None:
    """The text of a right answer, as a model would write it; None where it is not known, or no text."""
    if item.correct:
        return item.choices[item.correct[0]]
    if item.answers:
        return item.answers[0]
    if item.numbers:
        return f"{item.numbers[0]:.15g}"
    if item.answer_json is None:
        return None
    if item.rule.kind is ScoreKind.JSON:
        return item.answer_json
    answer = json.loads(item.answer_json)
    return answer if isinstance(answer, str) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Unit:
    """A document that may be taken or not; ``texts`` makes the tokens of its texts, at most so many together."""

    name: str
    texts: Callable[[int], Iterator[tuple[int, ...]]]


def tokenize_texts(
    texts: UserTexts,
    session: TextSession,
    prompting: Prompting | None = None,
    *,
    max_tokens: int = DEFAULT_MAX_TOKENS,
    block_tokens: int = BLOCK_TOKENS,
) -> TokenizedTexts:
    """The tokens of at most ``max_tokens`` of the text, documents taken evenly over all of it.

    A plain text file is cut into blocks of ``block_tokens`` that follow each other and count as documents; one of which much more was given
    than is wanted, at evenly spaced places. Of other documents only the beginning is taken, ``MOST_BLOCKS_PER_DOCUMENT`` blocks at most.

    Raises:
        UsageError: nothing is left to compare.
        EngineError: the session failed.
    """
    cutter = _Cutter(session, prompting or Prompting(session, None), max_tokens, block_tokens)
    units = [unit for document in texts.documents for unit in cutter.units(document)]
    taken = dict(_evenly(units, max_tokens, most=MOST_BLOCKS_PER_DOCUMENT * block_tokens))
    segments = [(units[place].name, tokens) for place in sorted(taken) for tokens in taken[place]]
    if not segments:
        raise UsageError("there is no text of two tokens or more to measure distances on; give one with --text FILE")
    notes = [*texts.notes, *cutter.notes()]
    used = sum(1 for found in taken.values() if found)
    if len(taken) < len(units):
        notes.append(
            f"distances are on {used} of {len(units)} documents, spread evenly over the text, {max_tokens} tokens together; "
            "--text-tokens takes more"
        )
    digest = hashlib.sha256(json.dumps(segments).encode()).hexdigest()
    return TokenizedTexts(segments=tuple(segments), sha256=digest, notes=tuple(notes))


def _evenly(units: Sequence[_Unit], max_tokens: int, *, most: int) -> Iterator[tuple[int, list[tuple[int, ...]]]]:
    """Numbers of units with their tokens, until so many tokens were taken.

    The multiples of the golden ratio, in the order of their fractions: wherever it ends, what was taken lies evenly (three-gap theorem).
    """
    left = max_tokens
    for place in sorted(range(len(units)), key=lambda number: number * _SPREAD % 1):
        if left < _LEAST_TOKENS:
            return
        found = [tokens for tokens in units[place].texts(min(left, most)) if len(tokens) >= _LEAST_TOKENS]
        left -= sum(map(len, found))
        yield place, found


class _Cutter:
    """Makes units of documents, for one session."""

    def __init__(self, session: TextSession, prompting: Prompting, max_tokens: int, block_tokens: int) -> None:
        self._session = session
        self._prompting = prompting
        self._max_tokens = max_tokens
        self._block = block_tokens
        self._cut: list[str] = []
        self._refused = 0
        self._shortened = 0

    def units(self, document: TextDocument) -> list[_Unit]:
        """One for a document; for a plain text file one for each block."""
        if document.items:
            return [_Unit(name=document.name, texts=lambda most: self._of_items(document.items, most))]
        if not document.is_whole_file:
            return [_Unit(name=document.name, texts=lambda most: self._of_text(document.text, most))]
        if len(document.text) <= self._max_tokens * _MOST_CHARACTERS_PER_TOKEN:
            tokens = self._tokens(document.text)
            blocks = [tokens[start : start + self._block] for start in range(0, len(tokens), self._block)]
            if len(blocks) > 1:
                self._cut.append(document.name)
            return [self._block_unit(document.name, number, block) for number, block in enumerate(blocks, start=1)]
        self._cut.append(document.name)
        pieces = _pieces(document.text, self._block * _CHARACTERS_PER_TOKEN)
        return [self._piece_unit(document.name, number, piece) for number, piece in enumerate(pieces, start=1)]

    def _block_unit(self, name: str, number: int, block: tuple[int, ...]) -> _Unit:
        vocabulary = self._session.facts.vocabulary
        if number > 1 and vocabulary.adds_bos and vocabulary.bos is not None:
            block = (vocabulary.bos, *block[1:])  # it takes the place of the first one, as in a later window
        return _Unit(name=f"{name} block {number}", texts=lambda most: iter([block[:most]]))

    def _piece_unit(self, name: str, number: int, piece: str) -> _Unit:
        return _Unit(
            name=f"{name} block {number}", texts=lambda most: iter([self._tokens(piece)[: min(most, self._block)]])
        )

    def _of_text(self, text: str, most: int) -> Iterator[tuple[int, ...]]:
        tokens = self._tokens(text[: most * _MOST_CHARACTERS_PER_TOKEN])
        self._shortened += len(tokens) > most
        yield tokens[:most]

    def _of_items(self, items: Sequence[Item], most: int) -> Iterator[tuple[int, ...]]:
        for item in items:
            if most < _LEAST_TOKENS:
                self._shortened += 1
                return
            try:
                tokens = self._answered(item)[:most]
            except (UsageError, ModelFileError):
                self._refused += 1
                continue
            most -= len(tokens)
            yield tokens

    def _answered(self, item: Item) -> tuple[int, ...]:
        answer = right_answer(item)
        if not answer:
            return self._prompting.prompt(item, 1).tokens
        question = self._prompting.question(replace(item, choices=(answer,)))
        return question.prefix + question.choices[0]

    def _tokens(self, text: str) -> tuple[int, ...]:
        return self._session.tokenize(text, add_special=True, parse_special=False)

    def notes(self) -> list[str]:
        """What a reader of the intervals has to know."""
        notes = []
        if self._cut:
            notes.append(
                f"{', '.join(self._cut)}: one text is cut into blocks of {self._block} tokens that intervals count as documents; "
                "they speak of this text, not of others like it"
            )
        if self._shortened:
            which = "one document" if self._shortened == 1 else f"{self._shortened} documents"
            notes.append(f"of {which} only the beginning was taken")
        if self._refused:
            notes.append(f"the chat template refuses {self._refused} items: distances are without them")
        return notes


def _pieces(text: str, characters: int) -> list[str]:
    """The text cut after white space, where there is some, into pieces of about so many characters."""
    pieces, start = [], 0
    while start < len(text):
        end = start + characters
        while end < min(len(text), start + 2 * characters) and not text[end - 1].isspace():
            end += 1
        pieces.append(text[start:end])
        start = end
    return pieces
