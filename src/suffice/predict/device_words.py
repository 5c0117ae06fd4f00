"""Formats and engines as they are written in the wild, and the families that calibration knows."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final

_CACHE_NAMES: Final = 4096


class QuantFamily(StrEnum):
    """Formats whose kernels cost alike for a byte that they read."""

    WIDE = "16-bit"
    EIGHT_BIT = "8-bit"
    BLOCK = "4/5-bit blocks"  # q4_0, q5_1, iq4_nl, mxfp4, MLX 4-bit: one scale for a block, little arithmetic
    K_QUANT = "k-quants"  # q2_K to q6_K: scales of scales
    CODEBOOK = "codebooks"  # iq1 to iq3: a table look-up for each group of weights
    TERNARY = "1-2-bit"  # ternary and one-bit formats
    GROUPED = "gptq/awq"  # 4-bit groups of the Python engines; the head stays in 16 bits


class EngineFamily(StrEnum):
    """Engines that spend alike on a token."""

    LLAMA_CPP = "llama.cpp"
    LLAMA_SERVER = "llama.cpp server"  # end-to-end rates over HTTP
    OLLAMA = "ollama"
    IK = "ik_llama.cpp"
    MLX = "mlx"
    EXLLAMA = "exllama"
    SERVING = "vllm"  # vLLM, SGLang, TGI, LMDeploy
    COMPILED = "tensorrt-llm"  # TensorRT-LLM, MLC, gpt-fast, TinyChat
    HANDWRITTEN = "calm"  # calm, yalm: one hand-written kernel after another
    OPENVINO = "openvino"
    FRAMEWORK = "python frameworks"  # transformers, AutoGPTQ, ONNX, ...: the host is what one waits for
    CPU_KERNELS = "cpu kernels"  # T-MAC, BitNet, Neural Speed, llamafile, distributed-llama
    OTHER = "other"


# The first match wins.
_ENGINES: Final = tuple(
    (re.compile(words), family)
    for words, family in (
        (r"^ollama", EngineFamily.OLLAMA),
        (r"ik_llama", EngineFamily.IK),
        (r"bitnet", EngineFamily.CPU_KERNELS),
        (r"llama\.?cpp server|llama-server", EngineFamily.LLAMA_SERVER),
        (r"llama[.-]?cpp|^ggml|koboldcpp|lm ?studio|llama-bench", EngineFamily.LLAMA_CPP),
        (r"^mlx|vllm-mlx", EngineFamily.MLX),
        (r"exllama|tabbyapi", EngineFamily.EXLLAMA),
        (r"vllm|sglang|^tgi|lmdeploy|text-generation-inference", EngineFamily.SERVING),
        (r"tensorrt|trt-llm|^mlc|gpt-fast|tinychat|llm-awq", EngineFamily.COMPILED),
        (r"^calm|yalm|deepseek\.cpp", EngineFamily.HANDWRITTEN),
        (r"openvino|ovms", EngineFamily.OPENVINO),
        (r"transformers|gptq|awq|lightning|onnx|deepspeed|optimum|candle|ctrans|pytorch|mistral\.rs", EngineFamily.FRAMEWORK),
        (r"t-mac|neural speed|llamafile|distributed-llama|ipex|xft", EngineFamily.CPU_KERNELS),
    )
)  # fmt: skip


@lru_cache(maxsize=_CACHE_NAMES)
def engine_family(engine: str) -> EngineFamily:
    """The family of an engine, from what people write: ``engine_family("llama.cpp CUDA FA")`` is llama.cpp."""
    text = engine.strip().lower()
    return next((family for words, family in _ENGINES if words.search(text)), EngineFamily.OTHER)


@lru_cache(maxsize=_CACHE_NAMES)
def engine_backend(engine: str) -> str | None:
    """The interface through which llama.cpp drives a GPU, where the text says it: "vulkan", "hip", "sycl", else None."""
    text = engine.lower()
    for words, backend in (("vulkan", "vulkan"), ("hip", "hip"), ("rocm", "hip"), ("rocwmma", "hip"), ("sycl", "sycl")):
        if words in text:
            return backend
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantFormat:
    """A format as calibration sees it.

    Attributes:
        family: its kernels' cost.
        body_bits: stored bits per weight in the layers, scales included.
        head_bits: the same in the output head.
        recipe: the name of the GGUF recipe, where it is one; its exact sizes are then to be preferred.
    """

    family: QuantFamily
    body_bits: float
    head_bits: float
    recipe: str | None = None


_K: Final = QuantFamily.K_QUANT
_B: Final = QuantFamily.BLOCK
_C: Final = QuantFamily.CODEBOOK
_T: Final = QuantFamily.TERNARY
# Bits per weight of GGUF recipes: the mean over the layers of a Llama of 8B, as the recipes of suffice.model give it.
_GGUF: Final = {
    "f32": (QuantFamily.WIDE, 32, 32), "f16": (QuantFamily.WIDE, 16, 16), "bf16": (QuantFamily.WIDE, 16, 16),
    "q8_0": (QuantFamily.EIGHT_BIT, 8.5, 8.5), "q6_k": (_K, 6.56, 6.56), "q5_k_m": (_K, 5.64, 6.56), "q5_k_s": (_K, 5.5, 6.56),
    "q5_1": (_B, 6.0, 6.56), "q5_0": (_B, 5.5, 6.56), "q4_k_m": (_K, 4.75, 6.56), "q4_k_s": (_K, 4.56, 6.56),
    "q4_1": (_B, 5.0, 6.56), "q4_0": (_B, 4.5, 6.56), "iq4_nl": (_B, 4.5, 6.56), "iq4_xs": (_B, 4.25, 6.56), "mxfp4": (_B, 4.25, 8.5),
    "q3_k_l": (_K, 4.1, 6.56), "q3_k_m": (_K, 3.8, 6.56), "q3_k_s": (_K, 3.44, 6.56), "q2_k": (_K, 3.0, 6.56), "q2_k_s": (_K, 2.7, 6.56),
    "iq3_m": (_C, 3.6, 6.56), "iq3_s": (_C, 3.44, 6.56), "iq3_xs": (_C, 3.3, 6.56), "iq3_xxs": (_C, 3.06, 5.5),
    "iq2_m": (_C, 2.7, 5.5), "iq2_s": (_C, 2.5, 5.5), "iq2_xs": (_C, 2.31, 5.5), "iq2_xxs": (_C, 2.06, 5.5),
    "iq1_m": (_C, 1.75, 5.5), "iq1_s": (_C, 1.56, 5.5), "tq1_0": (_T, 1.69, 6.56), "tq2_0": (_T, 2.06, 6.56),
}  # fmt: skip
# Formats of other engines, as whole-word patterns: family, bits in the layers, bits in the head.
_FOREIGN: Final = tuple(
    (re.compile(words), QuantFormat(family=family, body_bits=body, head_bits=head))
    for words, family, body, head in (
        (r"\b(?:awq|gptq|int4 g\d+|q4 g\d+)\b.*int8|\bgptq int8", QuantFamily.EIGHT_BIT, 8.25, 16),
        (r"\b(?:awq|gptq)\b", QuantFamily.GROUPED, 4.25, 16),
        (r"\bint4 g\d+|\bq4 g\d+", QuantFamily.GROUPED, 4.5, 16),
        (r"mlx ?mxfp4|mxfp4|nvfp4|\bfp4\b|\bgf4\b|\bq4\b|\bq40\b|mlx ?4|gguf 4bit|\bq4_0", QuantFamily.BLOCK, 4.5, 4.5),
        (r"mlx ?8|int8|w8a8|w8a16|\bq8\b|\bfp8\b|8bit|8-bit", QuantFamily.EIGHT_BIT, 8.25, 8.25),
        (r"mlx ?6|\bq6\b", QuantFamily.BLOCK, 6.5, 6.5),
        (r"\bq5\b", QuantFamily.BLOCK, 5.5, 5.5),
        (r"\bint4\b|\b4bit\b|4-bit|\bw4\b|w4a16", QuantFamily.BLOCK, 4.5, 8.25),
        (r"q1_0|i2_s|iq2_bn|ternary|w1\.58|iq1_bn", QuantFamily.TERNARY, 2.0, 6.56),
        (r"q2_0|\bw2\b|\bq2\b", QuantFamily.TERNARY, 2.25, 6.56),
        (r"q4_k_4|iq4_k", _K, 4.75, 6.56),
        (r"q8_k_r8|q8r16", QuantFamily.EIGHT_BIT, 8.5, 8.5),
        (r"iq[56]_k", _K, 6.0, 6.56),
        (r"iq[23]_k", _K, 3.0, 6.56),
        (r"float32|fp32|\bf32", QuantFamily.WIDE, 32, 32),
        (r"float16|bfloat16|fp16|bf16|\bf16|16bit|16-bit", QuantFamily.WIDE, 16, 16),
    )
)
_ALIASES: Final = {
    "q4_k": "q4_k_m",
    "q5_k": "q5_k_m",
    "q3_k": "q3_k_m",
    "fp16": "f16",
    "fp32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
}
_TRAILING: Final = re.compile(r"\s*\(.*$|_r[48]$")
_SUFFIX_XL: Final = re.compile(r"_k_(?:xl|l)$")


@lru_cache(maxsize=_CACHE_NAMES)
def quant_format(quant: str) -> QuantFormat | None:
    """The format behind what people write ("Q4_K_M (ollama default tag)", "AWQ INT4", "MLX 4bit"); None: not known."""
    text = _TRAILING.sub("", quant.strip().lower())
    text = text.removeprefix("ud-")
    recipe = next((known for known in _spellings(text) if known in _GGUF), None)
    if recipe is not None:
        family, body, head = _GGUF[recipe]
        return QuantFormat(family=family, body_bits=body, head_bits=head, recipe=recipe)
    return next((known for words, known in _FOREIGN if words.search(quant.lower())), None)


def _spellings(text: str) -> tuple[str, ...]:
    """The recipe itself, and those that a "large" variant of it is nearest to: q4_k_xl is q4_k_m, q8_k_xl is q8_0."""
    stem = _SUFFIX_XL.sub("", text)
    return (
        (_ALIASES.get(text, text), f"{stem}_k_m", f"{stem}_k", f"{stem}_0")
        if stem != text
        else (_ALIASES.get(text, text),)
    )
