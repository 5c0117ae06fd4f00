"""Documents of other commands, read back: JSON with the names that those commands print, everything else ignored."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from suffice.errors import RecordError
from suffice.records.store import load_json

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

View = TypeVar("View")
_LONGEST_CHARACTERS: Final = 20_000


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
    check_texts(document, str(path), made_by)
    return view_of(document, view, source=str(path), made_by=made_by)


def check_texts(document: object, source: str, made_by: str) -> None:
    """A page shows texts whole, so none may fill it: no command writes one as long.

    Args:
        document: of JSON, or what a dataclass is as a dictionary.
        source: names it in messages.
        made_by: command that makes one.

    Raises:
        RecordError: naming how long one is.
    """
    todo = [document]
    while todo:
        one = todo.pop()
        if isinstance(one, dict):
            todo += [*one, *one.values()]
        elif isinstance(one, list | tuple):
            todo += one
        elif isinstance(one, str) and len(one) > _LONGEST_CHARACTERS:
            raise RecordError(
                f"{source} holds a text of {len(one):,} characters, and `{made_by}` writes none above {_LONGEST_CHARACTERS:,}; make the file again"
            )


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
