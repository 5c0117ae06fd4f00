"""Whether a candidate that was just made is what was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from suffice.errors import EngineError, ModelFileError
from suffice.loaders.gguf import read_gguf_header
from suffice.quants.gguf_spans import tokenizer_hashes

if TYPE_CHECKING:
    from pathlib import Path

    from suffice.model.gguf_header import GgufHeader
    from suffice.quants.recipe_plan import RecipePlan

_NAMED: Final = 3


def check_made(path: Path, plan: RecipePlan, reference: Path) -> tuple[str, ...]:
    """Notes on a new file: where its types are others than the recipe's.

    Raises:
        EngineError: it is no model, or lacks tensors, or its vocabulary or chat template is another one than the reference's.
    """
    try:
        header = read_gguf_header(path)
        made, original = tokenizer_hashes(path, header), tokenizer_hashes(reference, plan.reference)
    except ModelFileError as error:
        raise EngineError(f"the quantizer of llama.cpp wrote no proper model: {error}; try another engine") from error
    changed = sorted(key for key in made.keys() | original.keys() if made.get(key) != original.get(key))
    if changed:
        raise EngineError(
            f"{plan.recipe} of {plan.reference.source}: the quantizer of llama.cpp changed {', '.join(changed[:_NAMED])}, so the candidate "
            "would not read the same tokens; try another engine"
        )
    _raise_if_incomplete(header, plan)
    return _other_types(header, plan)


def _raise_if_incomplete(header: GgufHeader, plan: RecipePlan) -> None:
    sizes = {tensor.name: tensor.elements for tensor in header.tensors}
    wrong = [tensor.name for tensor in plan.reference.tensors if sizes.get(tensor.name) != tensor.elements]
    if wrong or len(sizes) != len(plan.reference.tensors):
        named = f", {wrong[0]} for one" if wrong else ""
        raise EngineError(
            f"{plan.recipe} of {plan.reference.source}: the quantizer of llama.cpp wrote {len(sizes)} tensors of "
            f"{len(plan.reference.tensors)}, or others than those{named}; try another engine"
        )


def _other_types(header: GgufHeader, plan: RecipePlan) -> tuple[str, ...]:
    planned = {tensor.name: tensor.type_name for tensor in plan.header.tensors}
    other = [tensor for tensor in header.tensors if tensor.type_name != planned[tensor.name]]
    if not other:
        return ()
    named = ", ".join(f"{tensor.name} {tensor.type_name} for {planned[tensor.name]}" for tensor in other[:_NAMED])
    more = f" and {len(other) - _NAMED} more" if len(other) > _NAMED else ""
    return (
        f"this llama.cpp's {plan.recipe} differs from the one that suffice knows in {len(other)} tensors: {named}{more}",
    )
