"""Calibrates predictions for devices on published and rented measurements, and writes what ships.

Usage: python benchmarks/fit_device_predictions.py [--data ../shared/data]

Writes src/suffice/predict/data/device_calibration.json (factors, what they rest on, how far left-out rows were off) and
device_elsewhere.csv (the published rows themselves, with their sources; none of the CC BY-SA cloud data).
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
from pathlib import Path
from types import MappingProxyType

from suffice.predict.device_calibration import DeviceCalibration, to_document
from suffice.predict.device_cross import fit_phase, seen_devices, spreads_of, support_of, unseen_devices
from suffice.predict.device_elsewhere import elsewhere_rows
from suffice.predict.device_fit import joined
from suffice.predict.device_samples import cloud_samples, measured_samples
from suffice.predict.machine import Phase

ROOT = Path(__file__).resolve().parents[1]
SHIPPED = ROOT / "src" / "suffice" / "predict" / "data"


def read_table(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file, which may be compressed."""
    raw = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return list(csv.DictReader(raw.decode("utf-8").splitlines()))


def main() -> None:
    """Fit, cross-validate, write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data")
    data: Path = parser.parse_args().data
    published = read_table(data / "measured.csv")
    rented = read_table(data / "cloud" / "llama-bench.csv.gz")
    parameters, support, spreads = {}, {}, {}
    for phase in Phase:
        samples = measured_samples(published, phase, moe=True) + cloud_samples(rented, phase)
        parameters[phase] = fit_phase(samples, phase)
        support[phase] = support_of(samples)
        spreads[phase] = spreads_of(unseen_devices(samples, phase) + seen_devices(samples, phase))
        print(f"{phase}: {len(samples)} rows, {len(support[phase].rows)} products")
    calibration = DeviceCalibration(
        parameters=joined(parameters[Phase.DECODE], parameters[Phase.PREFILL]),
        support=MappingProxyType(support),
        spreads=MappingProxyType(spreads),
    )
    document = json.dumps(to_document(calibration), indent=1, ensure_ascii=False)
    (SHIPPED / "device_calibration.json").write_text(document + "\n", encoding="utf-8")
    write_elsewhere(published)


def write_elsewhere(published: list[dict[str, str]]) -> None:
    """The published rows that may be shown as measured elsewhere."""
    rows = elsewhere_rows(published)
    with (SHIPPED / "device_elsewhere.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    print(f"{len(rows)} rows measured elsewhere")


if __name__ == "__main__":
    main()
