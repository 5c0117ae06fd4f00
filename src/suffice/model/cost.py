"""What a month costs: hours, energy and tokens as plain numbers, with no price list and no currency in sight.

A month has 730 hours (8760 / 12), as cloud price lists count; so it has 30.4167 days.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from suffice.units import HOURS_PER_DAY, KILO, MEGA, SECONDS_PER_HOUR

HOURS_PER_MONTH: Final = 730.0
DAYS_PER_MONTH: Final = HOURS_PER_MONTH / HOURS_PER_DAY


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """A month's requests, and the mean tokens of one."""

    requests: float
    prompt_tokens: float
    output_tokens: float

    def __post_init__(self) -> None:
        if self.requests <= 0 or self.prompt_tokens <= 0 or self.output_tokens <= 0:
            raise ValueError("a volume has requests with prompt and output tokens")

    @property
    def million_input_tokens(self) -> float:
        """Millions of prompt tokens in a month."""
        return self.requests * self.prompt_tokens / MEGA

    @property
    def million_output_tokens(self) -> float:
        """Millions of generated tokens in a month."""
        return self.requests * self.output_tokens / MEGA

    @property
    def output_tokens_per_month(self) -> float:
        """Generated tokens in a month."""
        return self.requests * self.output_tokens


def requests_per_month(requests_per_second: float) -> float:
    """Requests in 730 hours, of a rate that is averaged over the day."""
    return requests_per_second * HOURS_PER_MONTH * SECONDS_PER_HOUR


def hours_per_month(window_s: float | None) -> float:
    """Hours that a machine is paid for: all 730, or those of a daily window of ``window_s`` seconds."""
    return HOURS_PER_MONTH if window_s is None else window_s / SECONDS_PER_HOUR * DAYS_PER_MONTH


def energy_kwh(watts: float, idle_watts: float, utilisation: float, hours: float = HOURS_PER_MONTH) -> float:
    """Energy in kWh: ``watts`` for the share of ``hours`` in which the machine works, ``idle_watts`` for the rest.

    Raises:
        ValueError: the utilisation is no share.
    """
    if not 0 <= utilisation <= 1:
        raise ValueError(f"a utilisation of {utilisation:g} is no share between 0 and 1")
    return (watts * utilisation + idle_watts * (1 - utilisation)) * hours / KILO


def per_million(amount: float, tokens: float) -> float:
    """What a million of ``tokens`` costs where all of them cost ``amount``."""
    return amount / tokens * MEGA
