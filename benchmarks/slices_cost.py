"""What a shape costs to measure: time, memory and disk of `suffice measure`, from an empty cache and again from the full one.

Usage: python benchmarks/slices_cost.py [SHAPE:QUANT ...] [--engine-library FILE]

Memory is the resident memory of the command and all its children together, sampled ten times a second; disk is what the cache holds.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import psutil

from suffice.records.store import load_record
from suffice.units import GIB

DEFAULT: Final = ("llama-2-7b:q4_k_m", "llama-3.1-8b:q4_k_m", "llama-3.1-70b:q4_k_m")
SAMPLE_S: Final = 0.1


def run(shape: str, cache: Path, out: Path, engine_library: Path | None) -> tuple[float, int]:
    """Seconds and peak resident bytes of one run."""
    command = [sys.executable, "-m", "suffice", "measure", shape, "--out", str(out)]
    if engine_library is not None:
        command += ["--engine-library", str(engine_library)]
    started_s, peak = time.perf_counter(), 0
    with subprocess.Popen(
        command,
        env={**os.environ, "SUFFICE_CACHE_DIR": str(cache)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        while process.poll() is None:
            peak = max(peak, resident_bytes(process.pid))
            time.sleep(SAMPLE_S)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}")
    return time.perf_counter() - started_s, peak


def resident_bytes(pid: int) -> int:
    """Of a process and all its children."""
    total = 0
    try:
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.NoSuchProcess:
        return 0
    for process in tree:
        try:
            total += process.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def disk_bytes(folder: Path) -> int:
    """What the files take; a file with several names counts once."""
    seen = {
        (status.st_dev, status.st_ino): status.st_blocks * 512 for path in folder.rglob("*") if (status := path.lstat())
    }
    return sum(seen.values())


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(DEFAULT))
    parser.add_argument("--engine-library", type=Path)
    arguments = parser.parse_args()
    print("| shape | cache | seconds | peak memory (GiB) | disk (GiB) | decode (tokens/s) |\n|---|---|---|---|---|---|")
    for shape in arguments.shapes:
        with tempfile.TemporaryDirectory() as scratch:
            cache, out = Path(scratch) / "cache", Path(scratch) / "run.json"
            for state in ("empty", "full"):
                seconds, peak = run(shape, cache, out, arguments.engine_library)
                rate = load_record(out).decode_tokens_per_second
                print(
                    f"| {shape} | {state} | {seconds:.0f} | {peak / GIB:.2f} | {disk_bytes(cache) / GIB:.2f} | {rate or 0:.3g} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
