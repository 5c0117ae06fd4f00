"""The compact table of real measurements that ships with the package."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np

from suffice.predict.elsewhere import machine_key, task_key
from suffice.predict.machine import Phase

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt


def elsewhere_arrays(folder: Path) -> dict[str, npt.NDArray[Any]]:
    """Machines x tasks: rates, spreads of the repetitions, threads, dates."""
    dates = _dates(folder)
    cells: dict[tuple[str, str], tuple[float, float]] = {}
    threads: dict[str, int] = {}
    when: dict[str, str] = {}
    ran_on: dict[str, str] = {}
    with gzip.open(folder / "llama-bench.csv.gz", "rt", newline="") as file:
        for row in csv.DictReader(file):
            gpu = row["backend"] != "CPU"
            machine = machine_key(row["vendor"], row["instance"], gpu=gpu)
            generated = int(row["n_gen"])
            phase, tokens = (Phase.DECODE, generated) if generated else (Phase.PREFILL, int(row["n_prompt"]))
            rate = float(row["tok_s_median"])
            spread = (float(row["tok_s_max"]) - float(row["tok_s_min"])) / rate
            cells[machine, task_key(row["model"], phase, tokens)] = (rate, spread)
            threads[machine] = int(row["threads"])
            ran_on[machine] = row["llm_cpu"]
            when[machine] = dates[row["vendor"], row["instance"]]
    machines, tasks = sorted(threads), sorted({task for _, task in cells})
    rates = np.full((len(machines), len(tasks)), np.nan, dtype=np.float32)
    spreads = np.zeros((len(machines), len(tasks)), dtype=np.float16)
    for i, machine in enumerate(machines):
        for j, task in enumerate(tasks):
            if (machine, task) in cells:
                rates[i, j], spreads[i, j] = cells[machine, task]
    return {
        "machines": np.array(machines),
        "tasks": np.array(tasks),
        "rates": rates,
        "spreads": spreads,
        "threads": np.array([threads[machine] for machine in machines], dtype=np.int16),
        "ran_on": np.array([ran_on[machine] for machine in machines]),
        "dates": np.array([when[machine] for machine in machines]),
        "build": np.array(4753),
    }


def _dates(folder: Path) -> dict[tuple[str, str], str]:
    with gzip.open(folder / "machines.csv.gz", "rt", newline="") as file:
        return {(row["vendor"], row["instance"]): row["llm_date"] for row in csv.DictReader(file)}
