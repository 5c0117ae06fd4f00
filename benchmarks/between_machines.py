"""How far machines of one type differ: rented machines with the same CPU and vCPUs whose instance types differ in memory or disks only.

Each pair of siblings (c7i, m7i and r7i of AWS in one size; D, E and F of Azure in one generation) is as two machines of one type: how far
their rates lie apart is how far the measurement of somebody else may be from the machine that one gets. ``BETWEEN_MACHINES`` of
``suffice.predict.elsewhere`` comes from here.

Run: ``python benchmarks/between_machines.py``. Reads what ships with the package.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from itertools import combinations
from typing import Final

import numpy as np

from suffice.predict.cpu_data import shipped_measurements

TASKS: Final = (
    "llama-7b.q4_k_m.gguf|decode|128",
    "gemma-2b.q4_k_m.gguf|decode|128",
    "llama-7b.q4_k_m.gguf|prefill|512",
    "gemma-2b.q4_k_m.gguf|prefill|512",
)
_AWS: Final = re.compile(r"[cmr](?P<generation>\d[a-z]*)\.(?P<size>.+)")
_AZURE: Final = re.compile(r"standard_[def](?P<size>\d+)(?P<letters>.*)_v(?P<generation>\d)")
_MEMORY_AND_DISKS: Final = re.compile("[dlmt]")  # letters of Azure that say nothing of the processor


def type_of(cloud: str, instance: str) -> tuple[str, ...] | None:
    """What siblings have in common, None for machines whose names say nothing of it."""
    if cloud == "aws" and (match := _AWS.fullmatch(instance)):
        return (cloud, match["generation"], match["size"])
    if cloud == "azure" and (match := _AZURE.fullmatch(instance)):
        return (cloud, match["generation"], match["size"], _MEMORY_AND_DISKS.sub("", match["letters"]))
    return None


def main() -> None:
    """Print the table."""
    table = shipped_measurements()
    print("| task | pairs | median | 80 % within | 90 % within |\n|---|---|---|---|---|")
    for task in TASKS:
        siblings: dict[tuple[str, ...], list[float]] = defaultdict(list)
        for key, row in table.machines.items():
            cloud, instance, ran = key.split("|")
            name, rate = type_of(cloud, instance), float(table.rates[row, table.tasks[task]])
            if ran == "cpu" and name is not None and not math.isnan(rate):
                siblings[*name, table.ran_on[row]].append(rate)
        apart = [abs(math.log(one / other)) for rates in siblings.values() for one, other in combinations(rates, 2)]
        shares = " | ".join(f"{np.quantile(apart, share):.3f}" for share in (0.5, 0.8, 0.9))
        print(f"| {task} | {len(apart)} | {shares} |")


if __name__ == "__main__":
    main()
