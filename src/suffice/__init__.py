"""suffice: how much hardware is enough for this LLM workload?

Importing this package loads neither an engine nor NumPy nor plotting; the names below are resolved on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from suffice.compat import assert_decode_ceiling, choose_hardware, decode_ceiling
    from suffice.errors import SufficeError

__version__ = "0.1.0"

__all__ = [
    "SufficeError",
    "__version__",
    "assert_decode_ceiling",
    "choose_hardware",
    "decode_ceiling",
]

_HOMES = {
    "SufficeError": "suffice.errors",
    "assert_decode_ceiling": "suffice.compat",
    "choose_hardware": "suffice.compat",
    "decode_ceiling": "suffice.compat",
}


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
