"""Images in the requests of a demand file: the fields, and what they come to for the model that is named."""

from __future__ import annotations

from typing import Annotated, Final

from pydantic import BaseModel, Field

from suffice.errors import DemandError
from suffice.loaders.demand_toml import MAX_TOKENS, STRICT, shortened
from suffice.model.vision import ImageLoad, encoder_bytes, encoder_flop, rule_names, rule_of, views_of
from suffice.units import GIGA

_MAX_IMAGES: Final = 10_000  # in one request; more is a typing error
_MAX_SIDE_PX: Final = 100_000
_MAX_GFLOP: Final = GIGA  # of one image; a thousand times the largest encoder


class ImageFields(BaseModel):
    """Fields of the table ``[demand]`` that are about images, as docs/vision.md describes them."""

    model_config = STRICT

    images_per_request: Annotated[int, Field(gt=0, le=_MAX_IMAGES)] | None = None
    image_width_px: Annotated[int, Field(gt=0, le=_MAX_SIDE_PX)] | None = None
    image_height_px: Annotated[int, Field(gt=0, le=_MAX_SIDE_PX)] | None = None
    image_tokens: Annotated[int, Field(ge=1, le=MAX_TOKENS)] | None = None
    image_encoder_gflop: Annotated[float, Field(ge=0, le=_MAX_GFLOP)] | None = None
    vision_model: str | None = None


_NAMES: Final = tuple(ImageFields.model_fields)


def images_of(fields: ImageFields, *, with_prompt: bool) -> ImageLoad | None:
    """What the images of a request come to; None where it has none. What is stated wins over the model's rule.

    Args:
        fields: of the demand.
        with_prompt: whether the demand states the lengths of its prompts.

    Raises:
        DemandError: something is stated of images that are none, tokens or encoder are neither stated nor known, or there is no prompt.
    """
    stated = [name for name in _NAMES if getattr(fields, name) is not None]
    if not stated:
        return None
    if fields.images_per_request is None:
        raise DemandError(f"'{stated[0]}' is stated without 'images_per_request'; state how many images a request has")
    if not with_prompt:
        raise DemandError("images are a part of the prompt; state 'prompt_tokens', of the text alone, beside them")
    if fields.image_tokens is not None and fields.image_encoder_gflop is not None:
        return ImageLoad(
            per_request=fields.images_per_request,
            tokens_each=fields.image_tokens,
            encoder_flop_each=fields.image_encoder_gflop * GIGA,
            encoder_bytes=None,
            source="stated",
        )
    return _by_rule(fields, fields.images_per_request)


def _by_rule(fields: ImageFields, per_request: int) -> ImageLoad:
    if fields.vision_model is None:
        raise DemandError(
            "how many tokens an image is depends on the model: state 'vision_model', one of "
            f"{', '.join(rule_names())}, or both 'image_tokens' and 'image_encoder_gflop'"
        )
    rule = rule_of(fields.vision_model)
    if rule is None:
        raise DemandError(
            f"vision_model = {shortened(fields.vision_model)} is not known here; known are {', '.join(rule_names())}. "
            "Of another one state both 'image_tokens' and 'image_encoder_gflop'"
        )
    width_px, height_px = fields.image_width_px, fields.image_height_px
    if width_px is None or height_px is None:
        raise DemandError(
            "the size of the images decides over their tokens; state 'image_width_px' and 'image_height_px'"
        )
    views = views_of(rule, width_px, height_px)
    flop = None if fields.image_encoder_gflop is None else fields.image_encoder_gflop * GIGA
    return ImageLoad(
        per_request=per_request,
        tokens_each=views.tokens if fields.image_tokens is None else fields.image_tokens,
        encoder_flop_each=encoder_flop(rule, views) if flop is None else flop,
        encoder_bytes=encoder_bytes(rule),
        source=rule.name,
    )
