"""Refreshed prices in the user's cache folder: one file for each source, written whole or not at all, and read with suspicion."""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Final

from suffice.catalogue.ages import earliest_day
from suffice.catalogue.catalogue import FreshPrices
from suffice.catalogue.entries import ApiPrice, Price
from suffice.errors import SufficeError
from suffice.loaders.files import read_small_file
from suffice.records.store import write_atomically
from suffice.slices.place import default_root
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from suffice.catalogue.price_files import PriceFile

FORMAT: Final = 1
_MAX_FILE_BYTES: Final = 16 * MIB
_FOLDER: Final = "prices"
_API_TEXTS: Final = ("platform", "model", "currency", "date", "source", "seen")
_API_OPTIONAL_TEXTS: Final = ("tier", "note")


class _UnusableError(SufficeError):
    """A saved file is not what suffice wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SavedPrices:
    """What one refreshed file holds."""

    name: str  # of the price file: "aws", ...
    path: Path
    date: str  # of the prices
    fetched: str
    prices: FreshPrices


def prices_folder(root: Path | None = None) -> Path:
    """Where refreshed prices are kept: beside the slices, in the user's cache folder. It need not exist."""
    return (default_root() if root is None else root) / _FOLDER


def save_machines(
    file: PriceFile, prices: Mapping[str, tuple[float, str]], *, date: str, fetched: str, folder: Path
) -> Path:
    """Write prices of machines (name -> price per hour and region). Raises OutputError when that fails; the old file stays then."""
    return _save(file, {"machines": {name: list(pair) for name, pair in prices.items()}}, date, fetched, folder)


def save_apis(file: PriceFile, prices: tuple[ApiPrice, ...], *, date: str, fetched: str, folder: Path) -> Path:
    """Write prices of tokens, as :func:`save_machines`."""
    return _save(file, {"apis": [asdict(price) for price in prices]}, date, fetched, folder)


def _save(file: PriceFile, content: dict[str, Any], date: str, fetched: str, folder: Path) -> Path:
    path = folder / f"{file.name}.json"
    document = {"format": FORMAT, "name": file.name, "url": file.url, "date": date, "fetched": fetched, **content}
    write_atomically(path, json.dumps(document, indent=0, ensure_ascii=False, allow_nan=False) + "\n")
    return path


def saved_prices(files: tuple[PriceFile, ...], folder: Path) -> tuple[tuple[SavedPrices, ...], tuple[str, ...]]:
    """What is there of these files, and a warning for each one that cannot be used."""
    found, warnings = [], []
    for file in files:
        path = folder / f"{file.name}.json"
        if not path.is_file():
            continue
        try:
            found.append(_read(file, path))
        except SufficeError as error:
            warnings.append(f"{error}; its prices are left out, 'suffice catalog refresh' writes it anew")
    return tuple(found), tuple(warnings)


def _read(file: PriceFile, path: Path) -> SavedPrices:
    text = read_small_file(path, limit_bytes=_MAX_FILE_BYTES, error=_UnusableError)
    try:
        document = json.loads(text)
        if (document["format"], document["name"]) != (FORMAT, file.name):
            raise _UnusableError(f"{path} is of another format")
        date, fetched = _date(document["date"]), _date(document["fetched"])
        prices = FreshPrices(
            machines=tuple(
                _machine(file, name, pair, date, path) for name, pair in document.get("machines", {}).items()
            ),
            apis=tuple(_api(item, path) for item in document.get("apis", [])),
        )
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError) as error:
        raise _UnusableError(f"{path} is damaged") from error
    return SavedPrices(name=file.name, path=path, date=date, fetched=fetched, prices=prices)


def _date(text: Any) -> str:  # any JSON value  # noqa: ANN401  # any JSON value
    if not isinstance(text, str) or earliest_day(text) is None:
        raise ValueError(text)
    return text


def _machine(file: PriceFile, name: str, pair: Any, date: str, path: Path) -> tuple[str, Price]:  # noqa: ANN401  # any JSON value
    per_hour, region = pair
    if not isinstance(region, str):
        raise TypeError(region)
    price = Price(
        per_hour=_amount(per_hour),
        currency=file.currency,
        region=region,
        date=date,
        source=file.source,
        origin=str(path),
    )
    return f"{file.provider}/{name}", price


def _api(item: Any, path: Path) -> ApiPrice:  # noqa: ANN401  # any JSON value
    texts = {name: item[name] for name in _API_TEXTS}
    optional = {name: item.get(name) for name in _API_OPTIONAL_TEXTS}
    context = item.get("context_tokens")
    cached = item.get("cached_input_per_million")
    _date(texts["date"])
    if not all(isinstance(text, str) for text in texts.values()):
        raise TypeError(texts)
    if not all(text is None or isinstance(text, str) for text in optional.values()):
        raise TypeError(optional)
    return ApiPrice(
        **texts,
        **optional,
        input_per_million=_amount(item["input_per_million"]),
        output_per_million=_amount(item["output_per_million"]),
        cached_input_per_million=None if cached is None else _amount(cached),
        context_tokens=None if context is None else int(context),
        origin=str(path),
    )


def _amount(value: Any) -> float:  # any JSON value  # noqa: ANN401  # any JSON value
    amount = float(value)
    if not math.isfinite(amount) or amount <= 0:
        raise ValueError(value)
    return amount
