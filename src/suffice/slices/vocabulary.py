"""A vocabulary for a model without one: any text becomes tokens, any token becomes text, and servers load it.

It is a SentencePiece vocabulary ("llama" to llama.cpp): three special tokens, the 256 bytes to which any text falls back, the printable
characters of ASCII, and fillers up to the size that the model's embedding has. llama.cpp takes it under any architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.slices.gguf_write import Typed, ValueKind

if TYPE_CHECKING:
    from collections.abc import Mapping

_SPECIAL: Final = ("<unk>", "<s>", "</s>")
_N_BYTES: Final = 256
_SPACE: Final = "\u2581"  # SentencePiece writes a space so
SMALLEST_VOCABULARY: Final = len(_SPECIAL) + _N_BYTES

# Kinds of tokens, llama_token_type in llama.h.
_NORMAL, _UNKNOWN, _CONTROL, _BYTE = 1, 2, 3, 6


def synthetic_vocabulary(n_vocab: int, architecture: str) -> Mapping[str, object]:
    """Metadata of a vocabulary with ``n_vocab`` tokens.

    Below 259 tokens there is no room for all bytes: such a model has no tokenizer at all and takes token ids only.

    Raises:
        ModelFileError: not even one token.
    """
    if n_vocab < 1:
        raise ModelFileError(f"a vocabulary of {n_vocab} tokens cannot be; the model's embedding has no rows")
    if n_vocab < SMALLEST_VOCABULARY:
        return {"tokenizer.ggml.model": "no_vocab", f"{architecture}.vocab_size": n_vocab}
    pieces = [_SPACE, *(chr(code) for code in range(ord("!"), ord("~") + 1))][: n_vocab - SMALLEST_VOCABULARY]
    n_fillers = n_vocab - SMALLEST_VOCABULARY - len(pieces)
    tokens = [*_SPECIAL, *(f"<0x{byte:02X}>" for byte in range(_N_BYTES)), *pieces]
    tokens += [f"{_SPACE}w{number}" for number in range(n_fillers)]
    types = [_UNKNOWN, _CONTROL, _CONTROL, *([_BYTE] * _N_BYTES), *([_NORMAL] * (len(pieces) + n_fillers))]
    return {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": Typed(ValueKind.FLOAT32, [-float(number) for number in range(n_vocab)]),
        "tokenizer.ggml.token_type": Typed(ValueKind.INT32, types),
        "tokenizer.ggml.unknown_token_id": 0,
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.ggml.eos_token_id": 2,
        "tokenizer.ggml.add_bos_token": True,
        "tokenizer.ggml.add_eos_token": False,
    }
