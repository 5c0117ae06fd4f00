"""Run records on disk: written atomically, read through Pydantic, refused when they contradict themselves."""

from __future__ import annotations

import json
import os
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from suffice.decide.quiet import judged_again
from suffice.errors import OutputError, RecordError
from suffice.loaders.files import read_small_file
from suffice.loaders.strict_json import DIGITS_OF_64_BITS, parse_json
from suffice.records.check import check_record
from suffice.records.schema import SCHEMA_VERSION, RunRecord
from suffice.units import MIB

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

_MAX_RECORD_BYTES: Final = 256 * MIB


def to_json(record: RunRecord) -> str:
    """The record as one JSON document; NaN and infinity cannot occur in it."""
    return json.dumps(asdict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def save_record(record: RunRecord, path: Path) -> None:
    """Write a record so that a reader sees the old file or the new one, never half of one."""
    write_atomically(path, to_json(record))


def write_atomically(path: Path, content: str | bytes) -> None:
    """Write text (as UTF-8) or bytes to a new file beside ``path``, flush it to disk, and rename it over ``path``.

    Raises:
        OutputError: no permission, disk full, the folder is missing, or ``path`` is a folder.
    """
    try:
        if path.is_dir():
            raise OutputError(f"cannot write {path}: it is a folder; give the name of a file")
        if path.exists() and not path.is_file():  # renaming over /dev/null would replace it for the whole machine
            raise OutputError(f"cannot write {path}: it is a device or a pipe; give the name of a file")
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.", suffix=".tmp")
    except (OSError, ValueError) as error:
        raise OutputError(f"cannot write {path}: {_reason(error)}") from error
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).chmod(0o666 & ~_umask())  # mkstemp's 0600 would hide the record from the team
        Path(temporary).replace(path)
    except (OSError, ValueError) as error:
        Path(temporary).unlink(missing_ok=True)
        raise OutputError(f"cannot write {path}: {_reason(error)}") from error
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


@cache
def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def _reason(error: OSError | ValueError) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)


def load_json(path: Path) -> Any:  # noqa: ANN401  # JSON is whatever the file holds
    """The JSON document in a file of the user's, as strict as :mod:`suffice.loaders.strict_json`.

    Raises:
        RecordError: not readable, or not JSON.
    """
    text = read_small_file(path, limit_bytes=_MAX_RECORD_BYTES, error=RecordError)
    try:
        return parse_json(text, most_digits=DIGITS_OF_64_BITS)
    except RecordError as error:
        raise RecordError(f"{path} is {error}") from None


def load_record(path: Path) -> RunRecord:
    """The run record in a file.

    Raises:
        RecordError: unreadable, not a record, of a newer version, or edited so that its numbers disagree.
    """
    document = load_json(path)
    if isinstance(document, dict) and "decode_tokens_per_second" in document:
        document.setdefault("schema_version", 1)  # the article's own result: one plain number in a JSON file
    if not isinstance(document, dict) or "schema_version" not in document:
        raise RecordError(f"{path} is not a run record (it has no 'schema_version'); make one with `suffice measure`")
    return record_from(document, source=str(path))


def record_from(document: dict[str, Any], *, source: str) -> RunRecord:
    """The record in a JSON object; ``source`` names it in error messages."""
    from pydantic import ValidationError  # noqa: PLC0415  # half the cost of starting the command line

    version = document.get("schema_version")
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise RecordError(f"{source}: schema_version {version!r} is not a version number")
    if version > SCHEMA_VERSION:
        raise RecordError(
            f"{source} has schema version {version}; this suffice reads up to {SCHEMA_VERSION}, upgrade it"
        )
    try:
        # As JSON and strict: lists become tuples, but "12" and true do not become numbers.
        record = _adapter().validate_json(json.dumps(document), strict=True)
    except ValidationError as error:
        raise RecordError(f"{source} is not a usable run record: {_first_complaint(error)}") from error
    except RecursionError as error:
        raise RecordError(f"{source} is nested too deeply for a run record") from error
    check_record(record, source=source)
    try:
        return judged_again(record)
    except (TypeError, ValueError, ArithmeticError) as error:
        raise RecordError(f"{source}: the readings of its repetitions cannot be used: {error}") from None


@cache
def _adapter() -> TypeAdapter[RunRecord]:
    from pydantic import TypeAdapter  # noqa: PLC0415  # as above

    return TypeAdapter(RunRecord)


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"field '{where}': {first['msg']}"
