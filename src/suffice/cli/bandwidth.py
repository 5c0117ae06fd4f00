"""``suffice bandwidth``: this machine's sustained read bandwidth."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options

if TYPE_CHECKING:
    from suffice.measure.bandwidth import BandwidthResult


def bandwidth(
    budget: options.Budget = None,
    threads: options.Threads = None,
    buffer_mib: Annotated[
        int | None,
        typer.Option("--buffer-mib", min=1, help="Size of the buffer. Default: 4 times the last-level cache."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="FILE", help="Also write the JSON document here.")
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Sustained read bandwidth of this machine's memory: the best of several kernels over a sweep of thread counts.

    It is a measured lower bound: a faster kernel may exist, and neighbours may be using the memory bus.

    Example: suffice bandwidth --json
    """
    from suffice.cli.output import Progress, print_json, print_text
    from suffice.cli.paths import check_outputs
    from suffice.measure.bandwidth import DEFAULT_BUDGET_S, measure_bandwidth
    from suffice.measure.cpu import read_cpu_facts
    from suffice.measure.limits import read_cpu_limits, read_memory_limits
    from suffice.records.store import write_atomically
    from suffice.report.bandwidth import bandwidth_text
    from suffice.report.json_values import json_text
    from suffice.units import MIB

    check_outputs({"--out": out}, [])
    limits = read_cpu_limits()
    with Progress() as progress:
        result = measure_bandwidth(
            limits,
            read_cpu_facts(cpus=limits.cpus),
            read_memory_limits(),
            budget_s=DEFAULT_BUDGET_S if budget is None else budget,
            buffer_bytes=None if buffer_mib is None else buffer_mib * MIB,
            threads=threads,
            progress=progress,
        )
    document = _document(result, limits.usable_cpus)
    if out is not None:
        write_atomically(out, json_text(document) + "\n")
    if json_output:
        print_json(document)
        return
    print_text(bandwidth_text(result))


def _document(result: BandwidthResult, usable_cpus: int) -> dict[str, Any]:
    from dataclasses import asdict

    interval = result.read.interval
    return {
        "read_bytes_per_s": result.read.point,
        "interval": None if interval is None else asdict(interval),
        "samples_bytes_per_s": list(result.read.samples),
        "threads": result.threads,
        "kernel": result.kernel,
        "buffer_bytes": result.buffer_bytes,
        "llc_bytes": result.llc_bytes,
        "cache_resident": result.cache_resident,
        "method": result.method,
        "basis": result.basis.value,
        "usable_cpus": usable_cpus,
        "candidates": [asdict(candidate) for candidate in result.candidates],
    }
