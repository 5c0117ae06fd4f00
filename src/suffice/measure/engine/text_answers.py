"""Greedy answers in slots: a slot whose answer is finished takes the next prompt. Knows no engine; a :class:`Stepper` evaluates."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from suffice.errors import EngineError
from suffice.measure.engine.text_seam import Prompt, TextAnswer
from suffice.model.answers import FinishReason

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


class Stepper(Protocol):
    """Evaluates tokens in slots and tells the most likely next one; of equally likely ones the one with the smallest number."""

    @property
    def slots(self) -> int:
        """How many texts it holds."""

    @property
    def n_ctx(self) -> int:
        """Tokens that each slot has room for."""

    def begin(self, slot: int, tokens: Sequence[int]) -> int:
        """Read a prompt into a slot, alone, in place of what was there; the most likely next token."""

    def step(self, tokens: Sequence[int | None]) -> list[int]:
        """Add a token to each slot (None: the slot is idle) and tell the most likely next ones; those of idle slots mean nothing."""

    def piece(self, token: int) -> bytes:
        """The bytes that a token adds to the text; none for a control token."""

    def ends(self, token: int) -> bool:
        """Whether the token ends an answer."""


def check_prompt(index: int, prompt: Prompt, n_ctx: int) -> None:
    """Refuse what cannot be answered.

    Raises:
        EngineError: no tokens, no answer allowed, or no room for one token of it.
    """
    if not prompt.tokens or prompt.max_tokens < 1:
        raise EngineError(f"prompt {index} has no tokens, or may have no answer; at least one of each is needed")
    if len(prompt.tokens) >= n_ctx:
        raise EngineError(
            f"prompt {index} has {len(prompt.tokens)} tokens and leaves no room for an answer in a context of {n_ctx}"
        )


class PromptFeed:
    """Prompts with their numbers, taken a few at a time, up to the first that cannot be answered; ``refused`` is why then."""

    def __init__(self, prompts: Iterable[Prompt], n_ctx: int) -> None:
        self._numbered = enumerate(prompts)
        self._n_ctx = n_ctx
        self.refused: EngineError | None = None

    def take(self, count: int) -> list[tuple[int, Prompt]]:
        """At most ``count`` further ones; none when there are no more."""
        taken: list[tuple[int, Prompt]] = []
        while self.refused is None and len(taken) < count:
            following = next(self._numbered, None)
            if following is None:
                break
            try:
                check_prompt(*following, self._n_ctx)
            except EngineError as error:
                self.refused = error
            else:
                taken.append(following)
        return taken


@dataclass(slots=True)
class _Running:
    index: int
    prompt: Prompt
    next_token: int
    tokens: list[int] = field(default_factory=list)
    raw: bytearray = field(default_factory=bytearray)


class AnswerSlots:
    """The answers that are being written, and the prompts that wait for a slot."""

    def __init__(self, stepper: Stepper) -> None:
        self._stepper = stepper
        self._waiting: deque[tuple[int, Prompt]] = deque()
        self._running: list[_Running | None] = [None] * stepper.slots

    @property
    def unfinished(self) -> int:
        """How many answers are written or wait."""
        return len(self._waiting) + sum(running is not None for running in self._running)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is written and nothing waits."""
        return self.unfinished == 0

    def add(self, index: int, prompt: Prompt) -> None:
        """Let a prompt wait for a slot.

        Raises:
            EngineError: it cannot be answered.
        """
        check_prompt(index, prompt, self._stepper.n_ctx)
        self._waiting.append((index, prompt))

    def advance(self) -> list[TextAnswer]:
        """Fill free slots, then add one token to every answer that is being written; those that are finished now."""
        finished: list[TextAnswer] = []
        for slot in range(len(self._running)):
            while self._running[slot] is None and self._waiting:
                index, prompt = self._waiting.popleft()
                self._take(slot, _Running(index, prompt, self._stepper.begin(slot, prompt.tokens)), finished)
        if any(self._running):
            tops = self._stepper.step([None if running is None else running.tokens[-1] for running in self._running])
            for slot, (running, top) in enumerate(zip(self._running, tops, strict=True)):
                if running is not None:
                    running.next_token = top
                    self._take(slot, running, finished)
        return finished

    def _take(self, slot: int, running: _Running, finished: list[TextAnswer]) -> None:
        """Add the next token to an answer, which keeps the slot or is finished."""
        ended = self._accept(running)
        self._running[slot] = running if ended is None else None
        if ended is not None:
            finished.append(ended)

    def _accept(self, running: _Running) -> TextAnswer | None:
        token, prompt = running.next_token, running.prompt
        if self._stepper.ends(token):
            return _answer(running, FinishReason.STOP)
        before = len(running.raw)
        running.tokens.append(token)
        running.raw += self._stepper.piece(token)
        cut = _first_stop(running.raw, prompt.stops, before)
        if cut is not None:
            del running.raw[cut:]
            return _answer(running, FinishReason.STOP)
        if len(running.tokens) >= prompt.max_tokens or len(prompt.tokens) + len(running.tokens) >= self._stepper.n_ctx:
            return _answer(running, FinishReason.LENGTH)
        return None


def _answer(running: _Running, finish: FinishReason) -> TextAnswer:
    return TextAnswer(
        index=running.index,
        tokens=tuple(running.tokens),
        text=running.raw.decode("utf-8", errors="replace"),
        finish=finish,
    )


def _first_stop(raw: bytearray, stops: Sequence[str], new_from: int) -> int | None:
    """Where the first stop text begins that ends within the new bytes."""
    found = []
    for stop in stops:
        wanted = stop.encode("utf-8", errors="replace")
        place = raw.find(wanted, max(0, new_from - len(wanted) + 1)) if wanted else -1
        if place >= 0:
            found.append(place)
    return min(found, default=None)
