"""How each family of vision models cuts an image into views and tokens, as its authors' preprocessors do (docs/vision.md has the sources)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable

_MOST_STRETCHED: Final = 200  # Qwen's preprocessor refuses images that are longer in proportion


@dataclass(frozen=True, slots=True, kw_only=True)
class Encoder:
    """A vision transformer.

    ``full_layers`` of its layers see the whole view; the others see ``window_patches`` patches. ``layers`` are those that run.
    """

    layers: int
    width: int
    feed_forward: int
    full_layers: int
    gated: bool = False
    window_patches: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Views:
    """What an image becomes: ``tokens`` in the prompt, and the patches of each view that the encoder runs."""

    tokens: int
    patches: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class VisionRule:
    """The rule of one family. ``source`` is where its authors publish it."""

    name: str
    encoder: Encoder
    views: Callable[[int, int], Views]
    source: str


def _merged(width_px: int, height_px: int, *, patch_px: int, merge: int, least_px: int, most_px: int) -> Views:
    """Qwen's smart_resize: sides to multiples of a merged patch, the area between two limits, the proportions kept."""
    if max(width_px, height_px) > _MOST_STRETCHED * min(width_px, height_px):
        raise ValueError(
            f"an image of {width_px} x {height_px} pixels is too long for its width, beyond {_MOST_STRETCHED}:1"
        )
    step = patch_px * merge
    width, height = (max(step, round(side / step) * step) for side in (width_px, height_px))
    if width * height > most_px:
        shrink = math.sqrt(width_px * height_px / most_px)
        width, height = (max(step, math.floor(side / shrink / step) * step) for side in (width_px, height_px))
    elif width * height < least_px:
        grow = math.sqrt(least_px / (width_px * height_px))
        width, height = (math.ceil(side * grow / step) * step for side in (width_px, height_px))
    patches = (width // patch_px) * (height // patch_px)
    return Views(tokens=patches // merge**2, patches=(patches,))


def _fixed(_width_px: int, _height_px: int, *, tokens: int, patches: int) -> Views:
    """Every image is resized to one size."""
    return Views(tokens=tokens, patches=(patches,))


_NEXT_SIZES: Final = ((336, 672), (672, 336), (672, 672), (1008, 336), (336, 1008))  # height, width
_NEXT_TILE_PX: Final = 336
_NEXT_SIDE: Final = 24  # patches of a tile's side


def _llava_next(width_px: int, height_px: int) -> Views:
    """LLaVA-NeXT: the size that wastes least, in tiles; padding is cut off again, each row ends with a token, and the whole comes before."""

    def fit(size: tuple[int, int]) -> tuple[int, int]:
        scale = min(size[1] / width_px, size[0] / height_px)
        kept = min(int(width_px * scale) * int(height_px * scale), width_px * height_px)
        return kept, kept - size[0] * size[1]  # most of the image, and then least waste

    height, width = max(_NEXT_SIZES, key=fit)
    rows, columns = height // _NEXT_TILE_PX * _NEXT_SIDE, width // _NEXT_TILE_PX * _NEXT_SIDE
    if width_px / height_px > columns / rows:
        rows -= (rows - int(round(height_px * (columns / width_px), 7))) // 2 * 2
    else:
        columns -= (columns - int(round(width_px * (rows / height_px), 7))) // 2 * 2
    tiles = height // _NEXT_TILE_PX * (width // _NEXT_TILE_PX)
    return Views(tokens=rows * columns + rows + _NEXT_SIDE**2, patches=(_NEXT_SIDE**2 + 1,) * (tiles + 1))


def _internvl(width_px: int, height_px: int, *, tile_px: int, most_tiles: int) -> Views:
    """InternVL: the grid of tiles whose proportions are nearest, of two the larger if the image fills half of it; and a thumbnail."""
    grids = sorted(
        ((i, j) for i in range(1, most_tiles + 1) for j in range(1, most_tiles // i + 1)),
        key=lambda grid: grid[0] * grid[1],
    )
    proportion, best, best_gap = width_px / height_px, (1, 1), math.inf
    for grid in grids:
        gap = abs(proportion - grid[0] / grid[1])
        fills = width_px * height_px > tile_px**2 * grid[0] * grid[1] / 2
        if gap < best_gap or (gap == best_gap and fills):
            best, best_gap = grid, gap
    tiles = best[0] * best[1]
    views = tiles + (1 if tiles > 1 else 0)
    side = tile_px // 14
    return Views(tokens=views * side**2 // 4, patches=(side**2 + 1,) * views)


def _minicpm(width_px: int, height_px: int, *, slice_px: int, most_slices: int, tokens: int) -> Views:
    """MiniCPM-V: the whole at about ``slice_px`` squared, and slices of that area in the grid whose proportions are nearest."""
    wanted = min(math.ceil(width_px * height_px / slice_px**2), most_slices)
    slices = 0
    if wanted > 1:
        proportion = math.log(width_px / height_px)
        counts = [count for count in (wanted - 1, wanted, wanted + 1) if 1 < count <= most_slices]
        grids = [(i, count // i) for count in counts for i in range(1, count + 1) if count % i == 0]
        columns, rows = min(grids, key=lambda grid: abs(proportion - math.log(grid[0] / grid[1])))
        slices = columns * rows
    return Views(tokens=tokens * (slices + 1), patches=((slice_px // 14) ** 2,) * (slices + 1))


def _idefics3(width_px: int, height_px: int, *, longest_px: int, tile_px: int, tokens: int, patch_px: int) -> Views:
    """SmolVLM (Idefics 3): the longest side to ``longest_px``, both up to multiples of a tile, and the whole behind."""
    long_px, short_px = max(width_px, height_px), min(width_px, height_px)
    short = int(longest_px * short_px / long_px)
    across, along = max(1, math.ceil(short / tile_px)), math.ceil(longest_px / tile_px)
    views = across * along + 1 if along > 1 else 1
    return Views(tokens=views * tokens, patches=((tile_px // patch_px) ** 2,) * views)


def _mllama(width_px: int, height_px: int, *, tile_px: int, most_tiles: int) -> Views:
    """Llama 3.2 Vision: the canvas that enlarges least, else shrinks least. The image is seen by cross-attention: one token marks it.

    The encoder puts the patches of all tiles into one sequence, so that each sees those of every tile: one view (modeling_mllama.py).
    """
    canvases = [(i, j) for i in range(1, most_tiles + 1) for j in range(1, most_tiles // i + 1)]  # columns, rows
    scales = {grid: min(grid[0] * tile_px / width_px, grid[1] * tile_px / height_px) for grid in canvases}
    enlarging = [scale for scale in scales.values() if scale >= 1]
    scale = min(enlarging) if enlarging else max(scales.values())
    columns, rows = min((grid for grid in canvases if scales[grid] == scale), key=lambda grid: grid[0] * grid[1])
    return Views(tokens=1, patches=(((tile_px // 14) ** 2 + 1) * columns * rows,))


_SO400M: Final = Encoder(
    layers=27, width=1152, feed_forward=4304, full_layers=27
)  # SigLIP so400m, 0.4 billion parameters
_CLIP_L: Final = Encoder(
    layers=23, width=1024, feed_forward=4096, full_layers=23
)  # of 24: LLaVA takes what the last but one gives
_INTERN_300M: Final = Encoder(layers=24, width=1024, feed_forward=4096, full_layers=24)
_SIGLIP_B: Final = Encoder(layers=12, width=768, feed_forward=3072, full_layers=12)
_QWEN2: Final = Encoder(layers=32, width=1280, feed_forward=5120, full_layers=32)
# Windows of 112 px are 8 x 8 patches; four layers see everything.
_QWEN25: Final = Encoder(layers=32, width=1280, feed_forward=3420, gated=True, full_layers=4, window_patches=64)
_MLLAMA: Final = Encoder(layers=40, width=1280, feed_forward=5120, full_layers=40)  # 32 and 8 global ones

RULES: Final = (
    VisionRule(
        name="qwen2-vl",
        encoder=_QWEN2,
        views=partial(_merged, patch_px=14, merge=2, least_px=56 * 56, most_px=16384 * 28 * 28),
        source="arXiv:2409.12191 section 2.1; transformers image_processing_qwen2_vl.smart_resize; preprocessor_config.json",
    ),
    VisionRule(
        name="qwen2.5-vl",
        encoder=_QWEN25,
        views=partial(_merged, patch_px=14, merge=2, least_px=56 * 56, most_px=16384 * 28 * 28),
        source="arXiv:2502.13923 table 1; the preprocessor of Qwen2-VL",
    ),
    VisionRule(
        name="qwen3-vl",
        encoder=_SO400M,
        views=partial(_merged, patch_px=16, merge=2, least_px=256 * 256, most_px=4096 * 4096),
        source="preprocessor_config.json of Qwen3-VL-8B-Instruct; transformers configuration_qwen3_vl",
    ),
    VisionRule(
        name="llava-1.5",
        encoder=_CLIP_L,
        views=partial(_fixed, tokens=576, patches=577),
        source="arXiv:2310.03744: CLIP ViT-L/14 at 336 px, all 24 x 24 patches",
    ),
    VisionRule(
        name="llava-next",
        encoder=_CLIP_L,
        views=_llava_next,
        source="transformers processing_llava_next; image_grid_pinpoints of llava-v1.6",
    ),
    VisionRule(
        name="gemma-3",
        encoder=_SO400M,
        views=partial(_fixed, tokens=256, patches=4096),
        source="arXiv:2503.19786 section 2: SigLIP 400M at 896 px, 256 tokens; without pan and scan",
    ),
    VisionRule(
        name="llama-3.2-vision",
        encoder=_MLLAMA,
        views=partial(_mllama, tile_px=560, most_tiles=4),
        source="transformers image_processing_mllama.get_optimal_tiled_canvas; 1601 patches of each 560 px tile, all tiles in one sequence (MllamaVisionModel)",
    ),
    VisionRule(
        name="internvl",
        encoder=_INTERN_300M,
        views=partial(_internvl, tile_px=448, most_tiles=12),
        source="arXiv:2404.16821 section 3; dynamic_preprocess of the model cards of InternVL 2, 2.5 and 3: 256 tokens a tile",
    ),
    VisionRule(
        name="minicpm-v",
        encoder=_SO400M,
        views=partial(_minicpm, slice_px=448, most_slices=9, tokens=64),
        source="arXiv:2408.01800 section 3; slice_image of MiniCPM-V 2.6: 64 tokens a slice",
    ),
    VisionRule(
        name="smolvlm",
        encoder=_SO400M,
        views=partial(_idefics3, longest_px=4 * 384, tile_px=384, tokens=81, patch_px=14),
        source="transformers image_processing_idefics3; processor_config.json of SmolVLM-Instruct: 81 tokens a tile",
    ),
    VisionRule(
        name="smolvlm-256m",
        encoder=_SIGLIP_B,
        views=partial(_idefics3, longest_px=4 * 512, tile_px=512, tokens=64, patch_px=16),
        source="processor_config.json of SmolVLM-256M-Instruct (SmolVLM-500M has the same): 64 tokens a tile of 512 px",
    ),
)
