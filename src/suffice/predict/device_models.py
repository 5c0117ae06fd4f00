"""What a decode step reads, from the name of a model and the label of its format, where no file is at hand.

Sizes that are printed are those of files; decode does not stream a plain embedding, nor tables that are looked up. The catalogue's shapes say
which share of a file it does stream.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from suffice.catalogue.models import all_models
from suffice.errors import UsageError
from suffice.model.blueprint import blueprint_header
from suffice.model.recipe import quantized_header
from suffice.model.shape import shape_from_header
from suffice.model.weights import WeightUse
from suffice.predict.device_words import quant_format
from suffice.units import BITS_PER_BYTE, GIGA

if TYPE_CHECKING:
    from suffice.model.shape import ModelShape

_CACHE_MODELS: Final = 2048
_TYPICAL_LAYERS: Final = 16.8  # layers of a Llama of 10^9 parameters, on the line through 1B, 7B, 13B, 34B and 70B
_LAYERS_EXPONENT: Final = 1 / 3
_DATE: Final = re.compile(
    r"[-_ ](?:2[45]\d\d|v0\.[123]|v1\.0|hf|gguf|instruct|chat|it|base|ollama|sft|dpo|text)(?=$|[-_. ])"
)
_EXTENSION: Final = re.compile(r"\.(?:gguf|bin|safetensors)$")
_TAIL: Final = re.compile(r"[-_.](?:ud-)?(?:i?q\d[\w]*|f16|bf16|f32|mxfp4|q4)$")
_MARKS: Final = re.compile(r"[\s_-]+")
# What the wild calls a model whose shape the catalogue has under another name.
_ALIASES: Final = {
    "llama-7b": "llama-2-7b", "llama-13b": "llama-2-13b", "llama2-7b": "llama-2-7b", "vicuna-7b": "llama-2-7b", "llama3-8b": "llama-3-8b",
    "meta-llama-3-8b": "llama-3-8b", "meta-llama-3.1-8b": "llama-3.1-8b", "shisa-v2-llama3.1-8b": "llama-3.1-8b",
    "shisa-v2-llama3.3-70b": "llama-3.3-70b", "mistral-7b": "mistral-7b-v0.1", "mistral-nemo": "mistral-nemo-12b",
    "mistral-small-24b": "mistral-small-24b", "mistral-small-3.1-24b": "mistral-small-24b", "qwen2.5-coder-7b": "qwen2.5-7b",
    "qwen2.5-coder-32b": "qwen2.5-32b", "qwen2-7b": "qwen2.5-7b", "qwen2-1.5b": "qwen2.5-1.5b", "qwen2-0.5b": "qwen2.5-0.5b",
    "bonsai-qwen3-1.7b": "qwen3-1.7b", "bonsai-qwen3-4b": "qwen3-4b", "bonsai-qwen3-8b": "qwen3-8b", "bonsai-qwen35-27b": "qwen3.5-27b",
    "ternary-bonsai-qwen3-1.7b": "qwen3-1.7b", "ternary-bonsai-qwen3-4b": "qwen3-4b", "ternary-bonsai-qwen3-8b": "qwen3-8b",
    "ternary-bonsai-qwen35-27b": "qwen3.5-27b", "qwen35-27b": "qwen3.5-27b", "falcon-7b": "falcon-7b", "falcon3-7b": "falcon3-7b",
    "gemma2-2b": "gemma-2-2b", "phi-3-medium": "phi-3-medium-14b", "phi-3-medium-4k": "phi-3-medium-14b", "phi3-3.8b": "phi-3-mini-4k",
    "phi-4": "phi-4-14b", "yi-6b": "yi-1.5-6b", "yi-1.5-9b": "yi-1.5-9b", "tinyllama-1b": "tinyllama-1.1b", "tiny-llama-1.1b": "tinyllama-1.1b",
    "baichuan2-13b": "baichuan2-13b", "chatglm3-6b": "chatglm3-6b", "smollm-135m": "smollm2-135m", "granite-3.1-8b": "granite-3.3-8b",
    "midnight-miqu-70b-v1.5-(llama-2-70b)": "llama-2-70b", "stablelm-3b": "stablelm-3b-4e1t", "llama-2-7b-q4-0": "llama-2-7b",
    "internlm2-1.8b": "internlm2-1.8b", "deepseek-r1-distill-qwen-14b": "deepseek-r1-distill-qwen-14b", "qwen2.5-3b": "qwen2.5-3b",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class StepBytes:
    """What one decode step of one stream reads. None: not known."""

    weight_bytes: float
    layers: float
    shape: (
        ModelShape | None
    )  # None: not in the catalogue; layers are then typical of the size, and a whole file counts as read

    def kv_bytes(self, depth: int) -> float | None:
        """Cache bytes that a step reads at this depth, windows and recurrent state respected; None: the shape is not known."""
        return None if self.shape is None else self.shape.kv_read_bytes(depth)


@lru_cache(maxsize=1)
def _known() -> dict[str, str]:
    return {_MARKS.sub("-", entry.id): entry.id for entry in all_models()}


@lru_cache(maxsize=_CACHE_MODELS)
def catalogue_model(name: str) -> str | None:
    """The catalogue's id of a model that is called ``name`` in the wild; None: the catalogue has no such shape.

    >>> catalogue_model("Meta-Llama-3.1-8B-Instruct-Q4_K_M.gguf")
    'llama-3.1-8b'
    """
    text = _MARKS.sub("-", _TAIL.sub("", _EXTENSION.sub("", name.strip().lower())))
    for _ in range(3):
        text = _DATE.sub("", text)
    text = text.strip("-.")
    wanted = _ALIASES.get(text, text)
    return _known().get(wanted)


@lru_cache(maxsize=_CACHE_MODELS)
def catalogue_shape(model: str, recipe: str) -> ModelShape | None:
    """The shape of a catalogue model under a recipe; None: it cannot be built."""
    spec = next(entry.spec for entry in all_models() if entry.id == model)
    try:
        return shape_from_header(quantized_header(blueprint_header(spec), recipe))
    except UsageError:
        return None


@lru_cache(maxsize=_CACHE_MODELS)
def step_bytes(name: str, quant: str, file_bytes: float | None, parameters: float | None) -> StepBytes | None:
    """What a step reads, from what is known of the model; None: too little.

    Args:
        name: the model, as written.
        quant: its format, as written.
        file_bytes: the size of the file, where it is known.
        parameters: how many it has, where that is known.
    """
    known = quant_format(quant)
    if known is None:
        return None
    model = catalogue_model(name)
    shape = None if model is None else catalogue_shape(model, known.recipe or "f16")
    if shape is None:
        return _without_shape(file_bytes, parameters, known.body_bits)
    if known.recipe is not None:
        streamed = shape.streamed_bytes()
        weight_bytes = streamed if file_bytes is None else file_bytes * streamed / shape.tensor_bytes
    else:
        body, head = _elements(shape)
        weight_bytes = (body * known.body_bits + head * known.head_bits) / BITS_PER_BYTE
        if file_bytes is not None:
            weight_bytes = file_bytes * (body + head) / shape.parameters
    return StepBytes(
        weight_bytes=weight_bytes,
        layers=float(shape.n_layer),
        shape=shape,
    )


def typical_layers(parameters: float) -> float:
    """How many layers a model of this size usually has; calibration needs it only for the cost of starting kernels."""
    return float(_TYPICAL_LAYERS * (parameters / GIGA) ** _LAYERS_EXPONENT)


def _elements(shape: ModelShape) -> tuple[float, float]:
    head = sum(group.elements for group in shape.weights if group.use is WeightUse.HEAD)
    return shape.active_parameters - head, float(head)


def _without_shape(file_bytes: float | None, parameters: float | None, bits: float) -> StepBytes | None:
    if parameters is None and file_bytes is None:
        return None
    count = parameters if parameters is not None else file_bytes * BITS_PER_BYTE / bits  # type: ignore[operator]
    return StepBytes(
        weight_bytes=count * bits / BITS_PER_BYTE if file_bytes is None else file_bytes,
        layers=typical_layers(count),
        shape=None,
    )
