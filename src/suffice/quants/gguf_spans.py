"""Where things stand in a GGUF file: the bytes of each metadata value, and where the weights begin.

What the header reader steps over (vocabularies) can be compared by these bytes, and what it does not load (weights) can be found.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, BinaryIO, Final

from suffice.errors import ModelFileError
from suffice.loaders.gguf_bytes import open_model_file
from suffice.loaders.gguf_values import HeaderReader, ReadBudget

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader

_PREAMBLE_BYTES: Final = 8  # magic and version; a reader of the header has checked both
_DIM_BYTES: Final = 8
_TYPE_AND_OFFSET_BYTES: Final = 4 + 8
_TOKENIZER: Final = "tokenizer."


@dataclass(frozen=True, slots=True, kw_only=True)
class KeySpan:
    """A metadata key; its value, with the number of its type in front, is the bytes from ``start`` to ``end``."""

    key: str
    start: int
    end: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSpans:
    """One file: its keys in order, where the list of tensors begins, and where the weights do."""

    keys: tuple[KeySpan, ...]
    tensors_start: int
    data_start: int


def file_spans(path: Path, header: GgufHeader) -> FileSpans:
    """The spans of the file, whose header was read before.

    Raises:
        ModelFileError: the file cannot be read, or is damaged.
    """
    with open_model_file(path) as source:
        source.skip(_PREAMBLE_BYTES, "the preamble")
        reader = HeaderReader(source, ReadBudget(), big_endian=header.big_endian)
        n_tensors, n_keys = (reader.unsigned("Q", f"the number of {what}") for what in ("tensors", "keys"))
        keys = []
        for _ in range(n_keys):
            key = reader.name("a metadata key")
            start = source.position
            reader.value(reader.unsigned("I", key), key)
            keys.append(KeySpan(key=key, start=start, end=source.position))
        tensors_start = source.position
        for _ in range(n_tensors):
            name = reader.name("the name of a tensor")
            source.skip(reader.unsigned("I", name) * _DIM_BYTES + _TYPE_AND_OFFSET_BYTES, name)
        data_start = -(-source.position // header.alignment) * header.alignment
    return FileSpans(keys=tuple(keys), tensors_start=tensors_start, data_start=data_start)


def tokenizer_hashes(path: Path, header: GgufHeader) -> Mapping[str, str]:
    """SHA-256 of the value of each key that the tokenizer and the chat template are made of.

    Raises:
        ModelFileError: the file cannot be read, or is damaged.
    """
    spans = [span for span in file_spans(path, header).keys if span.key.startswith(_TOKENIZER)]
    try:
        with path.open("rb") as file:
            return {span.key: hashlib.sha256(_bytes_of(file, span)).hexdigest() for span in spans}
    except OSError as error:
        raise ModelFileError(f"{path}: reading failed ({error.strerror}); check the disk") from error


def _bytes_of(file: BinaryIO, span: KeySpan) -> bytes:
    file.seek(span.start)
    return file.read(span.end - span.start)
