"""What a model says, with llama.cpp in this very process. Runs inside the worker only; see :mod:`suffice.measure.engine.text_worker`.

There is one context at a time. Answers use one whose slots have caches of their own, so that what stands in one does not move the rounding
of another; choices and logits use one with a single cache, in which the sequences of a question share the cells of its prompt.
NumPy is loaded with the first logits, so that other workers start without it.
"""

from __future__ import annotations

import ctypes
import hashlib
import math
from dataclasses import replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import EngineError
from suffice.measure.engine.layouts import Batch
from suffice.measure.engine.llama_cpp import LlamaCppSession
from suffice.measure.engine.text_plan import Limits, Part, Row, chunks, rows_of
from suffice.measure.engine.text_seam import TextFacts, VocabularyFacts
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    import numpy as np
    from numpy.typing import NDArray

    from suffice.measure.engine.binding import Binding
    from suffice.measure.engine.seam import EngineSettings

_NEEDED: Final = (
    *("llama_vocab_type", "llama_vocab_get_text", "llama_vocab_eos", "llama_vocab_is_eog", "llama_token_to_piece"),
    "llama_get_logits_ith",
)
_NO_VOCABULARY: Final = 0  # llama_vocab_type
_MOST_SEQUENCES: Final = 64  # of a context; llama.cpp has LLAMA_MAX_SEQ of them, 64 in old releases
_CELL_PAD: Final = 256  # llama.cpp rounds contexts up to this
_LOGITS_BYTES: Final = 64 * MIB  # of one evaluation
_MOST_ROWS: Final = 256
_FLOAT_BYTES: Final = 4
_PIECE_BYTES: Final = 64  # most tokens are shorter; a longer one says how long it is


class _Purpose(StrEnum):
    """What the context is made for."""

    ANSWERS = "answers"  # a cache for each slot
    SHARED = "shared"  # one cache, whose cells may belong to several sequences


class LlamaCppText(LlamaCppSession):
    """An open model that is asked what it says. A :class:`~suffice.measure.engine.text_answers.Stepper`, too. Not thread-safe."""

    def __init__(self, binding: Binding, model: Path, settings: EngineSettings) -> None:
        missing = [name for name in _NEEDED if not binding.has(name)]
        if missing:
            raise EngineError(f"{binding.choice.library} has no {missing[0]}, so a model cannot be asked with it")
        _check_slots(settings)
        self._purpose: _Purpose | None = _Purpose.ANSWERS
        self._path = model
        self._pieces: dict[int, bytes] = {}
        super().__init__(binding, model, settings)
        if binding.call("llama_vocab_type", self._vocabulary) == _NO_VOCABULARY:
            self.close()
            raise EngineError(f"{model.name} has no tokenizer; texts cannot be asked of it")
        self._shares = not any(
            binding.has(name) and binding.call(name, self._model)
            for name in ("llama_model_is_recurrent", "llama_model_is_hybrid")
        )
        self.n_ctx = self._n_ctx()
        self.slots = settings.n_sequences
        self.text_facts = TextFacts(
            session=self.facts,
            vocabulary=self._vocabulary_facts(),
            n_ctx=self.n_ctx,
            slots=self.slots,
            shares_prefixes=self._shares,
        )

    def resize(self, n_ctx: int, slots: int) -> None:
        """Have slots of another size, or another number of them; see the seam."""
        wanted = replace(self._settings, n_ctx=n_ctx, n_sequences=slots)
        if min(n_ctx, slots) < 1:
            raise EngineError(f"there is no session of {slots} slots with room for {n_ctx} tokens each")
        _check_slots(wanted)
        self._settings = wanted
        self._drop_context()
        self._use(_Purpose.ANSWERS)
        self.n_ctx, self.slots = self._n_ctx(), slots
        resolved = replace(
            self.facts.resolved,
            n_ctx=self.n_ctx,
            n_sequences=slots,
            kv_cache_bytes=None,  # the log that they come from holds those of all contexts
            compute_buffer_bytes=None,
        )
        self.facts = replace(self.facts, resolved=resolved)
        self.text_facts = replace(self.text_facts, session=self.facts, n_ctx=self.n_ctx, slots=slots)

    @property
    def rows_per_block(self) -> int:
        """Rows of logits that one evaluation makes at most: those that 64 MiB hold, and at most 256."""
        rows: int = min(_MOST_ROWS, self._n_batch, _LOGITS_BYTES // (_FLOAT_BYTES * self._n_vocab))
        return max(1, rows)

    def limits(self) -> Limits:
        """What fits into one pack of questions."""
        return Limits(
            context=self.n_ctx,
            batch=self._settings.n_batch,
            cells=self._cells(),
            sequences=self._sequences(),
            shares=self._shares,
        )

    def tokenize(self, text: str, *, add_special: bool, parse_special: bool) -> list[int]:
        """The tokens of a text; see the seam."""
        raw = text.encode("utf-8", errors="replace")
        capacity = (
            len(raw) + 8
        )  # a token is at least one byte; some vocabularies add a space, and tokens around the text
        tokens = (ctypes.c_int32 * capacity)()
        count = self._binding.call(
            "llama_tokenize", self._vocabulary, raw, len(raw), tokens, capacity, add_special, parse_special
        )
        if count < 0:
            raise EngineError(f"the model's tokenizer refused a text of {len(raw)} bytes")
        return list(tokens[:count])

    def text_of(self, tokens: Sequence[int], *, special: bool) -> str:
        """The text of tokens; see the seam."""
        self._check_tokens(tokens)
        return b"".join(self._piece(token, special=special) for token in tokens).decode("utf-8", errors="replace")

    def piece(self, token: int) -> bytes:
        """The bytes that a token adds to an answer; none for a control token."""
        if token not in self._pieces:
            self._pieces[token] = self._piece(token, special=False)
        return self._pieces[token]

    def ends(self, token: int) -> bool:
        """Whether the token ends an answer."""
        return bool(self._binding.call("llama_vocab_is_eog", self._vocabulary, token))

    def begin(self, slot: int, tokens: Sequence[int]) -> int:
        """Read a prompt into a slot in place of what was there; the most likely next token."""
        self._check_tokens(tokens)
        self._use(_Purpose.ANSWERS)
        self._forget(slot)
        last = len(tokens) - 1
        rows = [
            Row(token=token, position=place, sequences=(slot,), asked=((0, 0, 0),) if place == last else ())
            for place, token in enumerate(tokens)
        ]
        with self._threads_awake():
            for chunk in chunks(rows, self._n_batch, self._n_batch):
                self._evaluate(_batch_of_rows(chunk))
        self._depths[slot] = len(tokens)
        return self._top((last % self._n_batch), slot)

    def step(self, tokens: Sequence[int | None]) -> list[int]:
        """Add a token to each slot; the most likely next ones. An idle slot evaluates a token too, so that every step is alike."""
        rows = [
            Row(
                token=0 if token is None else token,
                position=0 if token is None else self._depths[slot],
                sequences=(slot,),
                asked=((slot, 0, 0),),
            )
            for slot, token in enumerate(tokens)
        ]
        for slot, token in enumerate(tokens):
            if token is None:
                self._forget(slot)
        with self._threads_awake():
            self._evaluate(_batch_of_rows(rows))
        for slot in range(len(rows)):
            self._depths[slot] += 1
        return [0 if token is None else self._top(slot, slot) for slot, token in enumerate(tokens)]

    def choice_logprobs(self, pack: list[Part]) -> list[list[list[float]]]:
        """For each part, for each of its choices, the log-probability of each of its tokens."""
        for part in pack:
            self._check_tokens(part.prefix)
            for choice in part.choices:
                self._check_tokens(choice)
        self._use(_Purpose.SHARED)
        self._clear()
        found: list[list[list[float]]] = [[[] for _ in part.choices] for part in pack]
        outputs = self.rows_per_block
        with self._threads_awake():
            for chunk in chunks(rows_of(pack), self._n_batch, outputs):
                self._evaluate(_batch_of_rows(chunk))
                self._depths[0] += len(chunk)
                for place, row in enumerate(chunk):
                    if row.asked:
                        self._note_logprobs(place, row, found)
        return found

    def logits_begin(self) -> None:
        """Forget all texts, before the first :meth:`logits_of`."""
        self._use(_Purpose.SHARED)
        self._clear()

    def logits_of(self, tokens: Sequence[int], target: int | None) -> None:
        """Add one evaluation of tokens to the text; their logits, a row each, go to the address ``target``, or are not made."""
        self._check_tokens(tokens)
        depth = self._depths[0]
        asked = ((0, 0, 0),) if target is not None else ()
        rows = [
            Row(token=token, position=depth + place, sequences=(0,), asked=asked) for place, token in enumerate(tokens)
        ]
        with self._threads_awake():
            self._evaluate(_batch_of_rows(rows))
        self._depths[0] += len(tokens)
        row_bytes = self._n_vocab * _FLOAT_BYTES
        for place in range(len(tokens) if target is not None else 0):
            ctypes.memmove((target or 0) + place * row_bytes, self._row_address(place), row_bytes)

    def _context_params(self) -> Any:  # noqa: ANN401 - a struct whose fields depend on the library
        params = super()._context_params()
        outputs = self._settings.n_sequences
        if self._purpose is _Purpose.SHARED:
            params.n_ctx, params.n_seq_max, params.kv_unified = self._cells(), self._sequences(), True
            outputs = max(self.rows_per_block, params.n_seq_max)
        if "n_outputs_max" in self._binding.context_layout.names():
            params.n_outputs_max = outputs  # or the engine keeps room for the logits of a whole batch
        return params

    def _use(self, purpose: _Purpose) -> None:
        """Have a context that is made for the purpose."""
        if self._purpose is purpose:
            return
        self._drop_context()
        self._purpose = purpose
        try:
            self._context = self._new_context(self._path)
        except EngineError:
            self._purpose = None
            raise
        sequences = self._sequences() if purpose is _Purpose.SHARED else self._settings.n_sequences
        if self._getter("llama_n_seq_max") != sequences:
            raise EngineError(f"{self._binding.choice.library} did not take the setting n_seq_max")
        self._n_batch = self._getter("llama_n_batch")
        self._depths = [0] * self._settings.n_sequences
        self.set_threads(self._settings.n_threads, self._settings.n_threads_batch)

    def _drop_context(self) -> None:
        if self._context:
            self._binding.call("llama_free", self._context)
        self._context = self._purpose = None

    def _cells(self) -> int:
        """Cells of the shared cache: room for the longest text, and for a batch of short ones."""
        wanted = self.n_ctx + self._settings.n_batch
        return -(-wanted // _CELL_PAD) * _CELL_PAD

    def _sequences(self) -> int:
        return _MOST_SEQUENCES if self._shares else self._settings.n_sequences

    def _clear(self) -> None:
        self._binding.call("llama_memory_clear", self._memory(), False)
        self._depths = [0] * len(self._depths)

    def _forget(self, slot: int) -> None:
        if self._depths[slot]:
            self._binding.call("llama_memory_seq_rm", self._memory(), slot, -1, -1)
            self._depths[slot] = 0

    def _row_address(self, place: int) -> int:
        address: int | None = self._binding.call("llama_get_logits_ith", self._context, place)
        if not address:
            raise EngineError(f"the engine made no logits for token {place} of a batch; {self._last_words()}")
        return address

    def _row(self, place: int) -> NDArray[np.float32]:
        """Logits of a token of the last evaluation, where the engine keeps them."""
        import numpy as np  # noqa: PLC0415 - only workers that look at logits need it

        return np.ctypeslib.as_array((ctypes.c_float * self._n_vocab).from_address(self._row_address(place)))

    def _top(self, place: int, slot: int) -> int:
        row = self._row(place)
        top = int(row.argmax())
        if math.isnan(row[top]):  # argmax finds them first
            raise EngineError(f"the model's logits are no numbers (slot {slot}); its weights are damaged")
        return top

    def _note_logprobs(self, place: int, row: Row, found: list[list[list[float]]]) -> None:
        import numpy as np  # noqa: PLC0415 - see _row

        logits = self._row(place).astype(np.float64)
        logits -= logits.max()
        normalizer = float(np.log(np.exp(logits).sum()))
        if math.isnan(normalizer):
            raise EngineError("the model's logits are no numbers; its weights are damaged")
        for part, choice, token in row.asked:
            found[part][choice].append(float(logits[token]) - normalizer)

    def _check_tokens(self, tokens: Sequence[int]) -> None:
        """llama.cpp would refuse the batch with a number only."""
        if not all(0 <= token < self._n_vocab for token in tokens):
            raise EngineError(
                f"a token is none of the {self._n_vocab} of {self._path.name}; was another model's tokenizer used?"
            )

    def _piece(self, token: int, *, special: bool) -> bytes:
        size = _PIECE_BYTES
        for _ in range(2):
            buffer = ctypes.create_string_buffer(size)
            count: int = self._binding.call("llama_token_to_piece", self._vocabulary, token, buffer, size, 0, special)
            if count >= 0:
                return buffer.raw[:count]
            size = -count
        raise EngineError(f"the engine cannot tell the text of token {token}")

    def _vocabulary_facts(self) -> VocabularyFacts:
        text_of, ends = self._binding.function("llama_vocab_get_text"), self._binding.function("llama_vocab_is_eog")
        digest = hashlib.sha256()
        for token in range(self._n_vocab):
            text = text_of(self._vocabulary, token) or b""
            digest.update(len(text).to_bytes(4, "little") + text)
        bos, eos = (self._special(f"llama_vocab_{name}") for name in ("bos", "eos"))
        return VocabularyFacts(
            n_tokens=self._n_vocab,
            sha256=digest.hexdigest(),
            adds_bos=self._adds_bos(),
            bos=bos,
            eos=eos,
            end_tokens=tuple(token for token in range(self._n_vocab) if ends(self._vocabulary, token)),
            bos_text="" if bos is None else self.text_of([bos], special=True),
            eos_text="" if eos is None else self.text_of([eos], special=True),
        )

    def _special(self, name: str) -> int | None:
        token: int = self._binding.call(name, self._vocabulary)
        return token if 0 <= token < self._n_vocab else None


def _check_slots(settings: EngineSettings) -> None:
    if settings.n_sequences > min(settings.n_batch, settings.n_ubatch):
        raise EngineError(f"{settings.n_sequences} slots do not fit into one evaluation; set n_ubatch higher")


class _KeptBatch(Batch):
    """A batch that holds on to the arrays that it points to."""

    kept: tuple[object, ...] = ()


def _batch_of_rows(rows: Sequence[Row]) -> Batch:
    """Tokens with their positions and sequences; logits of those of which something is asked."""
    count = len(rows)
    integer = ctypes.POINTER(ctypes.c_int32)
    owners = {row.sequences: (ctypes.c_int32 * len(row.sequences))(*row.sequences) for row in rows}
    pointers = {sequences: ctypes.cast(numbers, integer) for sequences, numbers in owners.items()}
    positions = (ctypes.c_int32 * count)(*(row.position for row in rows))
    batch = _KeptBatch(
        n_tokens=count,
        token=(ctypes.c_int32 * count)(*(row.token for row in rows)),
        pos=ctypes.cast(positions, ctypes.c_void_p),
        n_seq_id=(ctypes.c_int32 * count)(*(len(row.sequences) for row in rows)),
        seq_id=(integer * count)(*(pointers[row.sequences] for row in rows)),
        logits=(ctypes.c_int8 * count)(*(bool(row.asked) for row in rows)),
    )
    batch.kept = (positions, owners, pointers)
    return batch
