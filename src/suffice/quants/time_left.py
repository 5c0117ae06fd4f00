"""Times that nobody knows exactly, in words that promise no more: about 40 s, 12 min, 3.5 h."""

from __future__ import annotations

from typing import Final

from suffice.units import SECONDS_PER_HOUR, SECONDS_PER_MINUTE

_EXACT_BELOW_S: Final = 20
_STEP_S: Final = 5
_MOST_SECONDS: Final = 120  # and minutes


def about(value_s: float) -> str:
    """A foretold time: whole seconds up to 20, then in steps of 5; minutes from two on, hours from two on."""
    if value_s < _EXACT_BELOW_S:
        return f"about {max(1, round(value_s))} s"
    if value_s < _MOST_SECONDS:
        return f"about {_STEP_S * round(value_s / _STEP_S)} s"
    if value_s < _MOST_SECONDS * SECONDS_PER_MINUTE:
        return f"about {value_s / SECONDS_PER_MINUTE:.0f} min"
    return f"about {value_s / SECONDS_PER_HOUR:.1f} h"
