"""A model without a file: the header that its file would have, made from a shape and a recipe or read from afar."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.model.shape import ModelShape, shape_from_header

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader


@dataclass(frozen=True, slots=True, kw_only=True)
class ShapeModel:
    """A model that is not here. ``source`` says where its shape is from."""

    reference: str  # as the user wrote it: "llama-3.1-70b:q4_k_m"
    header: GgufHeader
    shape: ModelShape
    source: str

    @property
    def parts(self) -> tuple[Path, ...]:
        """It has no files."""
        return ()


def shape_model(header: GgufHeader, *, reference: str, source: str) -> ShapeModel:
    """The model that a header describes.

    Raises:
        ModelFileError: see :func:`suffice.model.shape.shape_from_header`.
    """
    return ShapeModel(reference=reference, header=header, shape=shape_from_header(header), source=source)


def shape_hash(header: GgufHeader) -> str:
    """SHA-256 of what determines a model's speed: architecture, its metadata, and name, dimensions and type of every tensor."""
    architecture = str(header.metadata.get("general.architecture"))
    facts = {key: repr(value) for key, value in header.metadata.items() if key.startswith(f"{architecture}.")}
    tensors = sorted((tensor.name, tensor.dims, tensor.type_name) for tensor in header.tensors)
    document = json.dumps([architecture, sorted(facts.items()), tensors])
    return hashlib.sha256(document.encode()).hexdigest()
