"""What cannot be read from a GGUF file because llama.cpp has it in its code: one table, by architecture.

Source: ``src/models/*.cpp``, ``llama-arch.cpp`` and ``llama-model.cpp`` (``create_memory``) of llama.cpp, late 2026. An architecture that is
not here has an unknown cache layout: a newer llama.cpp may lay it out in any way.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowRule:
    """Which layers see a sliding window when the file has no ``sliding_window_pattern``.

    Every ``period``-th layer is full, the last of each group, or the first with ``full_first``; period None: the file must say.
    """

    period: int | None
    full_first: bool = False
    default_window: int | None = None  # when the file has no attention.sliding_window
    forced_window: int | None = None  # whatever the file says, unless it says 0


WINDOW_RULES: Final = {
    "afmoe": WindowRule(period=4),
    "cohere2": WindowRule(period=4),
    "cohere2moe": WindowRule(period=4, full_first=True),
    "exaone-moe": WindowRule(period=4, default_window=128),
    "exaone4": WindowRule(period=4, default_window=4096),
    "gemma2": WindowRule(period=2, default_window=4096),
    "gemma3": WindowRule(period=6),
    "gemma3n": WindowRule(period=5),
    "gemma4": WindowRule(period=None),
    "gpt-oss": WindowRule(period=2),
    "granite_swa": WindowRule(period=None),
    "laguna": WindowRule(period=4, full_first=True),
    "lfm2": WindowRule(period=0),  # all attention layers, when the file has a window
    "llama4": WindowRule(period=4, default_window=8192, forced_window=8192),  # chunks of that size
    "maple": WindowRule(period=None),
    "mellum": WindowRule(period=4),
    "mimo2": WindowRule(period=None),
    "muse-glimmer": WindowRule(period=4),
    "olmo2": WindowRule(period=4),
    "plamo3": WindowRule(period=8),
    "smallthinker": WindowRule(period=4, full_first=True, forced_window=4096),
    "spark2_5": WindowRule(period=None),
    "step35": WindowRule(period=None),
}

EXAONE4_WINDOWED_LAYERS: Final = 64  # llama.cpp uses the window of exaone4 in its 64-layer model (32B) only
GEMMA3N_LAYERS_WITH_KV: Final = 20

# All layers full, or those that the metadata mark; attention.sliding_window in such a file is ignored, as llama.cpp does
# (phi3, and Mistral 7B v0.1 under the name llama).
FULL_ATTENTION: Final = frozenset(
    """
    llama deci falcon grok gpt2 gptj gptneox mpt baichuan starcoder refact bloom stablelm qwen qwen2 qwen2moe qwen2vl qwen3
    qwen3moe qwen3next qwen3vl qwen3vlmoe qwen35 qwen35moe phi2 phi3 phimoe plamo plamo2 codeshell orion internlm2 minicpm
    minicpm3 gemma starcoder2 mamba mamba2 jamba falcon-h1 xverse command-r dbrx olmo olmoe openelm arctic deepseek deepseek2
    deepseek2-ocr chatglm glm4 glm4moe bitnet jais jais2 nemotron nemotron_h nemotron_h_moe exaone rwkv6 rwkv6qwen2 rwkv7 arwkv7
    granite granitemoe granitehybrid chameleon plm bailingmoe bailingmoe2 bailingmoe3 dots1 arcee ernie4_5 ernie4_5-moe
    hunyuan-moe hunyuan-dense hunyuan_vl hy_v3 smollm3 lfm2moe seed_oss grovemoe apertus minimax-m2 cogvlm pangu-embedded
    mistral3 mistral4 paddleocr maincoder kimi-linear nanbeige
    """.split()
)

# They produce no text token by token, so llama.cpp keeps no cache for them.
NO_CACHE: Final = frozenset(
    """
    bert modern-bert nomic-bert nomic-bert-moe neo-bert jina-bert-v2 jina-bert-v3 eurobert gemma-embedding llama-embed t5encoder
    clip wavtokenizer-dec dream llada llada-moe rnd1
    """.split()
)
