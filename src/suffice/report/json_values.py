"""Results as JSON: what JSON lacks is null, and nothing else is changed."""

from __future__ import annotations

import json
from typing import Any


def json_text(document: object) -> str:
    """One JSON document, without infinity or NaN."""
    return json.dumps(finite(document), indent=1, ensure_ascii=False, allow_nan=False)


def finite(value: Any) -> Any:  # any JSON value  # noqa: ANN401  # any JSON value
    """Replace infinity, which JSON lacks, by null: both mean "not bounded" where ranges are printed."""
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return None
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value
