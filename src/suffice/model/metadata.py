"""Typed access to a model's metadata: a value of the wrong kind becomes one clear sentence, not a crash."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.model.gguf_header import LongArray

if TYPE_CHECKING:
    from collections.abc import Mapping

    from suffice.model.gguf_header import GgufHeader, MetadataValue

_LONGEST_ARCHITECTURE: Final = 64
_MAX_LAYERS: Final = 4096  # llama.cpp stops at 512 (LLAMA_MAX_LAYERS)
_LARGEST: Final = 1 << 40  # no count in a model's metadata comes near; larger ones are damage


@dataclass(frozen=True, slots=True, kw_only=True)
class Metadata:
    """The metadata of one model; keys without a dot in front are those of its architecture: ``block_count``."""

    source: str
    architecture: str
    values: Mapping[str, MetadataValue]

    def has(self, key: str) -> bool:
        """Whether the architecture's key is there at all."""
        return self._full(key) in self.values

    def has_any(self, prefix: str) -> bool:
        """Whether any of the architecture's keys starts with ``prefix``."""
        return any(key.startswith(self._full(prefix)) for key in self.values)

    def count(self, key: str) -> int | None:
        """A whole number from 0 on, or None when the key is absent.

        Raises:
            ModelFileError: something else stands there.
        """
        value = self.values.get(self._full(key))
        return None if value is None else self._checked(key, value)

    def required_count(self, key: str) -> int:
        """A whole number from 0 on.

        Raises:
            ModelFileError: the key is absent or something else stands there.
        """
        value = self.count(key)
        if value is None:
            raise ModelFileError(
                f"{self.source}: metadata key {self._full(key)} is missing; get a complete GGUF file of the model"
            )
        return value

    def per_layer(self, key: str, n_layer: int, default: tuple[int, ...] | None = None) -> tuple[int, ...]:
        """One number for each of ``n_layer`` layers; a single number in the file holds for all.

        Raises:
            ModelFileError: the key is absent and has no default, is too short, or holds something else.
        """
        value = self.values.get(self._full(key))
        if value is None and default is not None:
            return default
        if isinstance(value, tuple):
            if len(value) < n_layer:
                raise ModelFileError(
                    f"{self.source}: metadata key {self._full(key)} has {len(value)} entries for {n_layer} layers; the file is damaged"
                )
            return tuple(self._checked(key, item) for item in value[:n_layer])
        return (self.required_count(key),) * n_layer

    def flags(self, key: str, n_layer: int) -> tuple[bool, ...] | None:
        """One yes or no for each layer, or None when the key is absent or is not an array."""
        value = self.values.get(self._full(key))
        if not isinstance(value, tuple):
            return None
        if len(value) < n_layer or not all(isinstance(item, int) for item in value):
            raise ModelFileError(
                f"{self.source}: metadata key {self._full(key)} does not hold a yes or no for each of {n_layer} layers; "
                "the file is damaged"
            )
        return tuple(bool(item) for item in value[:n_layer])

    def _full(self, key: str) -> str:
        return f"{self.architecture}.{key}"

    def _checked(self, key: str, value: MetadataValue) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _LARGEST:
            raise ModelFileError(
                f"{self.source}: metadata key {self._full(key)} is not a sensible count; the file is damaged"
            )
        return int(value)


def metadata_of(header: GgufHeader) -> Metadata:
    """The metadata of a header.

    Raises:
        ModelFileError: the file does not name its architecture.
    """
    architecture = header.metadata.get("general.architecture")
    if not isinstance(architecture, str) or not 0 < len(architecture) <= _LONGEST_ARCHITECTURE:
        raise ModelFileError(f"{header.source}: general.architecture is missing; get a complete GGUF file of the model")
    return Metadata(source=header.source, architecture=architecture, values=header.metadata)


def plain_layers(metadata: Metadata) -> int:
    """Layers of plain decoding: those for multi-token prediction stand at the end and are left out.

    Raises:
        ModelFileError: no such number can be a model's.
    """
    blocks = metadata.required_count("block_count")
    n_layer = blocks - (metadata.count("nextn_predict_layers") or 0)
    if not 1 <= n_layer <= _MAX_LAYERS:
        raise ModelFileError(
            f"{metadata.source}: a model cannot have {n_layer} layers; the file is damaged, download it again"
        )
    return n_layer


def array_length(value: MetadataValue | None) -> int | None:
    """Entries of an array, kept or not; None for anything else."""
    if isinstance(value, LongArray):
        return value.length
    return len(value) if isinstance(value, tuple) else None
