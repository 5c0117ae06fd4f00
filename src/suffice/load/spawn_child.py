"""The child of :mod:`suffice.load.spawn`: llama.cpp's server until its input ends."""

from __future__ import annotations

import json
import os
import sys


def main(model: str, slots: int, context: int, threads: int) -> None:
    """Serve, say where, and end at once when the parent closes our input or dies."""
    import xllamacpp  # type: ignore[import-untyped]  # noqa: PLC0415  # only the child loads the engine

    params = xllamacpp.CommonParams()
    params.model.path = model
    params.n_parallel = slots
    params.n_ctx = context
    params.port = 0
    params.warmup = True
    if threads:
        params.cpuparams.n_threads = threads
        params.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    sys.stdout.write(json.dumps({"listening": server.listening_address}) + "\n")
    sys.stdout.flush()
    sys.stdin.buffer.read()
    os._exit(0)  # the library's threads do not always end; there is nothing of ours to save


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
