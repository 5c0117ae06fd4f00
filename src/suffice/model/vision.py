"""Images in a prompt: how many tokens each becomes, and what its encoder computes.

A vision model cuts an image into views (tiles, slices, or one view of the whole), an encoder (ViT) turns the patches of each view into
vectors, and some of those, often four or more merged into one, stand in the prompt as tokens. The rules of the families are in
:mod:`suffice.model.vision_rules`, each with its source.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.model.demand import Lengths
from suffice.model.vision_rules import RULES, Encoder, Views, VisionRule

if TYPE_CHECKING:
    from suffice.model.demand import Demand

__all__ = [
    "Encoder",
    "ImageLoad",
    "Views",
    "VisionRule",
    "encoder_bytes",
    "encoder_flop",
    "rule_names",
    "rule_of",
    "text_prompt",
    "views_of",
    "with_images",
]

_FLOPS_PER_MULTIPLY_ADD: Final = 2
_BYTES_PER_WEIGHT: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageLoad:
    """The images of one request.

    Attributes:
        per_request: how many.
        tokens_each: that one image takes in the prompt.
        encoder_flop_each: operations of the encoder for one image.
        encoder_bytes: its weights in 16 bits; None: not known.
        source: the rule that says so, or "stated".
    """

    per_request: int
    tokens_each: int
    encoder_flop_each: float
    encoder_bytes: float | None
    source: str

    @property
    def tokens(self) -> int:
        """Of all images of a request."""
        return self.per_request * self.tokens_each

    @property
    def encoder_flop(self) -> float:
        """Of all images of a request."""
        return self.per_request * self.encoder_flop_each


def rule_names() -> tuple[str, ...]:
    """The families that have a rule."""
    return tuple(rule.name for rule in RULES)


def rule_of(name: str) -> VisionRule | None:
    """The rule of a family, in any spelling: ``rule_of("Qwen2.5_VL").name == "qwen2.5-vl"``; None where it has none here."""
    wanted = name.strip().lower().replace("_", "-").replace(" ", "-")
    return next((rule for rule in RULES if wanted == rule.name), None)


def views_of(rule: VisionRule, width_px: int, height_px: int) -> Views:
    """What an image of so many pixels becomes.

    Raises:
        ValueError: the image is narrower than the family takes.
    """
    if min(width_px, height_px) < 1:
        raise ValueError(f"an image of {width_px} x {height_px} pixels is none")
    return rule.views(width_px, height_px)


def encoder_flop(rule: VisionRule, views: Views) -> float:
    """Operations of the encoder for one image: for each view and layer 2 per weight and patch, and attention.

    A layer has 4 w^2 weights of attention and 2 w f of its feed-forward part (3 w f with a gate); attention multiplies every patch with
    those that it sees, 4 w a pair, as in a decoder (Kaplan et al., arXiv:2001.08361, table 1), without the causal triangle. Embedding of
    the patches and the projector into the language model are left out: under 3 % for these families.
    """
    encoder, weights = rule.encoder, _layer_weights(rule.encoder)
    total = 0.0
    for patches in views.patches:
        windowed = encoder.layers - encoder.full_layers
        seen = encoder.full_layers * patches + windowed * min(patches, encoder.window_patches or patches)
        total += patches * (encoder.layers * _FLOPS_PER_MULTIPLY_ADD * weights + 4 * encoder.width * seen)
    return total


def encoder_bytes(rule: VisionRule) -> float:
    """Weights of the encoder's layers in 16 bits, as files for llama.cpp (mmproj) hold them; embedding and projector are left out."""
    return float(_BYTES_PER_WEIGHT * rule.encoder.layers * _layer_weights(rule.encoder))


def _layer_weights(encoder: Encoder) -> int:
    matrices = 3 if encoder.gated else 2
    return 4 * encoder.width**2 + matrices * encoder.width * encoder.feed_forward


def with_images(demand: Demand, images: ImageLoad) -> Demand:
    """The demand whose prompts hold the images beside their text: so many tokens more at every percentile.

    Raises:
        ValueError: it states no prompts, or holds images already.
    """
    if demand.prompt_tokens is None or demand.images is not None:
        raise ValueError("images are added once, to prompts whose text is stated")
    prompt = demand.prompt_tokens
    longer = Lengths(p50=prompt.p50 + images.tokens, p95=prompt.p95 + images.tokens)
    return replace(demand, prompt_tokens=longer, images=images)


def text_prompt(demand: Demand) -> Lengths | None:
    """The lengths of the text alone, as the user stated them; None where no lengths are stated."""
    prompt, images = demand.prompt_tokens, demand.images
    if prompt is None or images is None:
        return prompt
    return Lengths(p50=prompt.p50 - images.tokens, p95=prompt.p95 - images.tokens)
