"""The maintained price files: where they are, and what is in them. Pure text in, prices out; whatever is odd in a file is refused.

Each file is of an open source project that keeps it current (AWS, Azure, Google Cloud and Alibaba Cloud: karpenter's price files, Apache-2.0;
tokens: LiteLLM, MIT). The formats are theirs, and nothing in an answer is trusted.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from suffice.catalogue.azure import windows_prices
from suffice.catalogue.entries import ApiPrice
from suffice.catalogue.table import table_rows
from suffice.errors import UsageError
from suffice.units import KILO, MEGA

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_MOST_PER_HOUR: Final = 100_000.0
_MOST_PER_MILLION: Final = 10_000.0
_MOST_INPUT_OVER_OUTPUT: Final = (
    3.0  # no list has input far dearer than output; a file that says so has swapped or mistyped them
)
_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d")
_GO_DATE: Final = re.compile(r"generated at (\d{4}-\d\d-\d\d)")
# `"us-east-1": {` or `prices["eastus"] = map[string]float64{` opens a region; `"c7i.xlarge": 0.1785` is a price in it.
_GO_TOKEN: Final = re.compile(
    r'"(?P<name>[^"\n]{1,100})"\]?\s{0,20}(?:=\s?map\[[^\]\n]{1,40}\][\w.]{0,40}|:)\s{0,80}(?:(?P<open>\{)|(?P<price>\d{1,7}(?:\.\d{1,12})?))'
)

Regions = dict[str, dict[str, float]]


class PriceFormat(StrEnum):
    """How a file is written."""

    GO = "go"  # generated source: regions and prices as map literals
    REGIONS_JSON = "regions"  # {region: {instance: price}}
    ON_DEMAND_JSON = "on_demand"  # {"prices": {region: {"on_demand": {instance: price}}}}
    LITELLM = "litellm"  # {provider/model: {"input_cost_per_token": ..., ...}}


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceFile:
    """A file of prices.

    ``dated_url`` answers with the list of its last change (GitHub's API); it is for files that do not say themselves of which day they are.
    """

    name: str
    url: str
    format: PriceFormat
    source: str
    dated_url: str | None = None
    provider: str | None = None  # of machines
    currency: str = "USD"
    regions: tuple[str, ...] = ()  # the first that has a price gives it


def _dated(repository: str, path: str) -> str:
    return f"https://api.github.com/repos/{repository}/commits?path={path}&per_page=1"


def _raw(repository: str, path: str) -> str:
    return f"https://raw.githubusercontent.com/{repository}/main/{path}"


_AWS: Final = ("aws/karpenter-provider-aws", "pkg/providers/pricing/zz_generated.pricing_aws.go")
_AZURE: Final = ("Azure/karpenter-provider-azure", "pkg/providers/pricing/zz_generated.pricing.go")
_GCP: Final = ("cloudpilot-ai/karpenter-provider-gcp", "pkg/providers/pricing/initial-prices.json")
_ALIBABA: Final = (
    "cloudpilot-ai/karpenter-provider-alibabacloud",
    "pkg/providers/pricing/initial-on-demand-prices.json",
)
_LITELLM: Final = ("BerriAI/litellm", "model_prices_and_context_window.json")

PRICE_FILES: Final = (
    PriceFile(
        name="aws", provider="aws", format=PriceFormat.GO, regions=("us-east-1",),
        url=_raw(*_AWS), source="aws/karpenter-provider-aws zz_generated.pricing_aws.go, Apache-2.0",
    ),
    PriceFile(
        name="azure", provider="azure", format=PriceFormat.GO, regions=("eastus", "westeurope", "eastasia"),
        url=_raw(*_AZURE), source="Azure/karpenter-provider-azure zz_generated.pricing.go, Apache-2.0",
    ),
    PriceFile(
        name="gcp", provider="gcp", format=PriceFormat.ON_DEMAND_JSON, regions=("us-central1", "europe-west4", "asia-east1"),
        url=_raw(*_GCP), dated_url=_dated(*_GCP), source="cloudpilot-ai/karpenter-provider-gcp initial-prices.json, Apache-2.0",
    ),
    PriceFile(
        name="alibaba", provider="alicloud", format=PriceFormat.REGIONS_JSON, currency="CNY",
        regions=("cn-hangzhou", "cn-beijing", "cn-shanghai", "ap-southeast-1"), url=_raw(*_ALIBABA), dated_url=_dated(*_ALIBABA),
        source="cloudpilot-ai/karpenter-provider-alibabacloud initial-on-demand-prices.json (currency inferred from magnitude), Apache-2.0",
    ),
    PriceFile(
        name="litellm", format=PriceFormat.LITELLM, url=_raw(*_LITELLM), dated_url=_dated(*_LITELLM),
        source="BerriAI/litellm model_prices_and_context_window.json, MIT",
    ),
)  # fmt: skip


def date_of_last_change(text: str) -> str:
    """The day of the newest change in an answer of GitHub's list of commits.

    Raises:
        UsageError: the answer holds none.
    """
    try:
        day = _json(text)[0]["commit"]["committer"]["date"][:10]
    except (LookupError, TypeError):
        day = None
    if not isinstance(day, str) or not _DAY.fullmatch(day):
        raise UsageError("the answer does not say of which day the file is")
    return day


def machine_prices(file: PriceFile, text: str) -> tuple[str | None, dict[str, tuple[float, str]]]:
    """The day that the file gives (None: it gives none), and instance -> price per hour and region.

    Windows prices of Azure are left out.

    Raises:
        UsageError: this is no such file.
    """
    match = _GO_DATE.search(text)
    regions = _go_regions(text) if file.format is PriceFormat.GO else _json_regions(file.format, _json(text))
    found: dict[str, tuple[float, str]] = {}
    for region in file.regions:
        prices = regions.get(region, {})
        windows = windows_prices(prices) if file.provider == "azure" else frozenset()
        for name, price in prices.items():
            if name not in windows and 0 < price < _MOST_PER_HOUR:
                found.setdefault(name, (price, region))
    if not found:
        raise UsageError("it holds no prices in the form that is known here")
    return (match[1] if match else None), found


def api_prices(file: PriceFile, text: str, date: str) -> tuple[ApiPrice, ...]:
    """The prices of chat models on the platforms of the catalogue; zeros and outliers, which the file is known for, are left out.

    Raises:
        UsageError: this is no such file.
    """
    document = _json(text)
    if not isinstance(document, dict):
        raise UsageError("it holds no prices in the form that is known here")
    platforms = {row["provider"]: row for row in table_rows("litellm_platforms.csv")}
    found = []
    for key, item in document.items():
        if not isinstance(item, dict) or item.get("mode") != "chat" or not isinstance(key, str):
            continue
        platform = platforms.get(str(item.get("litellm_provider")))
        if platform is not None:
            found += list(_models(key, item, platform, file, date))
    if not found:
        raise UsageError("it holds no prices in the form that is known here")
    return tuple({api.key: api for api in found}.values())


def _json(text: str) -> Any:  # any JSON value  # noqa: ANN401  # any JSON value
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError("it is not JSON") from error


def _go_regions(text: str) -> Regions:
    regions: Regions = {}
    prices: dict[str, float] = {}
    for match in _GO_TOKEN.finditer(text):
        if match["open"]:
            prices = regions.setdefault(match["name"], {})
        else:
            prices[match["name"]] = float(match["price"])
    return regions


def _json_regions(written: PriceFormat, document: object) -> Regions:
    if not isinstance(document, dict):
        return {}
    if written is PriceFormat.ON_DEMAND_JSON:
        regions = document.get("prices")
        document = {
            region: kinds.get("on_demand")
            for region, kinds in (regions if isinstance(regions, dict) else {}).items()
            if isinstance(kinds, dict)
        }
    return {
        region: {name: price for name, value in prices.items() if (price := _amount(value)) is not None}
        for region, prices in document.items()
        if isinstance(prices, dict)
    }


def _amount(value: object) -> float | None:
    """A finite number that is not negative; None for anything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        amount = float(value)
    except OverflowError:
        return None
    return amount if math.isfinite(amount) and amount >= 0 else None


def _models(
    key: str, item: Mapping[str, Any], platform: Mapping[str, str], file: PriceFile, date: str
) -> Iterator[ApiPrice]:
    """One price, or one for each tier of input lengths."""
    tiers = item.get("tiered_pricing")
    for tier in tiers if isinstance(tiers, list) and tiers else [item]:
        if not isinstance(tier, dict):
            continue
        read, written = (_per_million(tier.get(name)) for name in ("input_cost_per_token", "output_cost_per_token"))
        if read is None or written is None or read > written * _MOST_INPUT_OVER_OUTPUT:
            continue
        context = item.get("max_input_tokens")
        yield ApiPrice(
            platform=platform["platform"],
            model=key.removeprefix(f"{platform['provider']}/"),
            input_per_million=read,
            output_per_million=written,
            cached_input_per_million=_per_million(tier.get("cache_read_input_token_cost")),
            currency=file.currency,
            tier=_tier(tier.get("range")),
            context_tokens=context if isinstance(context, int) and not isinstance(context, bool) else None,
            date=date,
            source=file.source,
            seen=date,
            note=platform["note"] or None,
        )


def _per_million(value: object) -> float | None:
    """Per million tokens, from per token; None for zeros, for what is no number and for what nobody would pay."""
    amount = _amount(value)
    per_million = None if amount is None else float(f"{amount * MEGA:.9g}")  # 1.5e-07 is a rounded 0.15
    return per_million if per_million is not None and 0 < per_million < _MOST_PER_MILLION else None


def _tier(span: object) -> str | None:
    if not isinstance(span, list) or len(span) != 2 or any(_amount(end) is None for end in span):  # noqa: PLR2004  # from, to
        return None
    return f"input {span[0] / KILO:.0f}K-{span[1] / KILO:.0f}K tokens"
