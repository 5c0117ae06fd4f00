"""What the article's script calls decode throughput, against prefill and decode measured apart, on one machine and model.

The article divides all generated tokens by the wall time of prefill and decode together. This script does the same sum with
timed sessions at two prompt lengths. Usage: python benchmarks/article_script.py MODEL.gguf
"""

from __future__ import annotations

import math
import sys
from pathlib import Path

from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings

OUTPUT_TOKENS = 128


def main(path: str) -> None:
    """Measure and print the table."""
    print(
        "| prompt tokens | prefill, s | decode of 128, s | article: 128 / (prefill + decode) | suffice: decode, tokens/s |"
    )
    print("|---|---|---|---|---|")
    with find_engine().open(Path(path), EngineSettings(n_ctx=2560, n_threads=2, n_threads_batch=2)) as session:
        session.prefill(64)
        session.decode(4)
        for prompt_tokens in (16, 512, 2048):
            prefill_s = math.fsum(session.prefill(prompt_tokens).seconds)
            decode_s = math.fsum(session.decode(OUTPUT_TOKENS))
            print(
                f"| {prompt_tokens} | {prefill_s:.2f} | {decode_s:.2f} | {OUTPUT_TOKENS / (prefill_s + decode_s):.1f} | "
                f"{OUTPUT_TOKENS / decode_s:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main(sys.argv[1])
