"""What the encoder of images costs on a machine, in the one unit whose speed was measured there: tokens of a prompt.

An encoder and the reading of a prompt do the same kind of work, products of matrices over many rows at once. Its operations are taken to run
at the rate at which the machine reads a prompt: an encoder of so many operations takes as long as so many more tokens of text.
llama-server runs the encoder before the prompt and serves nobody meanwhile, so that the tokens stand in the prompt for every other question.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.model.basis import Basis
from suffice.model.demand import Lengths
from suffice.units import format_memory

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence
    from suffice.decide.quantity import Quantity
    from suffice.model.vision import ImageLoad

_FLOPS_PER_PARAMETER: Final = 2  # a multiplication and an addition for each token
_EITHER_WAY: Final = 2  # encoders run in 16 bits and other kernels: their rate may be half or twice that of a prompt


def encoder_tokens(images: ImageLoad | None, evidence: MachineEvidence) -> float | None:
    """Tokens of a prompt whose reading takes as many operations as the encoder of a request's images.

    0 without images or encoder. None: how many parameters of the model a token uses is not known.
    """
    if images is None or images.encoder_flop == 0:
        return 0.0
    if not evidence.active_parameters:
        return None
    return images.encoder_flop / (_FLOPS_PER_PARAMETER * evidence.active_parameters)


def encoder_s(images: ImageLoad | None, evidence: MachineEvidence, prompt_tokens: float) -> Quantity | None:
    """Seconds of the encoder for a request's images, at the rate of a prompt of ``prompt_tokens``; None: not known, or nothing to do.

    Nobody measured the encoder itself: its range is from half to twice of that.
    """
    extra = encoder_tokens(images, evidence)
    prefill = evidence.prefill_seconds(prompt_tokens)
    if not extra or prefill is None:
        return None
    time_s = prefill.scaled(extra / prompt_tokens).with_basis(Basis.EXTRAPOLATED)
    return time_s.with_bounds(
        low=None if time_s.low is None else time_s.low / _EITHER_WAY,
        high=None if time_s.high is None else time_s.high * _EITHER_WAY,
    )


def with_encoder(prompt: Lengths, images: ImageLoad | None, evidence: MachineEvidence) -> Lengths:
    """The lengths of prompts that take as long as these prompts and their images; these where that is not known."""
    extra = encoder_tokens(images, evidence) or 0.0
    return Lengths(p50=prompt.p50 + extra, p95=prompt.p95 + extra) if extra else prompt


def encoder_memory(images: ImageLoad | None) -> tuple[float, str]:
    """Bytes of the encoder's weights beside those of the model, and what is to be said of them."""
    if images is None or images.encoder_flop_each == 0:
        return 0.0, ""
    if images.encoder_bytes is None:
        return 0.0, "; the weights of the image encoder are not known and not counted"
    return images.encoder_bytes, f", and an image encoder of {format_memory(images.encoder_bytes)}"


def encoder_text(images: ImageLoad | None, evidence: MachineEvidence) -> str:
    """What is to be said of the encoder beside a time; "" without images."""
    if images is None:
        return ""
    pictures = "1 image" if images.per_request == 1 else f"{images.per_request} images"
    extra = encoder_tokens(images, evidence)
    held = f"with {pictures} of {images.tokens_each} tokens ({images.source})"
    if extra is None:
        return f"{held}, whose encoder's time is not known"
    return f"{held} and an encoder that works as long as for {extra:,.0f} tokens of text"
