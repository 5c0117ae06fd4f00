"""What the main job costs on this machine: seconds, memory of all its processes together, and bytes of its cache, from nothing.

    python -m benchmarks.demo_cost [ARGUMENTS of `suffice check`]

Without arguments the job is that of ``scripts/demo``: a stream of 8 tokens/s from Llama-2-7B Q4_0, with a margin of 1.5. The cache is a folder of
its own, which is removed afterwards.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil

from suffice.units import GIB, format_bytes

DEMO = ("--model", "llama-2-7b:q4_0", "--need", "8", "--margin", "1.5")
_EVERY_S = 0.1


def main() -> None:
    """Run it and print a line."""
    command = [sys.executable, "-m", "suffice", "check", *(sys.argv[1:] or DEMO)]
    with tempfile.TemporaryDirectory() as folder:
        places = {"HOME": folder, "XDG_CACHE_HOME": str(Path(folder) / "cache")}
        start, most = time.monotonic(), 0
        job = subprocess.Popen(command, cwd=folder, env=os.environ | places)
        while job.poll() is None:
            most = max(most, _resident_bytes(job.pid))
            time.sleep(_EVERY_S)
        spent_s = time.monotonic() - start
        files = [path.stat() for path in (Path(folder) / "cache").rglob("*") if path.is_file()]
        cached = sum({one.st_ino: one.st_size for one in files}.values())  # parts of slices are linked, not copied
    print(
        f"exit code {job.returncode}; {spent_s:.0f} s; {most / GIB:.1f} GiB resident; {format_bytes(cached)} of cache"
    )


def _resident_bytes(pid: int) -> int:
    """Of a process and all below it; pages that they share count for each."""
    with suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        total = 0
        for one in (parent, *parent.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                total += one.memory_info().rss
        return total
    return 0


if __name__ == "__main__":
    main()
