"""Reads the header of a GGUF file, quickly and without trusting it.

Only the header is read, so a 40 GB model takes as long as a 40 MB one. Whatever the file holds, reading ends with a header
or with a ModelFileError, in bounded time and memory: every count is checked against the bytes that are left before it is
used, and vocabularies are stepped over, not kept.
Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little and big endian).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from suffice.errors import ModelFileError
from suffice.loaders.gguf_bytes import open_model_file
from suffice.loaders.gguf_parse import ParsedFile, parse_file
from suffice.loaders.gguf_values import ReadBudget
from suffice.model.gguf_header import GgufHeader, TensorInfo

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

_SPLIT_NAME: Final = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf", re.DOTALL)
_MAX_PARTS: Final = 4096


def read_gguf_header(path: Path) -> GgufHeader:
    """The header of a GGUF model; of all its parts together when it is split, whichever part ``path`` names.

    Raises:
        ModelFileError: the file, or another part, is missing, unreadable, damaged, unsupported or hostile.
    """
    parts = find_parts(path)
    budget = ReadBudget()
    files = [_parse(part, index, budget) for index, part in enumerate(parts)]
    return joined_header(parts, files, source=parts[0].name)


def joined_header(parts: Sequence[Path | str], files: Sequence[ParsedFile], *, source: str) -> GgufHeader:
    """One header from those of all parts; ``parts`` is what messages call them, ``source`` what the header calls itself.

    Raises:
        ModelFileError: the parts do not belong together.
    """
    _check_split(parts, files)
    first = files[0]
    return GgufHeader(
        source=source,
        version=first.version,
        big_endian=first.big_endian,
        alignment=first.alignment,
        metadata=first.metadata,
        tensors=_joined(parts, files),
        file_bytes=sum(file.file_bytes for file in files),
        n_files=len(files),
    )


def _parse(path: Path, index: int, budget: ReadBudget) -> ParsedFile:
    with open_model_file(path) as source:
        return parse_file(source, index, budget)


def find_parts(path: Path) -> list[Path]:
    """All parts of the model in order, by name, as llama.cpp's gguf-split names them."""
    names = part_names(path.name, shown_as=path)
    if len(names) == 1:
        return [path]
    parts = [path.with_name(name) for name in names]
    _raise_if_missing(path, parts)
    return parts


def part_names(name: str, *, shown_as: Path | str) -> list[str]:
    """The names of all parts of the model that a file of this name belongs to; ``shown_as`` is what a message calls it.

    Raises:
        ModelFileError: the name says part 5 of 3, or something alike.
    """
    match = _SPLIT_NAME.fullmatch(name)
    if match is None or int(match["count"]) == 1:
        return [name]
    count, number = int(match["count"]), int(match["number"])
    if not 1 <= number <= count <= _MAX_PARTS:
        raise ModelFileError(
            f"{shown_as}: the name says part {number} of {count}, which cannot be; check the name of the file"
        )
    return [f"{match['stem']}-{n:05d}-of-{count:05d}.gguf" for n in range(1, count + 1)]


def _raise_if_missing(given: Path, parts: list[Path]) -> None:
    try:
        missing = [part.name for part in parts if not part.exists()]
    except (OSError, ValueError) as error:
        raise ModelFileError(f"{given}: its parts cannot be looked up ({error}); check the path") from None
    if len(missing) == len(parts):
        raise ModelFileError(f"{given}: no such file; check the path")
    if missing:
        others = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ModelFileError(
            f"{given}: the model is split in {len(parts)} parts and {missing[0]}{others} is missing; "
            f"put all parts in {given.parent}"
        )


def _check_split(parts: Sequence[Path | str], files: Sequence[ParsedFile]) -> None:
    """The parts must say of themselves what their names say, or a part of another model was mixed in."""
    if len(parts) == 1:
        count = files[0].metadata.get("split.count", 1)
        if isinstance(count, int) and count > 1:
            raise ModelFileError(
                f"{parts[0]}: is one of {count} parts, but its name does not end in -00001-of-{count:05d}.gguf; "
                "give the parts the names that they were made with"
            )
        return
    for index, (part, file) in enumerate(zip(parts, files, strict=True)):
        found = (file.metadata.get("split.no"), file.metadata.get("split.count"))
        if found != (index, len(parts)):
            raise ModelFileError(
                f"{part}: by its name it is part {index} (from 0) of {len(parts)}, but its header says part {found[0]} of {found[1]}; "
                "download this part again"
            )
    expected = files[0].metadata.get("split.tensors.count")
    total = sum(len(file.tensors) for file in files)
    if expected is not None and expected != total:
        raise ModelFileError(
            f"{parts[0]}: the parts hold {total} tensors together, but the header says {expected}; download all parts again"
        )


def _joined(parts: Sequence[Path | str], files: Sequence[ParsedFile]) -> tuple[TensorInfo, ...]:
    """The tensors of all parts; a name may occur once only."""
    seen: set[str] = set()
    for part, file in zip(parts, files, strict=True):
        for tensor in file.tensors:
            if tensor.name in seen:
                raise ModelFileError(
                    f"{part}: tensor {tensor.name!r} occurs twice; the file is damaged, download it again"
                )
            seen.add(tensor.name)
    return tuple(tensor for file in files for tensor in file.tensors)
