"""Which quantization would give the speed that lacks, and the command that says what it costs in quality."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from suffice.decide.evidence import MachineEvidence

# Bits per weight of Llama 3.1 8B under llama.cpp's recipes (suffice.model.recipe: 8.50, 6.56, 5.70, 4.89, 4.00, 3.16), rounded up: models with odd widths have more.
USUAL_RECIPES: Final = (
    ("q8_0", 8.6),
    ("q6_k", 6.7),
    ("q5_k_m", 5.8),
    ("q4_k_m", 5.0),
    ("q3_k_m", 4.1),
    ("q2_k", 3.3),
)
_LEAST_GAIN: Final = 1.1  # a recipe with nearly as many bits changes nothing


def recipe_for(evidence: MachineEvidence, factor: float) -> str | None:
    """The recipe with the most bits that makes decoding faster by ``factor`` where memory bandwidth binds; None: none of the usual ones.

    Args:
        evidence: of the model as it is; None comes out where its bits are not known.
        factor: the speed that is needed over the speed that there is.
    """
    bits = evidence.bits_per_weight
    if bits is None:
        return None
    return next((name for name, needed in USUAL_RECIPES if needed * max(factor, _LEAST_GAIN) <= bits), None)


def smaller_recipe(evidence: MachineEvidence) -> str | None:
    """The next recipe below what the model has."""
    return recipe_for(evidence, _LEAST_GAIN)


def quants_command(evidence: MachineEvidence, recipe: str) -> str:
    """What to run to learn what the recipe costs."""
    model = evidence.model_file or "MODEL.gguf"
    return f"suffice quants {_quoted(model)} --make {recipe} --items items.jsonl --demand demand.toml"


def _quoted(name: str) -> str:
    """For a shell, as :func:`shlex.quote` does it."""
    plain = all(letter.isalnum() or letter in "-._+@%/:" for letter in name)
    quoted = name.replace("'", "'\"'\"'")
    return name if plain else f"'{quoted}'"
