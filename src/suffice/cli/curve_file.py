"""The service curve in a file of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.errors import RecordError
from suffice.units import MIB

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.records.schema import RunRecord
    from suffice.serving.curve import ServiceCurve

_MOST_BYTES: Final = 16 * MIB


def read_curve(path: Path) -> tuple[ServiceCurve, RunRecord | None]:
    """The service curve in a file, a run record that has one or a document of its own, and the record.

    Raises:
        RecordError: the file cannot be read, is no JSON, or has no curve.
    """
    from suffice.loaders.files import read_small_file
    from suffice.loaders.strict_json import parse_json
    from suffice.records.store import record_from
    from suffice.serving.curve_document import curve_of_document
    from suffice.serving.recorded import curve_notes, curve_of_record

    text = read_small_file(path, limit_bytes=_MOST_BYTES, error=RecordError)
    try:
        document = parse_json(text)
    except RecordError as error:
        raise RecordError(f"{path} is {error}") from None
    if not isinstance(document, dict) or "measurement" not in document:
        return curve_of_document(document, str(path)), None
    record = record_from(document, source=str(path))
    curve = curve_of_record(record)
    if curve is None:
        why = "".join(f" ({note})" for note in curve_notes(record)[:1])
        raise RecordError(f"{path} is a run record without a service curve{why}; measure it with --slots N")
    return curve, record
