"""Loads the prices of serverless APIs that ship with the package, and finds them by model."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from suffice.catalogue.entries import ApiPrice
from suffice.catalogue.names import Kind, correction_of, did_you_mean, plain, shown
from suffice.catalogue.table import Row, number, table_rows, whole
from suffice.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable


@cache
def all_apis() -> tuple[ApiPrice, ...]:
    """Every API price that ships, in the order of the file."""
    return tuple(_api(row) for row in table_rows("api_prices.csv"))


def api_named(name: str) -> tuple[ApiPrice, ...]:
    """Every price that ships of a model, in any spelling: its tiers, currencies and platforms. ``platform/model`` takes one platform.

    Raises:
        UsageError: there is none; the message says what the name may mean, or the nearest ones.
    """
    return find_apis(name, all_apis())


def find_apis(name: str, apis: Iterable[ApiPrice]) -> tuple[ApiPrice, ...]:
    """As :func:`api_named`, among these prices.

    Raises:
        UsageError: there is none.
    """
    wanted = plain(name)
    listed = tuple(apis)
    found = tuple(api for api in listed if wanted in _spellings(api))
    if found:
        return found
    correction = correction_of(Kind.API, name)
    if correction is not None:
        raise UsageError(f"no API model is called {shown(name)}: {correction.answer}")
    known = {key: api.model for api in listed for key in _spellings(api)}
    hint = did_you_mean(name, known, "'suffice catalog apis' lists those that there are")
    raise UsageError(f"no API model is called {shown(name)}; {hint}")


def _spellings(api: ApiPrice) -> tuple[str, ...]:
    """``Qwen/Qwen3-14B`` is also asked for as ``Qwen3-14B``."""
    model = plain(api.model)
    return (model, plain(api.model.rpartition("/")[2]), f"{plain(api.platform)}-{model}")


def _api(row: Row) -> ApiPrice:
    return ApiPrice(
        platform=row["platform"],
        model=row["model"],
        input_per_million=float(row["input_per_mtok"]),
        output_per_million=float(row["output_per_mtok"]),
        cached_input_per_million=number(row["cached_input_per_mtok"]),
        currency=row["currency"],
        tier=row["tier"] or None,
        context_tokens=whole(row["context_tokens"]),
        date=row["date"],
        source=row["source"],
        seen=row["seen"],
        note=row["note"] or None,
    )
