"""llama.cpp as a :class:`~suffice.measure.engine.text_seam.TextEngine`: every session lives in a process of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError
from suffice.measure.engine import protocol, text_protocol
from suffice.measure.engine.client import LlamaCppEngine, Timeouts, WorkerClient, WorkerProcess, guarded
from suffice.measure.engine.library import choose_library
from suffice.measure.engine.text_answers import PromptFeed
from suffice.measure.engine.text_block import SharedBlock
from suffice.measure.engine.text_plan import packs
from suffice.measure.engine.text_seam import ChoiceQuestion, LogitsBlock, Prompt, TextAnswer, TextFacts

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from suffice.measure.engine.seam import EngineSettings
    from suffice.measure.engine.text_plan import Limits, Part

_WAITING_PER_SLOT: Final = 2  # prompts that the worker holds, so that a free slot finds one


class LlamaCppTextClient(WorkerClient):
    """A text session in a worker; implements the seam's TextSession."""

    def __init__(self, worker: WorkerProcess, opened: dict[str, Any], timeout_s: float) -> None:
        super().__init__(worker, timeout_s)
        self._block: SharedBlock | None = None
        self._take(opened)

    @property
    def facts(self) -> TextFacts:
        """What was known once the model was open."""
        return self._facts

    def resize(self, n_ctx: int, slots: int) -> None:
        """Have slots of another size, or another number of them; see the seam."""
        self._take(self._ask("resize", n_ctx=n_ctx, slots=slots))

    def _take(self, told: dict[str, Any]) -> None:
        self._facts = text_protocol.facts_from_json(told["facts"])
        self._limits: Limits = text_protocol.limits_from_json(told["limits"])
        self._rows_per_block: int = told["rows_per_block"]

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> tuple[int, ...]:
        """The tokens of a text; see the seam."""
        return tuple(self._ask("tokenize", text=text, add_special=add_special, parse_special=parse_special))

    def text_of(self, tokens: Sequence[int], *, special: bool = False) -> str:
        """The text of tokens; see the seam."""
        return str(self._ask("text_of", tokens=list(tokens), special=special))

    def answers(self, prompts: Iterable[Prompt]) -> Iterator[TextAnswer]:
        """Greedy answers, each as soon as it is finished."""
        self._ask("answers_begin")
        feed = PromptFeed(prompts, self._facts.n_ctx)
        held = 0
        while True:
            more = feed.take(self._facts.slots * (1 + _WAITING_PER_SLOT) - held)
            held += len(more)
            if held == 0:
                break
            finished = self._ask("answers_advance", prompts=[text_protocol.prompt_to_json(*one) for one in more])
            held -= len(finished)
            yield from map(text_protocol.answer_from_json, finished)
        if feed.refused is not None:
            raise feed.refused

    def choice_logprobs(self, questions: Iterable[ChoiceQuestion]) -> Iterator[tuple[tuple[float, ...], ...]]:
        """For each question, for each choice, the log-probability of each of its tokens."""
        collected: list[tuple[float, ...]] = []
        for pack in packs(questions, self._limits):
            for part, logprobs in zip(pack, self._weigh(pack), strict=True):
                collected.extend(tuple(values) for values in logprobs)
                if part.ends_question:
                    yield tuple(collected)
                    collected = []

    def _weigh(self, pack: list[Part]) -> list[list[list[float]]]:
        found: list[list[list[float]]] = self._ask(
            "choice_logprobs", pack=[text_protocol.part_to_json(p) for p in pack]
        )
        return found

    def logits(self, tokens: Sequence[int], *, first_position: int = 0) -> Iterator[LogitsBlock]:
        """Logits after every token from ``first_position`` on, in blocks that are read from memory shared with the worker."""
        if not 0 <= first_position < len(tokens) <= self._facts.n_ctx:
            raise EngineError(
                f"logits of {len(tokens)} tokens from position {first_position} on are not possible in a context of {self._facts.n_ctx}"
            )
        return self._logits(tokens, first_position)

    def _logits(self, tokens: Sequence[int], first_position: int) -> Iterator[LogitsBlock]:
        block = self._shared_block()
        self._ask("logits_begin")
        size = self._limits.batch
        for start in range(0, first_position, size):
            self._ask("logits_next", tokens=list(tokens[start : min(start + size, first_position)]), wanted=False)
        for start in range(first_position, len(tokens), self._rows_per_block):
            chunk = list(tokens[start : start + self._rows_per_block])
            self._ask("logits_next", tokens=chunk, wanted=True)
            yield LogitsBlock(first_position=start, rows=block.rows[: len(chunk)])

    def _shared_block(self) -> SharedBlock:
        if self._block is None or len(self._block.rows) != self._rows_per_block:
            block = SharedBlock(self._rows_per_block, self._facts.vocabulary.n_tokens)
            try:
                self._ask("logits_map", path=str(block.path), n_bytes=block.n_bytes)
            finally:
                block.unlink()
            self._block = block
        return self._block

    def close(self) -> None:
        """End the worker."""
        self._block = None
        super().close()


class LlamaCppTextEngine(LlamaCppEngine):
    """llama.cpp through one of its shared libraries; implements the seam's TextEngine (and the other seam's Engine)."""

    def open_text(self, model: Path, settings: EngineSettings) -> LlamaCppTextClient:
        """Load a model in a new worker; see the seam."""
        worker = self._start(settings.cpus)
        arguments = {"model": str(model.expanduser().absolute()), "settings": protocol.settings_to_json(settings)}
        try:
            opened = guarded(worker, "text_open", arguments, self.timeouts.open_s)
        except EngineError:
            worker.close(kill=True)
            raise
        return LlamaCppTextClient(worker, opened, self.timeouts.request_s)


def find_text_engine(
    library: Path | None = None, prefer: str | None = None, *, timeouts: Timeouts | None = None
) -> LlamaCppTextEngine:
    """The engine to ask; nothing is loaded yet. See :func:`~suffice.measure.engine.library.choose_library` for the choice.

    Raises:
        EngineMissingError: none is installed; the message holds the commands that install one.
    """
    return LlamaCppTextEngine(choose_library(library, prefer), timeouts)
