"""Run records on disk: written atomically, read through Pydantic, refused when they contradict themselves."""

from __future__ import annotations

import json
import math
import os
import tempfile
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from suffice.errors import OutputError, RecordError
from suffice.loaders.files import read_small_file
from suffice.records.schema import SCHEMA_VERSION, RunRecord
from suffice.stats.intervals import median
from suffice.units import MIB

if TYPE_CHECKING:
    from pydantic import TypeAdapter, ValidationError

    from suffice.stats.estimate import Estimate

_MAX_RECORD_BYTES: Final = 256 * MIB
_MAX_INTEGER_DIGITS: Final = 20  # what 64 bits hold
_RELATIVE_TOLERANCE: Final = 1e-6  # a rounding of the plain numbers by another tool is not an edit


def to_json(record: RunRecord) -> str:
    """The record as one JSON document; NaN and infinity cannot occur in it."""
    return json.dumps(asdict(record), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def save_record(record: RunRecord, path: Path) -> None:
    """Write a record so that a reader sees the old file or the new one, never half of one."""
    write_atomically(path, to_json(record))


def write_atomically(path: Path, text: str) -> None:
    """Write text to a new file beside ``path``, flush it to disk, and rename it over ``path``.

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
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
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
    """The JSON document in a file of the user's, with NaN, huge numbers and deep nesting refused.

    Raises:
        RecordError: not readable, or not JSON.
    """
    text = read_small_file(path, limit_bytes=_MAX_RECORD_BYTES, error=RecordError)
    try:
        return json.loads(text, parse_constant=_refuse_constant, parse_float=_finite_float, parse_int=_bounded_int)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"{path} is not valid JSON: {error}") from error


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not a number that a record may hold")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"{digits[:20]} is not a number that a record may hold")
    return value


def _bounded_int(digits: str) -> int:
    if len(digits) > _MAX_INTEGER_DIGITS:
        raise ValueError(f"{digits[:20]}… is not a number that a record may hold")
    return int(digits)


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
    return record


@cache
def _adapter() -> TypeAdapter[RunRecord]:
    from pydantic import TypeAdapter  # noqa: PLC0415  # as above

    return TypeAdapter(RunRecord)


def _first_complaint(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = ".".join(str(part) for part in first["loc"]) or "the document"
    return f"field '{where}': {first['msg']}"


def check_record(record: RunRecord, *, source: str) -> None:
    """Refuse records whose numbers are impossible or disagree with their own samples.

    Raises:
        RecordError: with the field and both values.
    """
    measurement = record.measurement
    series = measurement.decode
    numbers: list[tuple[str, float | None, Estimate | None]] = [
        ("decode_tokens_per_second", record.decode_tokens_per_second, series[0].tokens_per_second if series else None),
        (
            "prefill_tokens_per_second",
            record.prefill_tokens_per_second,
            measurement.prefill.tokens_per_second if measurement.prefill else None,
        ),
        ("ttft_s", record.ttft_s, measurement.ttft_s),
        *((f"decode at depth {other.depth}", None, other.tokens_per_second) for other in series[1:]),
    ]
    for name, plain, estimate in numbers:
        _check_number(name, plain, estimate, source)
    _check_raw(record, source)
    if record.device_kind not in ("cpu", "gpu"):
        raise RecordError(f"{source}: device_kind is {record.device_kind!r}; it is 'cpu' or 'gpu'")


def _check_number(name: str, plain: float | None, estimate: Estimate | None, source: str) -> None:
    """A plain number, the estimate that it repeats, and the samples that the estimate comes from."""
    if plain is not None and plain <= 0:
        raise RecordError(f"{source}: {name} is {plain:g}; a rate or a time is positive, and unknown is null")
    if estimate is None:
        return
    interval = () if estimate.interval is None else (estimate.interval.low, estimate.interval.high)
    if min((estimate.point, *interval, *estimate.samples)) <= 0:
        raise RecordError(f"{source}: the estimate of {name} holds a value that is not positive; unknown is null")
    if estimate.interval is not None and not estimate.interval.low <= estimate.point <= estimate.interval.high:
        raise RecordError(f"{source}: the estimate of {name} lies outside of its own interval; the record was edited")
    own = median(estimate.samples) if estimate.samples else estimate.point
    for value in (plain, estimate.point):
        if value is not None and not math.isclose(value, own, rel_tol=_RELATIVE_TOLERANCE):
            raise RecordError(f"{source}: {name} is {value:g} but its own samples give {own:g}; the record was edited")


def _check_raw(record: RunRecord, source: str) -> None:
    """Raw times and sizes that no measurement can have."""
    measurement, model = record.measurement, record.model
    prefill = measurement.prefill
    rows = [row for series in measurement.decode for row in series.step_s]
    rows += [] if prefill is None else [*prefill.chunk_s, tuple(map(float, prefill.chunk_tokens))]
    if any(value <= 0 for row in rows for value in row):
        raise RecordError(f"{source}: raw samples hold a time or a size that is not positive")
    if any(series.depth < 0 for series in measurement.decode):
        raise RecordError(f"{source}: a decode series has a negative depth")
    readings = (record.bandwidth_before, record.bandwidth_after, record.cache_bandwidth)
    sizes = {
        "model.file_bytes": model.file_bytes,
        "model.streamed_bytes": model.streamed_bytes,
        "memory_usable_bytes": record.memory_usable_bytes,
        "bandwidth": min((r.read_bytes_per_s for r in readings if r is not None), default=None),
        "measurement.prefill.prompt_tokens": None if prefill is None else prefill.prompt_tokens,
    }
    for name, size in sizes.items():
        if size is not None and size <= 0:
            raise RecordError(f"{source}: {name} is {size:g}; a size is positive, and unknown is null")
    if (model.kv_bytes_per_token or 0) < 0 or model.kv_state_bytes < 0:
        raise RecordError(f"{source}: the model's KV cache has a negative size")
    if any(layers.count < 0 or layers.bytes_per_token < 0 or (layers.window or 0) < 0 for layers in model.kv_layers):
        raise RecordError(f"{source}: the model's KV layers have a negative size")
