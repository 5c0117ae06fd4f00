"""Refreshing prices: fetch, check, and keep each file only when it is better than what is there."""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from suffice.catalogue.ages import age_days, earliest_day, is_newer
from suffice.catalogue.price_files import PriceFormat, api_prices, date_of_last_change, machine_prices
from suffice.errors import SufficeError
from suffice.loaders.price_store import save_apis, save_machines, saved_prices
from suffice.loaders.web import UnreachableError, WebError
from suffice.units import MIB

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date
    from pathlib import Path

    from suffice.catalogue.catalogue import Catalogue
    from suffice.catalogue.entries import Price
    from suffice.catalogue.price_files import PriceFile
    from suffice.loaders.web import Web

_MAX_FILE_BYTES: Final = 32 * MIB  # the largest has 4 MB
_MAX_DATE_BYTES: Final = MIB
_LARGEST_CHANGE: Final = 3.0  # of the median price: beyond it the file is in another currency or unit
_LARGEST_CHANGE_OF_ONE: Final = 10.0
_FEWEST_KNOWN: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Refreshed:
    """A file that came."""

    name: str
    date: str
    count: int  # prices of entries of the catalogue, or of models on its platforms
    path: Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    """A file that did not come, or is not to be trusted, and what is used in its stead."""

    name: str
    reason: str
    in_use: str | None  # date of the prices that stay in use; None: there are none
    age_days: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RefreshOutcome:
    """What came of a refresh."""

    refreshed: tuple[Refreshed, ...]
    failed: tuple[Failed, ...]


def refresh_prices(
    files: tuple[PriceFile, ...],
    *,
    web: Web,
    folder: Path,
    today: date,
    base: Catalogue,
    progress: Callable[[str], None],
) -> RefreshOutcome:
    """Fetch the files; each that is good replaces the one before it, and one that is not changes nothing.

    Args:
        files: which ones.
        web: where they come from.
        folder: where they are kept.
        today: the day of this refresh.
        base: the catalogue that ships, to compare with.
        progress: told what is being fetched.
    """
    refreshed: list[Refreshed] = []
    failed: list[Failed] = []
    offline: str | None = None
    for file in files:
        try:
            if offline is not None:
                raise WebError(offline)
            progress(f"fetching {file.name} prices")
            refreshed.append(_refresh(file, web, folder, today, base))
        except SufficeError as error:
            if isinstance(error, UnreachableError):
                offline = str(error)
            failed.append(_failed(file, str(error), folder, today, base))
    return RefreshOutcome(refreshed=tuple(refreshed), failed=tuple(failed))


def _refresh(file: PriceFile, web: Web, folder: Path, today: date, base: Catalogue) -> Refreshed:
    stated = None
    if file.dated_url is not None:
        stated = date_of_last_change(web.get(file.dated_url, limit_bytes=_MAX_DATE_BYTES))
    text = web.get(file.url, limit_bytes=_MAX_FILE_BYTES)
    fetched = today.isoformat()
    if file.format is PriceFormat.LITELLM:
        day = _checked_day(stated, file, folder, today)
        apis = api_prices(file, text, day)
        path = save_apis(file, apis, date=day, fetched=fetched, folder=folder)
        return Refreshed(name=file.name, date=day, count=len(apis), path=path)
    written, prices = machine_prices(file, text)
    day = _checked_day(written or stated, file, folder, today)
    known = _known(file, prices, base)
    path = save_machines(file, known, date=day, fetched=fetched, folder=folder)
    return Refreshed(name=file.name, date=day, count=len(known), path=path)


def _checked_day(day: str | None, file: PriceFile, folder: Path, today: date) -> str:
    """The day of the prices: one that there is, not in the future, and not before that of what is kept already."""
    start = None if day is None else earliest_day(day)
    if day is None or start is None:
        raise WebError("it does not say of which day its prices are")
    if (start - today).days > 1:  # a day for time zones
        raise WebError(f"it says that its prices are of {day}, which is in the future")
    kept = _kept(file, folder)
    if kept is not None and is_newer(kept, day):
        raise WebError(f"its prices are of {day}, older than those of {kept} that are kept")
    return day


def _known(file: PriceFile, prices: Mapping[str, tuple[float, str]], base: Catalogue) -> dict[str, tuple[float, str]]:
    """The prices of machines of the catalogue, when they are in the currency and of the size that they should have."""
    machines = {machine.name: machine.price for machine in base.instances if machine.provider == file.provider}
    known = {name: pair for name, pair in prices.items() if name in machines}
    ratios = [
        pair[0] / price.per_hour
        for name, pair in known.items()
        if (price := machines[name]) is not None and price.currency == file.currency
    ]
    if len(ratios) < min(_FEWEST_KNOWN, len(machines)) or not ratios:
        raise WebError("it holds prices of almost none of the machines of the catalogue")
    change = statistics.median(ratios)
    if not 1 / _LARGEST_CHANGE <= change <= _LARGEST_CHANGE:
        raise WebError(f"its prices are {change:.3g} times those before, so they are in another currency or unit")
    return {name: pair for name, pair in known.items() if not _is_absurd(pair[0], machines[name], file.currency)}


def _is_absurd(per_hour: float, before: Price | None, currency: str) -> bool:
    """Whether one price among good ones is a typing error: such a machine keeps the price that it has, with its date."""
    if before is None or before.currency != currency:
        return False
    return not 1 / _LARGEST_CHANGE_OF_ONE <= per_hour / before.per_hour <= _LARGEST_CHANGE_OF_ONE


def _kept(file: PriceFile, folder: Path) -> str | None:
    saved, _ = saved_prices((file,), folder)
    return saved[0].date if saved else None


def _failed(file: PriceFile, reason: str, folder: Path, today: date, base: Catalogue) -> Failed:
    """What stays in use: what was refreshed before or, failing that, the newest that ships."""
    in_use = _kept(file, folder)
    if in_use is None:
        shipped = [
            machine.price.date for machine in base.instances if machine.price and machine.provider == file.provider
        ]
        if file.format is PriceFormat.LITELLM:
            shipped = [api.date for api in base.apis]
        in_use = max(shipped, default=None)
    return Failed(
        name=file.name, reason=reason, in_use=in_use, age_days=None if in_use is None else age_days(in_use, today)
    )
