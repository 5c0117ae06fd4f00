"""Windows prices among Azure's: the public price file mixes them in, and a Windows price is no price of a Linux machine."""

from __future__ import annotations

import re
from collections import defaultdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

# What Windows adds per vCPU and hour, in USD: D16as_v5 costs 0.688 in eastus and 1.424 in westus3, and (1.424 - 0.688) / 16 = 0.046.
WINDOWS_SURCHARGE_PER_VCPU: Final = 0.046
_TOLERANCE: Final = 0.0012  # prices are printed with three decimals

# Since version 3 the number in a size's name is its vCPU count; a second one (E16-4s_v5) is how many are left on, at the same price.
_SIZE: Final = re.compile(
    r"Standard_(?P<letters>[A-Z]+)(?P<vcpu>\d+)(?:-\d+)?(?P<features>[a-z]*(?:_[A-Za-z0-9]+)*_v[3-9]\d*)"
)


def windows_prices(prices: Mapping[str, float]) -> frozenset[str]:
    """The sizes of one region whose price is that of Windows.

    A size is one when another size of its family costs less per vCPU by just the Windows surcharge: Linux prices of a family are in
    proportion to its vCPUs. A family that has Windows prices only is not noticed.

    Args:
        prices: size (``Standard_D16as_v5``) -> USD per hour.
    """
    families: dict[str, list[tuple[str, float]]] = defaultdict(list)
    for name, price in prices.items():
        match = _SIZE.fullmatch(name)
        if match is not None and int(match["vcpu"]) > 0:
            families[match["letters"] + match["features"]].append((name, price / int(match["vcpu"])))
    found = set()
    for sizes in families.values():
        cheapest = min(per_vcpu for _, per_vcpu in sizes)
        found |= {name for name, per_vcpu in sizes if _is_surcharge(per_vcpu - cheapest)}
    return frozenset(found)


def _is_surcharge(difference: float) -> bool:
    return abs(difference - WINDOWS_SURCHARGE_PER_VCPU) <= _TOLERANCE
