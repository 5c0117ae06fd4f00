"""What tells one model file from all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from suffice.errors import ModelFileError
from suffice.loaders.model_file import describe_model

if TYPE_CHECKING:
    from suffice.loaders.model_file import ModelFile


def file_identity(model: ModelFile) -> str:
    """The hash that run records have of the file: SHA-256 of all of it, or of its size and samples where it is large.

    Raises:
        ModelFileError: it cannot be read.
    """
    record = describe_model(model, type_k="f16", type_v="f16")
    identity = record.identity
    if identity is None:  # cannot be: one of the two was asked for
        raise ModelFileError(f"{model.path}: could not be identified; check the file")
    return identity
