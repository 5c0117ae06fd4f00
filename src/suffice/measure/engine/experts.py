"""Counts the experts that a step of a mixture of experts really chooses. Runs inside the worker, beside the session.

llama.cpp calls back for each node of its graph, if asked when the context is made. The node ``ffn_moe_topk-<layer>`` holds, for
each token, the numbers of the experts that it goes to: a view of the first columns of a sorted table, so its rows have gaps. Its
sizes and strides are read from the struct itself, and count only if ggml's own functions compute the same from it.
"""

from __future__ import annotations

import ctypes
import math
import re
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError
from suffice.measure.engine.seam import ExpertUse

if TYPE_CHECKING:
    from suffice.measure.engine.binding import Binding

EVAL_CALLBACK: Final = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_bool, ctypes.c_void_p)
_NODE: Final = re.compile(rb"ffn_moe_topk-(?P<layer>\d+)$")
_NEEDED: Final = ("ggml_get_name", "ggml_nelements", "ggml_nbytes", "ggml_backend_tensor_get")
# struct ggml_tensor: type and padding, buffer, ne[4], nb[4]; the same since 2024.
_HEAD: Final = struct.Struct("=i4xQ4q4Q")
_INT32: Final = 26  # ggml_type
_INT32_BYTES: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class TensorHead:
    """The first fields of a ``ggml_tensor`` of 32-bit integers."""

    n_used: int  # numbers in a row
    n_tokens: int  # rows
    row_stride: int  # bytes from one row to the next
    n_bytes: int  # from the first number to the end of the last

    @classmethod
    def parse(cls, raw: bytes, *, n_elements: int, n_bytes: int) -> TensorHead | None:
        """The fields, if they agree with what ggml says of the tensor; None if the struct has another layout or type."""
        kind, _buffer, *sizes = _HEAD.unpack(raw[: _HEAD.size])
        counts, strides = sizes[:4], sizes[4:]
        spanned = _INT32_BYTES + sum((count - 1) * stride for count, stride in zip(counts, strides, strict=True))
        is_matrix = counts[2] == counts[3] == 1 and min(counts) > 0 and strides[0] == _INT32_BYTES
        if kind != _INT32 or not is_matrix or math.prod(counts) != n_elements or spanned != n_bytes:
            return None
        return cls(n_used=counts[0], n_tokens=counts[1], row_stride=strides[1], n_bytes=n_bytes)

    def distinct(self, raw: bytes, n_expert: int) -> int:
        """Number of different experts in the tensor's bytes.

        Raises:
            EngineError: a number is that of no expert, so these are no expert numbers.
        """
        starts = range(0, self.n_tokens * self.row_stride, self.row_stride)
        chosen = {expert for start in starts for expert in struct.unpack_from(f"={self.n_used}i", raw, start)}
        if min(chosen) < 0 or max(chosen) >= n_expert:
            raise EngineError(f"the engine chose expert {max(chosen)} of {n_expert}; its expert numbers cannot be read")
        return len(chosen)


class ExpertWatch:
    """Listens to one context. ``callback`` goes into its parameters, and must live as long as the context."""

    def __init__(self, binding: Binding) -> None:
        missing = [name for name in _NEEDED if not binding.has(name)]
        if missing:
            raise EngineError(f"{binding.choice.library} has no {missing[0]}, so experts cannot be counted with it")
        self._binding = binding
        self._name_of = binding.function("ggml_get_name")
        self._step: dict[int, tuple[TensorHead, bytes]] | None = None  # of the layers of the step that is running
        self._problem: str | None = None
        self._uses: dict[int, list[tuple[TensorHead, bytes]]] = {}
        self.callback = EVAL_CALLBACK(self._on_node)

    def begin(self) -> None:
        """Forget earlier steps and listen to those that follow."""
        self._uses, self._problem, self._step = {}, None, {}

    def end_step(self) -> None:
        """Keep what the step chose and listen to the next."""
        for layer, found in (self._step or {}).items():
            self._uses.setdefault(layer, []).append(found)
        self._step = {}

    def end(self, n_expert: int, batch: int) -> tuple[ExpertUse, ...]:
        """What was chosen since :meth:`begin`, by layer; listens no more.

        Raises:
            EngineError: the engine computed no expert numbers, or they could not be read for certain.
        """
        self._step = None
        if self._problem is not None:
            raise EngineError(self._problem)
        if not self._uses:
            raise EngineError("the model has experts, but the engine computed no ffn_moe_topk; they cannot be counted")
        return tuple(self._use(layer, n_expert, batch) for layer in sorted(self._uses))

    def stop(self) -> None:
        """Listen no more, after a failed step."""
        self._step = None

    def _use(self, layer: int, n_expert: int, batch: int) -> ExpertUse:
        found = self._uses[layer]
        if any(head.n_tokens != batch for head, _ in found):
            raise EngineError(f"layer {layer} chose experts for another number of tokens than the {batch} of a step")
        distinct = tuple(head.distinct(raw, n_expert) for head, raw in found)
        return ExpertUse(layer=layer, distinct_per_step=distinct, n_used=found[0][0].n_used, n_expert=n_expert)

    def _on_node(self, tensor: int, is_question: bool, _user_data: int | None) -> bool:  # noqa: FBT001 - C's way
        """Called twice for a node that we want (before and after it is computed), once for all others. Must not raise."""
        if self._step is None:
            return not is_question
        match = _NODE.match(self._name_of(tensor) or b"")
        if match is None:
            return not is_question
        if not is_question:
            self._take(tensor, int(match["layer"]), self._step)
        return True

    def _take(self, tensor: int, layer: int, step: dict[int, tuple[TensorHead, bytes]]) -> None:
        n_bytes: int = self._binding.call("ggml_nbytes", tensor)
        head = TensorHead.parse(
            ctypes.string_at(tensor, _HEAD.size),
            n_elements=self._binding.call("ggml_nelements", tensor),
            n_bytes=n_bytes,
        )
        if head is None:
            self._problem = f"ffn_moe_topk of layer {layer} is not laid out as suffice knows; experts cannot be counted"
        elif layer in step:
            self._problem = f"layer {layer} chooses experts more than once in a step; they cannot be counted"
        else:
            raw = ctypes.create_string_buffer(n_bytes)
            self._binding.call("ggml_backend_tensor_get", tensor, raw, 0, n_bytes)
            step[layer] = (head, raw.raw)
