"""The catalogue that commands use: what ships, newer prices that were refreshed, and the user's own entries over both."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.catalogue.catalogue import Catalogue, shipped
from suffice.catalogue.price_files import PRICE_FILES
from suffice.errors import UsageError
from suffice.loaders.files import read_small_file
from suffice.loaders.price_store import SavedPrices, prices_folder, saved_prices
from suffice.units import MIB

if TYPE_CHECKING:
    from pathlib import Path

_MAX_OWN_BYTES: Final = 4 * MIB


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedCatalogue:
    """The catalogue, the refreshed files that went into it, and what could not be used."""

    catalogue: Catalogue
    saved: tuple[SavedPrices, ...]
    warnings: tuple[str, ...]


def load_catalogue(own: Path | None = None, *, cache_root: Path | None = None) -> LoadedCatalogue:
    """The catalogue as a command sees it.

    Args:
        own: the user's file of entries, which change those that ship or are added; None: there is none.
        cache_root: the cache folder; None: the user's.

    Raises:
        UsageError: the user's file cannot be read or is wrong.
    """
    catalogue = shipped()
    saved, warnings = saved_prices(PRICE_FILES, prices_folder(cache_root))
    for item in saved:
        catalogue = catalogue.with_prices(item.prices)
    if own is not None:
        from suffice.catalogue.own import parse_own_catalogue  # loads Pydantic  # noqa: PLC0415

        text = read_small_file(own, limit_bytes=_MAX_OWN_BYTES, error=UsageError)
        catalogue = catalogue.with_overrides(parse_own_catalogue(text, source=str(own)))
    return LoadedCatalogue(catalogue=catalogue, saved=saved, warnings=warnings)
