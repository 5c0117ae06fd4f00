"""Time of `suffice --help` and of `import suffice`, beside an empty interpreter, interleaved.

Usage: python benchmarks/startup.py
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import suffice": [sys.executable, "-c", "import suffice"],
    "suffice --help": [sys.executable, "-m", "suffice", "--help"],
}
ROUNDS = 15


def main() -> None:
    """Measure and print the table."""
    times: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for _ in range(ROUNDS):
        for name, command in COMMANDS.items():
            start = time.perf_counter()
            subprocess.run(command, check=True, capture_output=True)
            times[name].append(time.perf_counter() - start)
    print("| command | median, s | fastest, s |\n|---|---|---|")
    for name, values in times.items():
        print(f"| {name} | {statistics.median(values):.3f} | {min(values):.3f} |")


if __name__ == "__main__":
    main()
