"""What suffice knows of an architecture to write a model of it: its layers, its metadata, and which shapes it can express."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from suffice.model.blueprint.parts import embeddings, shared_width
from suffice.model.spec import FeedForward

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from suffice.model.blueprint.keys import Keys
    from suffice.model.blueprint.parts import Shapes
    from suffice.model.spec import ModelSpec

# Facts that describe what is counted, not what is built, or that every architecture can have.
_ALWAYS_UNDERSTOOD: Final = frozenset(
    {"norms", "rope_factors", "rope_context", "rope_share", "router_bias", "shared_ff"}
)


def _never(_spec: ModelSpec) -> str | None:
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Architecture:
    """How a model of one architecture is laid out in a GGUF file.

    A shape that says more than the architecture can express, or less than llama.cpp demands, is refused.
    """

    layer: Callable[[ModelSpec, int], Shapes]  # the tensors of layer ``index``
    keys: tuple[Callable[[ModelSpec], Keys], ...]  # metadata beyond those that every model has
    outer: Callable[[ModelSpec], Shapes] = embeddings  # the tensors outside of the layers
    understands: frozenset[str] = frozenset()  # ``extra`` facts that it may have
    demands: Mapping[str, str] = field(
        default_factory=lambda: MappingProxyType({})
    )  # those it must have, and their values
    experts: bool | None = False  # whether there are some: always, never, None: both are possible
    shared_experts: bool = False  # whether some of them may be used by every token
    dense_first: bool = False  # whether leading layers may have none
    latent: bool = False  # attention is MLA
    own_head: bool | None = None  # whether there is an output.weight: always, never, None: both are possible
    feed_forward: FeedForward = FeedForward.SWIGLU
    window_pattern: str | None = None  # the one that llama.cpp has in its code; None: none, or the file says it
    objection: Callable[[ModelSpec], str | None] = _never  # why a shape cannot be built that the rules above let pass

    def refusal(self, spec: ModelSpec) -> str | None:
        """Why this shape cannot be built, or None."""
        reasons = (self._facts, self._head_and_parts, self._mixture, self._window, self.objection)
        return next((reason for reason in (rule(spec) for rule in reasons) if reason is not None), None)

    def _facts(self, spec: ModelSpec) -> str | None:
        unknown = sorted(spec.extra.keys() - self.understands - self.demands.keys() - _ALWAYS_UNDERSTOOD)
        if unknown:
            return f"suffice does not know how this architecture stores {', '.join(unknown)}"
        missing = [f"{key}={value}" for key, value in self.demands.items() if spec.extra.get(key) != value]
        return f"llama.cpp demands {', '.join(missing)}, which the shape does not say" if missing else None

    def _head_and_parts(self, spec: ModelSpec) -> str | None:
        if self.latent != (spec.latent is not None):
            return "it has latent attention" if spec.latent else "it has no latent attention"
        if self.latent and spec.qkv_bias:
            return "its latent attention has biases"
        if spec.feed_forward is not self.feed_forward:
            return f"its feed-forward part is {spec.feed_forward.value}, not {self.feed_forward.value}"
        if self.own_head is spec.tied:
            return f"llama.cpp {'demands' if self.own_head else 'knows no'} output matrix of its own here"
        return None

    def _mixture(self, spec: ModelSpec) -> str | None:
        if self.experts is not None and self.experts != (spec.experts is not None):
            return "it has experts" if spec.experts else "it has no experts"
        if spec.experts is None:
            return None
        if shared_width(spec.experts) and not self.shared_experts:
            return "it has shared experts"
        return "its first layers have no experts" if spec.experts.n_dense_first and not self.dense_first else None

    def _window(self, spec: ModelSpec) -> str | None:
        if self.window_pattern and spec.sliding_window and spec.sliding_pattern != self.window_pattern:
            return f"llama.cpp has the window pattern {self.window_pattern} in its code, not {spec.sliding_pattern}"
        return None
