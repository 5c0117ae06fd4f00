"""Documents of other commands, read back: JSON with the names that those commands print, everything else ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from suffice.errors import RecordError
from suffice.records.store import load_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

View = TypeVar("View")


def read_view(path: Path, view: type[View], *, names: Sequence[str], made_by: str) -> View:
    """A document as a dataclass.

    Args:
        path: of the file.
        view: dataclass of what is needed of it.
        names: that such a document has.
        made_by: command that makes one, for messages.

    Raises:
        RecordError: unreadable, no such document, or one with values that cannot be.
    """
    document = load_json(path)
    if not isinstance(document, dict) or any(name not in document for name in names):
        raise RecordError(f"{path} is no document of `{made_by}`; make one with: {made_by} --json > FILE")
    return view_of(document, view, source=str(path), made_by=made_by)


def view_of(document: dict[str, Any], view: type[View], *, source: str, made_by: str) -> View:
    """The same of a document that was read already; ``source`` names it in messages.

    Raises:
        RecordError: values that cannot be.
    """
    from pydantic import TypeAdapter, ValidationError  # noqa: PLC0415  # slow to import

    try:
        return TypeAdapter(view).validate_python(document)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(str(part) for part in first["loc"]) or "the document"
        raise RecordError(f"{source} is no usable document of `{made_by}`: field '{where}': {first['msg']}") from error
