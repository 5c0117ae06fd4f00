"""Model files as subjects of a comparison: what they are, what tells them apart, and the template that they bring."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.loaders.chat_template import read_chat_template
from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.model_file import open_model_file
from suffice.model.quants import Subject, SubjectKind
from suffice.model.recipe import recipe_of
from suffice.quants.identity import file_identity

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.shape import ModelShape

_FILE_TYPE_KEY: Final = "general.file_type"


@dataclass(frozen=True, slots=True, kw_only=True)
class LocalModel:
    """A model file that can be asked. ``shape`` None: not known, and memory is not checked."""

    path: Path
    subject: Subject
    template: str | None = None
    shape: ModelShape | None = None


def local_model(path: Path, *, name: str | None = None, subject: Subject | None = None) -> LocalModel:
    """Look at a GGUF file: its header, its template, and its hash, for which it is read once.

    Args:
        path: the file, or the first part of a split one.
        name: for people; without it the file's name.
        subject: what is known of it already, of a file that was made here; it is not hashed again.

    Raises:
        ModelFileError: it is no GGUF file, damaged, or cannot be read.
    """
    found = open_model_file(path)
    template = read_chat_template(found.path)
    if subject is None:
        subject = Subject(
            name=name or _written(found.path.stem),
            kind=SubjectKind.FILE,
            place=_written(str(path)),
            identity=file_identity(found),
            quantization=quantization_of(found.path, found.shape),
            file_bytes=found.shape.file_bytes,
        )
    return LocalModel(path=found.path, subject=subject, template=template, shape=found.shape)


def _written(name: str) -> str:
    """A file's name as it can be kept: bytes that are no UTF-8 are replaced."""
    return name.encode("utf-8", errors="surrogateescape").decode("utf-8", errors="replace")


def quantization_of(path: Path, shape: ModelShape) -> str | None:
    """The recipe that the file says it was quantized by, else the type of most of its weights; None without weights.

    Raises:
        ModelFileError: the file cannot be read.
    """
    said = read_gguf_header(path).metadata.get(_FILE_TYPE_KEY)
    recipe = recipe_of(said) if isinstance(said, int) else None
    if recipe is not None:
        return recipe.upper()
    elements = shape.elements_by_type
    return max(elements, key=lambda name: elements[name]).upper() if elements else None
