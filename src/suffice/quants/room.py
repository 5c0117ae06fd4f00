"""How long the context of a model has to be for all items, and how many of them fit into memory at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError
from suffice.quants.tokens import Unaskable, needed_tokens
from suffice.units import MIB, format_memory

if TYPE_CHECKING:
    from collections.abc import Iterable

    from suffice.measure.engine.seam import EngineSettings
    from suffice.measure.engine.text_seam import ChoiceQuestion, Prompt
    from suffice.model.shape import ModelShape

_PAD: Final = 256  # tokens; llama.cpp rounds contexts up to this
_RESERVE_BYTES: Final = 256 * MIB  # for what the engine computes in


@dataclass(frozen=True, slots=True, kw_only=True)
class Room:
    """What a session is given. ``limit`` is the longest context that memory has room for, where that is shorter than some item needs."""

    n_ctx: int
    slots: int
    limit: int | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """What a model takes of what can be used, in bytes. ``shape`` None: not known, so that everything is taken to fit."""

    shape: ModelShape | None
    usable_bytes: int

    def check_weights(self, name: str) -> None:
        """Refuse a model that would only be read from disk again and again.

        Raises:
            EngineError: its weights alone need more than there is.
        """
        needed = 0 if self.shape is None else self.shape.file_bytes or self.shape.tensor_bytes
        if needed > self.usable_bytes:
            raise EngineError(
                f"{name} needs {format_memory(needed)} and {format_memory(self.usable_bytes)} can be used; free some memory, "
                "or compare smaller models"
            )

    def fits(self, n_ctx: int, slots: int, settings: EngineSettings) -> bool:
        """Whether the weights and the larger of the two caches fit: one a slot for answers, one of all cells for choices."""
        if self.shape is None:
            return True
        kinds = (settings.type_k, settings.type_v)
        answers = self.shape.kv_cache_bytes(n_ctx, *kinds, sequences=slots) or 0.0
        choices = self.shape.kv_cache_bytes(_padded(n_ctx + settings.n_batch), *kinds) or 0.0
        weights = self.shape.file_bytes or self.shape.tensor_bytes
        return weights + max(answers, choices) + _RESERVE_BYTES <= self.usable_bytes

    def longest(self, wanted: int, settings: EngineSettings) -> int:
        """The longest context up to ``wanted`` of which one fits; the shortest there is where none does."""
        low, high = 1, max(1, wanted // _PAD)
        while low < high:
            middle = (low + high + 1) // 2
            low, high = (middle, high) if self.fits(middle * _PAD, 1, settings) else (low, middle - 1)
        return low * _PAD


def room_for(
    entries: Iterable[Prompt | ChoiceQuestion | Unaskable],
    memory: Memory,
    settings: EngineSettings,
    *,
    slots: int,
    trained: int | None,
) -> Room:
    """Context and slots for all that can be asked: as long as the longest needs, and fewer slots where so many do not fit.

    ``trained`` is the longest text that the model was made for; longer contexts are not opened.
    """
    asked = [entry for entry in entries if not isinstance(entry, Unaskable)]
    wanted = max((needed_tokens(entry)[1] for entry in asked), default=1)
    if trained is not None:
        wanted = min(wanted, trained)
    n_ctx = _padded(wanted)
    if not memory.fits(n_ctx, 1, settings):
        limit = memory.longest(n_ctx, settings)
        if limit < wanted:
            usable = format_memory(memory.usable_bytes)
            note = f"memory ({usable} can be used) has room for a context of {limit} tokens and one slot; longer items are errors"
            return Room(n_ctx=limit, slots=1, limit=limit, notes=(note,))
    fitting = max((n for n in range(1, slots + 1) if memory.fits(n_ctx, n, settings)), default=1)
    notes: tuple[str, ...] = ()
    if fitting < slots:
        usable = format_memory(memory.usable_bytes)
        notes = (f"memory ({usable} can be used) has room for {fitting} of {slots} slots of {n_ctx} tokens",)
    return Room(n_ctx=n_ctx, slots=fitting, notes=notes)


def _padded(tokens: int) -> int:
    return -(-tokens // _PAD) * _PAD
