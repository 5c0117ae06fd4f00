"""Draws the parameters of the CPU physics: `python benchmarks/plot_cpu_parameters.py` writes docs/img/cpu-rates.svg (matplotlib)."""

from __future__ import annotations

from pathlib import Path

import matplotlib as mpl
import numpy as np
from matplotlib import pyplot as plt

from suffice.predict.cpu_data import shipped_cpu_model
from suffice.predict.cpu_features import CORES
from suffice.predict.machine import Phase
from suffice.units import GIGA

TARGET = Path(__file__).resolve().parent.parent / "docs" / "img" / "cpu-rates.svg"


def main() -> None:
    """One row a generation: rates of both phases on a logarithmic axis, and the efficiency of decode."""
    mpl.rcParams.update({"svg.hashsalt": "suffice", "svg.fonttype": "none"})
    model = shipped_cpu_model()
    decode, prefill = (model.phases[phase].passes for phase in (Phase.DECODE, Phase.PREFILL))
    shown = [index for index, core in enumerate(CORES) if index]
    shown.sort(key=lambda index: float(prefill.rate[index]))
    place = np.arange(len(shown))
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 5.5), sharey=True, width_ratios=(3, 2))
    left.plot(decode.rate[shown] / GIGA, place, "o", label="decode")
    left.plot(prefill.rate[shown] / GIGA, place, "s", label="prefill")
    left.set(xscale="log", xlabel="rate of one core, billion parameters x tokens per second")
    left.set_yticks(place, [CORES[index] for index in shown])
    left.legend()
    right.plot(decode.efficiency[shown], place, "o", color="tab:green")
    right.set(xlim=(0, 1), xlabel="share of the bandwidth that decode streams with")
    for axes in (left, right):
        axes.grid(alpha=0.3)
    figure.tight_layout()
    TARGET.parent.mkdir(exist_ok=True)
    figure.savefig(TARGET, metadata={"Date": None})


if __name__ == "__main__":
    main()
