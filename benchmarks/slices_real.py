"""A real file against its own shape and recipe: the real SmolLM2-135M Q4_1 and a stand-in of random weights, in turns.

Usage: python benchmarks/slices_real.py MODEL.gguf SHAPE:QUANT [--rounds N] [--engine-library FILE]
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import Final

from suffice.loaders.gguf import read_gguf_header
from suffice.loaders.reference import resolve_model
from suffice.loaders.shape_model import ShapeModel
from suffice.measure.engine.blocks import EngineBlocks
from suffice.measure.engine.client import find_engine
from suffice.measure.engine.seam import EngineSettings, Session
from suffice.model.slices import whole_model
from suffice.slices.cache import SliceCache
from suffice.stats.intervals import median, quantile

PROMPT_TOKENS: Final = 512
STEPS: Final = 32
WAKING_STEPS: Final = 4


def compare_headers(real: Path, model: ShapeModel) -> None:
    """Types and dimensions, tensor by tensor."""
    theirs = {tensor.name: (tensor.dims, tensor.type_name) for tensor in read_gguf_header(real).tensors}
    ours = {tensor.name: (tensor.dims, tensor.type_name) for tensor in model.header.tensors}
    differ = sorted(name for name in theirs.keys() | ours.keys() if theirs.get(name) != ours.get(name))
    print(
        f"{len(theirs)} tensors in {real.name}, {len(ours)} in {model.reference}, {len(differ)} differ {differ[:5] or ''}"
    )


def main() -> None:
    """Parse and run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("real", type=Path)
    parser.add_argument("shape")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--engine-library", type=Path)
    arguments = parser.parse_args()
    model = resolve_model(arguments.shape)
    if not isinstance(model, ShapeModel):
        raise SystemExit(f"{arguments.shape} is a file; give a shape and a quantization")
    compare_headers(arguments.real, model)
    engine = find_engine(library=arguments.engine_library)
    settings = EngineSettings(n_ctx=1024, n_threads=2, n_threads_batch=2, flash_attention="off")
    with tempfile.TemporaryDirectory() as scratch, EngineBlocks(engine.choice) as blocks:
        design = whole_model(model.header)
        path = SliceCache(Path(scratch) / "cache").obtain(
            design.slice_header(design.plans[0]), blocks, progress=lambda _text: None
        )
        with engine.open(arguments.real, settings) as real, engine.open(path, settings) as stand_in:
            rows = measured([real, stand_in], arguments.rounds)
    for what, (of_real, of_stand_in) in rows.items():
        print(
            f"{what}: real {median(of_real):.2f} ms, stand-in {median(of_stand_in):.2f} ms, "
            f"ratio of medians {median(of_stand_in) / median(of_real):.3f}, "
            f"of fast quartiles {quantile(of_stand_in, 0.25) / quantile(of_real, 0.25):.3f}; "
            f"real against itself {median(of_real[::2]) / median(of_real[1::2]):.3f}"
        )


def measured(sessions: list[Session], rounds: int) -> dict[str, tuple[list[float], list[float]]]:
    """Milliseconds of both, by kind of work; the order changes from round to round."""
    rows: dict[str, tuple[list[float], list[float]]] = {"prefill 512": ([], []), "decode at depth 512": ([], [])}
    for done in range(rounds):
        for index in (0, 1) if done % 2 else (1, 0):
            session = sessions[index]
            rows["prefill 512"][index].append(1e3 * sum(session.prefill(PROMPT_TOKENS).seconds))
            steps = session.decode(WAKING_STEPS + STEPS)[WAKING_STEPS:]
            rows["decode at depth 512"][index].append(1e3 * median(steps))
    return rows


if __name__ == "__main__":
    main()
