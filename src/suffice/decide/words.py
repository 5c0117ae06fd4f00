"""The four words of a verdict. Nothing else is ever printed as a verdict."""

from __future__ import annotations

from typing import Final

CPU: Final = "cpu"
CPU_THIN: Final = "cpu, thin margin — recheck after quantization"
GPU: Final = "gpu"
UNDECIDED: Final = "undecided"
