"""Which tokens of which questions are evaluated together, and where the log-probabilities of choices stand then. Plain values only.

The prompt of a question belongs to all of its choices' sequences and is read once, as llama-perplexity does for HellaSwag; several
questions make one batch. A model with a recurrent state cannot share a prompt: there each choice is a question of its own.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.errors import EngineError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from suffice.measure.engine.text_seam import ChoiceQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What fits: ``context`` tokens in one text; ``batch`` tokens, and ``sequences``, in a pack of questions; ``cells`` in the cache."""

    context: int
    batch: int
    cells: int
    sequences: int
    shares: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """Some choices of one question: as many as fit together. ``ends_question``: no further part of it follows."""

    question: int
    first_choice: int
    prefix: tuple[int, ...]
    choices: tuple[tuple[int, ...], ...]
    ends_question: bool

    @property
    def cells(self) -> int:
        """Tokens that are evaluated: a choice's last one is not, as nothing is asked of what follows it."""
        return len(self.prefix) + sum(len(choice) - 1 for choice in self.choices)


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One token to evaluate: where it stands in which sequences, and the log-probabilities that are asked of its logits.

    ``asked`` are (part, choice within the part, token): the token's log-probability is the next one of that choice.
    """

    token: int
    position: int
    sequences: tuple[int, ...]
    asked: tuple[tuple[int, int, int], ...] = ()


def check_question(number: int, question: ChoiceQuestion, context: int) -> None:
    """Refuse what cannot be asked.

    Raises:
        EngineError: an empty prefix or choice, or more tokens than the context holds.
    """
    if not question.prefix or not question.choices or not all(question.choices):
        raise EngineError(f"question {number} has a prompt or a choice without tokens; nothing can be asked of it")
    longest = len(question.prefix) + max(map(len, question.choices))
    if longest > context:
        raise EngineError(
            f"question {number} has {longest} tokens with its longest choice, more than the {context} of the context"
        )


def parts_of(number: int, question: ChoiceQuestion, limits: Limits) -> Iterator[Part]:
    """The question in as few parts as fit into the cache."""
    check_question(number, question, limits.context)
    most = limits.sequences if limits.shares else 1
    first, used = 0, len(question.prefix)
    for place, choice in enumerate(question.choices):
        if place > first and (place - first >= most or used + len(choice) - 1 > limits.cells):
            yield _part(number, question, first, place)
            first, used = place, len(question.prefix)
        used += len(choice) - 1
    yield _part(number, question, first, len(question.choices))


def _part(number: int, question: ChoiceQuestion, start: int, end: int) -> Part:
    return Part(
        question=number,
        first_choice=start,
        prefix=question.prefix,
        choices=question.choices[start:end],
        ends_question=end == len(question.choices),
    )


def packs(questions: Iterable[ChoiceQuestion], limits: Limits) -> Iterator[list[Part]]:
    """Parts that are evaluated together, in order: one batch of them, or a single part that is larger than a batch.

    A question that cannot be asked raises when all before it were given out.
    """
    pack: list[Part] = []
    cells = sequences = 0
    room = min(limits.batch, limits.cells)
    try:
        for number, question in enumerate(questions):
            for part in parts_of(number, question, limits):
                if pack and (cells + part.cells > room or sequences + len(part.choices) > limits.sequences):
                    yield pack
                    pack, cells, sequences = [], 0, 0
                pack.append(part)
                cells += part.cells
                sequences += len(part.choices)
    except EngineError:
        if pack:
            yield pack
        raise
    if pack:
        yield pack


def rows_of(pack: list[Part]) -> Iterator[Row]:
    """The tokens of a pack in the order in which they are evaluated."""
    sequence = 0
    for number, part in enumerate(pack):
        owners = tuple(range(sequence, sequence + len(part.choices)))
        sequence += len(part.choices)
        last = len(part.prefix) - 1
        firsts = tuple((number, place, choice[0]) for place, choice in enumerate(part.choices))
        for position, token in enumerate(part.prefix):
            yield Row(token=token, position=position, sequences=owners, asked=firsts if position == last else ())
        for place, choice in enumerate(part.choices):
            for step, (token, following) in enumerate(itertools.pairwise(choice)):
                yield Row(
                    token=token,
                    position=last + 1 + step,
                    sequences=(owners[place],),
                    asked=((number, place, following),),
                )


def chunks(rows: Iterable[Row], batch: int, outputs: int) -> Iterator[list[Row]]:
    """Rows in evaluations of at most ``batch`` tokens, of which at most ``outputs`` have logits."""
    chunk: list[Row] = []
    wanted = 0
    for row in rows:
        if chunk and (len(chunk) >= batch or wanted + bool(row.asked) > outputs):
            yield chunk
            chunk, wanted = [], 0
        chunk.append(row)
        wanted += bool(row.asked)
    if chunk:
        yield chunk
