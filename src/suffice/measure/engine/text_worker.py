"""The operations of a text session inside the worker's process; :class:`~suffice.measure.engine.worker.Worker` has them in its table."""

from __future__ import annotations

import ctypes
import dataclasses
import mmap
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError
from suffice.measure.engine import protocol, text_protocol
from suffice.measure.engine.text_answers import AnswerSlots
from suffice.measure.engine.text_llama_cpp import LlamaCppText

if TYPE_CHECKING:
    from collections.abc import Callable

    from suffice.measure.engine.binding import Binding
    from suffice.measure.engine.text_seam import TextAnswer

_SLICE_S: Final = 1.0  # after which a request for answers returns, be one finished or not


class TextOperations:
    """At most one text session."""

    def __init__(self, loaded: Callable[[], Binding]) -> None:
        self._loaded = loaded
        self._session: LlamaCppText | None = None
        self._slots: AnswerSlots | None = None
        self._block: mmap.mmap | None = None

    def table(self) -> dict[str, Callable[[dict[str, Any]], object]]:
        """The operations by name."""
        return {
            "text_open": self._open,
            "resize": self._resize,
            "tokenize": lambda args: self._opened().tokenize(**args),
            "text_of": lambda args: self._opened().text_of(**args),
            "answers_begin": lambda _: self._answers_begin(),
            "answers_advance": lambda args: [dataclasses.asdict(answer) for answer in self._answers_advance(**args)],
            "choice_logprobs": self._choice_logprobs,
            "logits_map": lambda args: self._logits_map(**args),
            "logits_begin": lambda _: self._opened().logits_begin(),
            "logits_next": lambda args: self._logits_next(**args),
        }

    def _open(self, arguments: dict[str, Any]) -> object:
        if self._session is not None:
            raise EngineError("the engine's worker opens one model only")
        settings = protocol.settings_from_json(arguments["settings"])
        self._session = LlamaCppText(self._loaded(), Path(arguments["model"]), settings)
        return self._told()

    def _resize(self, arguments: dict[str, Any]) -> object:
        self._slots = None
        self._opened().resize(**arguments)
        return self._told()

    def _told(self) -> object:
        """What the client has to know of the session as it is now."""
        session = self._opened()
        return {
            "facts": dataclasses.asdict(session.text_facts),
            "limits": dataclasses.asdict(session.limits()),
            "rows_per_block": session.rows_per_block,
        }

    def _answers_begin(self) -> None:
        self._slots = AnswerSlots(self._opened())

    def _answers_advance(self, prompts: list[list[Any]]) -> list[TextAnswer]:
        """Take further prompts, and go on until an answer is finished, nothing is left to do, or a second has passed."""
        if self._slots is None:
            raise EngineError("answers were not begun in the engine's worker")
        for values in prompts:
            self._slots.add(*text_protocol.prompt_from_json(values))
        end_s = time.monotonic() + _SLICE_S
        finished: list[TextAnswer] = []
        while not finished and not self._slots.is_idle and time.monotonic() < end_s:
            finished = self._slots.advance()
        return finished

    def _choice_logprobs(self, arguments: dict[str, Any]) -> object:
        pack = [text_protocol.part_from_json(values) for values in arguments["pack"]]
        return self._opened().choice_logprobs(pack)

    def _logits_map(self, path: str, n_bytes: int) -> None:
        try:
            with Path(path).open("r+b") as file:
                self._block = mmap.mmap(file.fileno(), n_bytes)
        except (OSError, ValueError) as error:
            raise EngineError(f"the engine's process cannot share memory for logits: {error}") from error

    def _logits_next(self, tokens: list[int], *, wanted: bool) -> None:
        """Evaluate tokens; where they are wanted, their logits stand at the start of the shared memory afterwards."""
        session = self._opened()
        target = None
        if wanted:
            if self._block is None:
                raise EngineError("no memory for logits was shared with the engine's worker")
            target = ctypes.addressof(ctypes.c_char.from_buffer(self._block))
        session.logits_of(tokens, target)

    def _opened(self) -> LlamaCppText:
        if self._session is None:
            raise EngineError("no model is open in the engine's worker")
        return self._session
