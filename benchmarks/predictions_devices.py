"""How good predictions for devices are: errors and coverage where the device, or the model on it, had been left out.

Usage: python benchmarks/predictions_devices.py                       cross-validation on ../shared/data, all tables as Markdown
       python benchmarks/predictions_devices.py --shipped [--measured FILE.csv] [--cloud llama-bench.csv.gz]
                                                                      the calibration that ships, on these rows
       python benchmarks/predictions_devices.py --parameters          the calibrated parameters by class
"""

from __future__ import annotations

import argparse
import csv
import gzip
import math
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from suffice.predict.device_calibration import shipped_calibration
from suffice.predict.device_classes import DeviceClass
from suffice.predict.device_cross import Miss, coverage, cross_fitted, log_error, seen_devices, unseen_devices
from suffice.predict.device_measured import read_measured
from suffice.predict.device_samples import PUBLISHED, RENTED, cloud_samples, measured_samples
from suffice.predict.device_spread import EngineGroup, Familiarity
from suffice.predict.device_terms import DeviceCase, Parameter
from suffice.predict.device_words import EngineFamily, QuantFamily
from suffice.predict.machine import Phase
from suffice.units import GIGA, MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

from suffice.predict.device_cross import Sample

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT.parent / "shared" / "data"
LEAST_ROWS = 10
SHOWN = 12


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, which may be compressed."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(raw.decode("utf-8").splitlines()))


class Table:
    """Rows of a Markdown table: a selection of left-out rows, with its error and its coverage."""

    def __init__(self, misses: Sequence[Miss], held: Sequence[bool]) -> None:
        self.rows = list(zip(misses, held, strict=True))

    def head(self, title: str) -> None:
        """Title and column names."""
        print(
            f"\n### {title}\n\n| rows | n | products | median error | 90th | in the 80 % range |\n|---|---|---|---|---|---|"
        )

    def line(self, name: str, wanted: Callable[[Miss], bool], *, least: int = 1) -> None:
        """One row, if there are enough."""
        chosen = [(miss, held) for miss, held in self.rows if wanted(miss)]
        if len(chosen) < least:
            return
        errors = sorted(miss.relative_error for miss, _ in chosen)
        products = len({miss.sample.product for miss, _ in chosen})
        share = sum(held for _, held in chosen) / len(chosen)
        tail = errors[int(0.9 * (len(errors) - 1))]
        print(f"| {name} | {len(chosen)} | {products} | {median(errors):.1%} | {tail:.0%} | {share:.0%} |")

    def by(self, label: Callable[[Miss], str], wanted: Callable[[Miss], bool], *, least: int = LEAST_ROWS) -> None:
        """A row for each value of a label."""
        for name in sorted({label(miss) for miss, _ in self.rows if wanted(miss)}):
            self.line(name, lambda miss, name=name: wanted(miss) and label(miss) == name, least=least)  # type: ignore[misc]


def group_of(miss: Miss) -> EngineGroup:
    """The engine group of a left-out row."""
    return miss.cell[1]


def is_server(miss: Miss) -> bool:
    """Whether it is a server's CPU: those have a law of their own (suffice.predict.cpu)."""
    return "cpu server" in miss.sample.observation.case.device.path


def published(miss: Miss) -> bool:
    """Dense rows of measured.csv that are not of a server's CPU."""
    return miss.sample.source == PUBLISHED and group_of(miss) is not EngineGroup.MOE and not is_server(miss)


def native(miss: Miss) -> bool:
    """As above, without engines that wait for Python."""
    return published(miss) and group_of(miss) is not EngineGroup.FRAMEWORK


def native_of(kind: str, miss: Miss) -> bool:
    """As above, of one kind of device."""
    return native(miss) and miss.sample.kind == kind


def size_class(miss: Miss) -> str:
    """Weight bytes of a step, in classes."""
    gigabytes = miss.sample.observation.work.weight_bytes / GIGA
    return (
        "under 1.5 GB"
        if gigabytes < 1.5
        else "1.5 to 4 GB"
        if gigabytes < 4
        else "4 to 10 GB"
        if gigabytes < 10
        else "over 10 GB"
    )


def report(title: str, misses: Sequence[Miss], held: Sequence[bool]) -> None:
    """All tables of a phase."""
    table = Table(misses, held)
    table.head(title)
    table.line("**desktops, laptops, Apple, GPUs: all engines**", published)
    table.line("**the same, without Python frameworks**", native)
    for kind in ("gpu", "apple", "cpu"):
        table.line(f"{kind}, without Python frameworks", partial(native_of, kind))
    table.line(
        "rented GPUs (llama.cpp b4753), one",
        lambda miss: miss.sample.source == RENTED and group_of(miss) is not EngineGroup.SEVERAL,
    )
    table.line("rented GPUs, several", lambda miss: group_of(miss) is EngineGroup.SEVERAL)
    table.line("mixtures of experts", lambda miss: group_of(miss) is EngineGroup.MOE)
    table.line("server CPUs in measured.csv", lambda miss: is_server(miss) and group_of(miss) is not EngineGroup.MOE)
    table.line("everything together", lambda _: True)
    table.head(f"{title}: by class")
    table.by(lambda miss: "/".join(miss.sample.observation.case.device.path[:2]), published)
    table.by(
        lambda miss: "rented: " + miss.sample.observation.case.device.path[-1],
        lambda miss: miss.sample.source == RENTED,
    )
    table.head(f"{title}: by engine")
    table.by(lambda miss: miss.sample.observation.case.engine.value, published)
    table.head(f"{title}: by format")
    table.by(lambda miss: miss.sample.observation.case.quant.value, published)
    table.head(f"{title}: by size")
    table.by(size_class, published)
    table.head(f"{title}: by model, 50 rows or more")
    table.by(
        lambda miss: miss.sample.model.split(":")[0],
        lambda miss: published(miss) or miss.sample.source == RENTED,
        least=50,
    )


def cross_validation(samples: Sequence[Sample], phase: Phase) -> None:
    """Left-out devices, then left-out models on devices that were seen."""
    unseen, seen = unseen_devices(samples, phase), seen_devices(samples, phase)
    spread = cross_fitted([*unseen, *seen])
    report(f"{phase}, device never seen", unseen, coverage(unseen, spread))
    report(f"{phase}, device seen, this model on it not", seen, coverage(seen, spread))
    pooled = Table([*unseen, *seen], coverage([*unseen, *seen], spread))
    pooled.head(f"{phase}, both together: coverage")
    pooled.line("**all rows**", lambda _: True)
    pooled.by(lambda miss: group_of(miss).value, lambda _: True)
    pooled.by(lambda miss: "familiar: " + miss.familiarity.value, lambda _: True)


def shipped(samples: Sequence[Sample], phase: Phase) -> None:
    """The shipped calibration on these rows."""
    calibration = shipped_calibration()
    misses = [
        Miss(
            sample=sample,
            familiarity=calibration.support[phase].familiarity(sample.observation.case),
            log_error=log_error(calibration.parameters, sample.observation, phase),
        )
        for sample in samples
    ]
    spreads = calibration.spreads[phase]
    report(f"{phase}, shipped calibration", misses, coverage(misses, lambda miss: spreads.of(*miss.cell)))
    table = Table(misses, coverage(misses, lambda miss: spreads.of(*miss.cell)))
    table.head(f"{phase}, shipped calibration: by familiarity")
    for familiarity in Familiarity:
        table.line(familiarity.value, lambda miss, f=familiarity: miss.familiarity is f)  # type: ignore[misc]


def refused(rows: Sequence[dict[str, str]]) -> None:
    """What is not predicted, and why."""
    read = [read_measured(row) for row in rows]
    print("\n### Rows of measured.csv that are not used\n\n| why | rows |\n|---|---|")
    reasons = Counter(row.refusal for row in read if row.refusal)
    for reason, count in reasons.most_common():
        print(f"| {reason} | {count} |")
    flags: Counter[str] = Counter()
    for row in read:
        if not row.refusal and not row.usable:
            flags.update(row.flags)
    for flag, count in flags.most_common():
        print(f"| flag: {flag} | {count} |")
    above = [row for row in read if row.contradiction is not None and "moe" not in row.flags]
    print(
        f"\nRows of dense models above their ceiling: {len(above)}, of which flagged in the file: {sum(bool(row.flags) for row in above)}."
    )
    for row in above[:SHOWN]:
        print(f"- {row.id} {row.hardware}, {row.model} {row.quant}: {row.contradiction}")


def parameters() -> None:
    """Efficiency and fixed cost by class, for llama.cpp and 32 layers, by format; factors of engines."""
    calibration = shipped_calibration().parameters
    paths = {
        case.device.name: case.device.path
        for row in read_table(DATA / "measured.csv")
        if (case := read_measured(row).case)
    }
    formats = (QuantFamily.WIDE, QuantFamily.EIGHT_BIT, QuantFamily.BLOCK, QuantFamily.K_QUANT)
    print(
        "| class | e, 16-bit | e, 8-bit | e, 4-bit blocks | e, k-quants | c, ms | k | r, FLOP/byte |\n|---|---|---|---|---|---|---|---|"
    )
    for name, path in sorted(paths.items()):
        device = DeviceClass(path=path, key=None)
        resolved = [
            calibration.resolve(DeviceCase(device=device, quant=quant, engine=EngineFamily.LLAMA_CPP))
            for quant in formats
        ]
        cells = [f"{one.efficiency:.2f}" for one in resolved]
        last = resolved[-1]
        cells += [
            f"{last.overhead_s * MILLISECONDS_PER_SECOND:.2f}",
            f"{last.cache_cost:.1f}",
            f"{last.intensity_flop_per_byte:.0f}",
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    engines: dict[str, list[str]] = defaultdict(list)
    for parameter in (Parameter.EFFICIENCY, Parameter.OVERHEAD, Parameter.CACHE_COST):
        for key, value in calibration.logs[parameter].items():
            if key.startswith("engine:"):
                engines[key].append(f"{parameter} x {math.exp(value):.2f}")
    print("\n| engine | factors |\n|---|---|")
    for key, texts in sorted(engines.items()):
        print(f"| {key.removeprefix('engine:')} | {', '.join(texts)} |")


def main() -> None:
    """Parse, compute, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--measured", type=Path, default=DATA / "measured.csv")
    parser.add_argument("--cloud", type=Path, default=DATA / "cloud" / "llama-bench.csv.gz")
    parser.add_argument("--shipped", action="store_true")
    parser.add_argument("--parameters", action="store_true")
    options = parser.parse_args()
    if options.parameters:
        parameters()
        return
    published_rows, rented_rows = read_table(options.measured), read_table(options.cloud)
    for phase in Phase:
        samples = measured_samples(published_rows, phase, moe=True) + cloud_samples(rented_rows, phase)
        (shipped if options.shipped else cross_validation)(samples, phase)
    refused(published_rows)


if __name__ == "__main__":
    main()
