"""Time and memory to read a GGUF header: a real file, and a sparse copy of it that claims to hold 40 GB.

Usage: python benchmarks/headers.py MODEL.gguf
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

REPEAT = 5
_CHILD = """
import resource, sys, time
from pathlib import Path
from suffice.loaders.gguf import read_gguf_header
base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
start = time.perf_counter()
read_gguf_header(Path(sys.argv[1]))
print(time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, base)
"""


def read(path: Path) -> tuple[float, float, float]:
    """Best time, and peak memory with and without the reading, in seconds and MiB."""
    results = []
    for _ in range(REPEAT):
        out = subprocess.run(
            [sys.executable, "-c", _CHILD, str(path)], capture_output=True, check=True, text=True
        ).stdout
        results.append([float(word) for word in out.split()])
    best = min(results)
    return best[0], best[1] / 1024, best[2] / 1024


def main(path: str) -> None:
    """Measure and print the table."""
    real = Path(path)
    print("| file | size, GB | header read, ms | peak memory, MiB | before, MiB |\n|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        sparse = Path(folder) / "sparse.gguf"
        with real.open("rb") as source, sparse.open("wb") as target:
            target.write(source.read(16 * 1024 * 1024))
        os.truncate(sparse, 40 * 10**9)
        for file in (real, sparse):
            seconds, peak, before = read(file)
            print(
                f"| {file.name} | {file.stat().st_size / 1e9:.2f} | {seconds * 1e3:.1f} | {peak:.1f} | {before:.1f} |"
            )


if __name__ == "__main__":
    main(sys.argv[1])
