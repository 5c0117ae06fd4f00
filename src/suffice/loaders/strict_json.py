"""The one way to read JSON that users wrote: names that stand twice, NaN, endless numbers and depths, and broken characters are refused.

Python's own reader takes the last of two equal names and reads NaN, so that a slip would change a number and nobody would know. What a
server or our own worker sends is read by its protocol instead: a stranger's reply is not to be mended by a person.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from typing import Any, Final

from suffice.errors import RecordError

MAX_DEPTH: Final = 64  # of lists and objects within each other
DIGITS_OF_64_BITS: Final = 20
_MAX_INTEGER_DIGITS: Final = 300  # a double reaches 308 digits
_SHOWN: Final = 60


def parse_json(text: str, *, most_digits: int = _MAX_INTEGER_DIGITS) -> Any:  # noqa: ANN401  # JSON is whatever the text holds
    """The JSON value of a text.

    Args:
        text: one whole document.
        most_digits: of a whole number.

    Raises:
        RecordError: not such JSON; "not JSON: ..." or "not usable JSON: ..." and the reason, to be put behind the name of the file.
    """

    def bounded_int(digits: str) -> int:
        if len(digits) > most_digits:
            raise ValueError(f"the number {digits[:20]}… has {len(digits)} digits")
        return int(digits)

    try:
        document = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=_unique_names,
            parse_int=bounded_int,
            parse_float=_finite_float,
        )
    except RecursionError:
        raise RecordError("not usable JSON: it is nested too deeply") from None
    except json.JSONDecodeError as failure:
        raise RecordError(f"not JSON: {failure.msg} at character {failure.pos + 1}") from None
    except ValueError as failure:
        raise RecordError(f"not usable JSON: {failure}") from None
    if _is_deep(document):
        raise RecordError("not usable JSON: it is nested too deeply")
    if "\\ud" in text.lower() and not _is_text(document):
        raise RecordError("not usable text: half of a surrogate pair (\\ud800 to \\udfff) stands alone")
    return document


def shown(value: object) -> str:
    """A value of a file for a message: short, on one line."""
    text = repr(value[:_SHOWN] if isinstance(value, str) else value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 1]}…"


def _is_deep(document: object) -> bool:
    level = [document]
    for _ in range(MAX_DEPTH):
        level = [
            inner
            for outer in level
            if isinstance(outer, list | dict)
            for inner in (outer.values() if isinstance(outer, dict) else outer)
            if isinstance(inner, list | dict)
        ]
        if not level:
            return False
    return True


def _is_text(document: object) -> bool:
    try:
        json.dumps(document, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return False
    return True


def _unique_names(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    document = dict(pairs)
    if len(document) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        raise ValueError(f"the name {shown(counts.most_common(1)[0][0])} stands there twice")
    return document


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no number")


def _finite_float(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits[:20]} is too large")
    return value
