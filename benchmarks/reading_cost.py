"""What the readings between repetitions cost on this machine: counters, delays of threads, page cache, reference kernel.

    python benchmarks/reading_cost.py [MODEL.gguf]

A process with sixteen sleeping threads stands for the engine. Prints the median and the 90th percentile of each reading, and what the
reference kernel read.
"""

from __future__ import annotations

import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.measure.counters import system_counters
from suffice.measure.cpu import read_cpu_facts
from suffice.measure.engine.pagecache import resident_share_sampled
from suffice.measure.limits import read_cpu_limits, read_memory_limits
from suffice.measure.memory_state import read_memory_state
from suffice.measure.reference_kernel import ReferenceKernel
from suffice.measure.run_queue import system_threads
from suffice.stats.intervals import quantile
from suffice.units import MILLISECONDS_PER_SECOND

if TYPE_CHECKING:
    from collections.abc import Callable

READINGS: Final = 200
REFERENCE_READINGS: Final = 9
ENGINE: Final = (
    "import threading, time\n"
    "for _ in range(15): threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
    "print(flush=True); time.sleep(60)"
)


def report(name: str, read: Callable[[], object], count: int = READINGS) -> None:
    """Time a reading and print it."""
    seconds = []
    for _ in range(count):
        begin_s = time.perf_counter()
        read()
        seconds.append(time.perf_counter() - begin_s)
    median_ms, p90_ms = (MILLISECONDS_PER_SECOND * quantile(seconds, share) for share in (0.5, 0.9))
    print(f"{name}: median {median_ms:.3f} ms, P90 {p90_ms:.3f} ms")


def main() -> None:
    """Time every reading."""
    model = Path(sys.argv[1] if len(sys.argv) > 1 else sys.executable).resolve()
    limits, cpu = read_cpu_limits(), read_cpu_facts()
    print(f"{platform.platform()}, {cpu.model_name}, {limits.usable_cpus} usable CPUs")
    with subprocess.Popen([sys.executable, "-c", ENGINE], stdout=subprocess.PIPE) as engine:
        if engine.stdout is not None:
            engine.stdout.readline()  # its threads are there
        counters, threads = system_counters(limits), system_threads((engine.pid,))
        report("all counters, once a run", counters.read, 20)
        report("counters of a repetition", counters.read_quick)
        report("delays and switches of 16 threads", threads.read)
        report("delays of 16 threads (a window)", lambda: threads.read(switches=False))
        report(f"page cache of {model.name}", lambda: resident_share_sampled(model))
        report("memory of a small process, once a series", lambda: read_memory_state(engine.pid, (model,)), 20)
        engine.kill()
    for count in (1, limits.usable_cpus):
        usable_bytes = read_memory_limits().usable_bytes
        with ReferenceKernel(count, llc_bytes=cpu.llc_bytes, usable_bytes=usable_bytes) as kernel:
            readings = [kernel.read() for _ in range(REFERENCE_READINGS)]
        for name, values in (
            ("cost", [one.cost_s for one in readings]),
            ("reading memory", [one.memory_s for one in readings if one.memory_s is not None]),
            ("computing", [one.compute_s for one in readings if one.compute_s is not None]),
        ):
            told = ", ".join(f"{MILLISECONDS_PER_SECOND * value:.2f}" for value in values)
            print(f"reference kernel on {count} threads, {name}, ms: {told}")


if __name__ == "__main__":
    main()
