"""What a candidate will be, before it is made: its types and size by the recipe, and what a reader of its figures has to know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError
from suffice.model.ggml_types import row_bytes
from suffice.model.recipe import canonical_recipe, needs_imatrix, quantized_header
from suffice.model.recipe_types import FLOAT_TYPES, may_quantize, n_dims
from suffice.units import BITS_PER_BYTE

if TYPE_CHECKING:
    from suffice.model.gguf_header import GgufHeader, TensorInfo

_LONGEST_BLOCK: Final = 256
_FILE_TYPE: Final = "general.file_type"
_NEARLY_EXACT: Final = "q8_0"
_WORTH_TELLING: Final = 0.1  # of the tensors; one head that stays Q6_K is no news


@dataclass(frozen=True, slots=True, kw_only=True)
class RecipePlan:
    """A candidate that can be made.

    Attributes:
        recipe: its name, as suffice writes it.
        file_type: llama.cpp's number for it.
        reference: the header of the file that it is made from.
        header: the one that it will have.
        fallbacks: tensors whose rows the recipe's blocks do not fit, counted by the type that they get instead.
    """

    recipe: str
    file_type: int
    reference: GgufHeader
    header: GgufHeader
    fallbacks: Counter[str]

    @property
    def type_names(self) -> frozenset[str]:
        """The number formats that it takes."""
        return frozenset(tensor.type_name for tensor in self.header.tensors)

    @property
    def n_quantized(self) -> int:
        """Tensors that the quantizer touches."""
        return sum(may_quantize(tensor, _architecture(self.reference)) for tensor in self.reference.tensors)


def plan_recipe(reference: GgufHeader, recipe: str, *, has_imatrix: bool) -> RecipePlan:
    """What ``recipe`` makes of a model, which may be quantized already.

    Raises:
        UsageError: no such recipe, or it needs an importance matrix, or the model is that already, or its types cannot be told.
        ModelFileError: the metadata lack what the rules need, or are damaged.
    """
    name = canonical_recipe(recipe)
    if needs_imatrix(name) and not has_imatrix:
        raise UsageError(
            f"{name} needs an importance matrix, without which so few bits are rubbish; give the file that llama-imatrix made of the "
            "model with --imatrix, or choose a recipe of more bits"
        )
    source = as_float(reference)
    header = quantized_header(source, name, has_imatrix=has_imatrix)
    if _is_same(header, reference):
        raise UsageError(
            f"{reference.source} is {name} already, so making {name} of it would copy it; leave {name} out of --make, or give the "
            "model's F16, BF16 or Q8_0 file as the reference"
        )
    file_type = header.metadata[_FILE_TYPE]
    if not isinstance(file_type, int):  # cannot be: the plan has put it there
        raise UsageError(f"{name} has no number in llama.cpp; choose another recipe")
    return RecipePlan(
        recipe=name,
        file_type=file_type,
        reference=reference,
        header=header,
        fallbacks=_fallbacks(source, header, name, has_imatrix=has_imatrix),
    )


def bits_per_weight(header: GgufHeader) -> float:
    """Bits per number of all tensors together."""
    return header.tensor_bytes * BITS_PER_BYTE / sum(tensor.elements for tensor in header.tensors)


def main_type(header: GgufHeader) -> str:
    """The number format of most of the weights that a quantizer touches, or of most of all where it touches none."""
    architecture = _architecture(header)
    touched = [tensor for tensor in header.tensors if may_quantize(tensor, architecture)]
    elements: Counter[str] = Counter()
    for tensor in touched or header.tensors:
        elements[tensor.type_name] += tensor.elements
    return elements.most_common(1)[0][0]


def plan_warnings(plan: RecipePlan) -> tuple[str, ...]:
    """What a reader of the candidate's figures has to know."""
    warnings = []
    before = main_type(plan.reference)
    if before not in FLOAT_TYPES:
        warnings.append(_twice_rounded(before, plan.recipe))
        copied = _n_copied(plan)
        if copied >= plan.n_quantized * _WORTH_TELLING:
            warnings.append(
                f"{copied} of {plan.n_quantized} quantized tensors were of the type that {plan.recipe} wants already and are copies: no difference "
                "can come from them"
            )
    if bits_per_weight(plan.header) >= bits_per_weight(plan.reference):
        warnings.append(
            f"{plan.recipe} takes no fewer bits than the file it was made from ({bits_per_weight(plan.reference):.2f} bits per weight there, "
            f"{bits_per_weight(plan.header):.2f} here): it cannot be better, and gains nothing"
        )
    if plan.fallbacks:
        warnings.append(_fallback_words(plan))
    return tuple(warnings)


def _twice_rounded(before: str, recipe: str) -> str:
    shown = before.upper()
    if before == _NEARLY_EXACT:
        return (
            f"made from a file that is already {shown}: the comparison is biased a little, as what {shown} itself lost is missing from the "
            "differences; that is usually far less than a candidate of fewer bits loses"
        )
    return (
        f"made from a file that is already {shown}: the comparison is biased. What {shown} itself lost is missing from the differences, so "
        f"they look smaller than they are against the original model; and {recipe} made from the original would be better than this one, "
        "which was rounded twice. Give the model's F16, BF16 or Q8_0 file as the reference"
    )


def _fallback_words(plan: RecipePlan) -> str:
    types = " or ".join(f"{name} ({count})" for name, count in plan.fallbacks.most_common())
    return (
        f"{plan.fallbacks.total()} of {plan.n_quantized} quantized tensors have rows that the blocks of {plan.recipe} do not fit, and became "
        f"{types} instead: {bits_per_weight(plan.header):.2f} bits per weight"
    )


def _architecture(header: GgufHeader) -> str:
    return str(header.metadata.get("general.architecture", ""))


def _types(header: GgufHeader) -> dict[str, str]:
    return {tensor.name: tensor.type_name for tensor in header.tensors}


def _n_copied(plan: RecipePlan) -> int:
    """Quantized tensors that the quantizer leaves as they are."""
    before, architecture = _types(plan.reference), _architecture(plan.reference)
    return sum(
        may_quantize(tensor, architecture)
        and tensor.type_name not in FLOAT_TYPES
        and before[tensor.name] == tensor.type_name
        for tensor in plan.header.tensors
    )


def _is_same(planned: GgufHeader, reference: GgufHeader) -> bool:
    """Whether the recipe would only copy the model, or make what another release of llama.cpp made of it by the same recipe."""
    same_recipe = planned.metadata[_FILE_TYPE] == reference.metadata.get(_FILE_TYPE)
    return _types(planned) == _types(reference) or (same_recipe and main_type(planned) == main_type(reference))


def as_float(header: GgufHeader) -> GgufHeader:
    """The same model as if it had not been quantized: the quantizer chooses types by names and shapes, whatever they were before."""
    architecture = _architecture(header)

    def plain(tensor: TensorInfo) -> TensorInfo:
        is_quantized = tensor.type_name not in FLOAT_TYPES and may_quantize(tensor, architecture)
        return replace(tensor, type_name="f16") if is_quantized else tensor

    return replace(header, tensors=tuple(map(plain, header.tensors)))


def _fallbacks(source: GgufHeader, planned: GgufHeader, recipe: str, *, has_imatrix: bool) -> Counter[str]:
    """What tensors get that would get another type were their rows a whole number of the longest blocks."""
    longer = replace(source, tensors=tuple(map(_with_whole_rows, source.tensors)))
    wanted = _types(quantized_header(longer, recipe, has_imatrix=has_imatrix))
    return Counter(tensor.type_name for tensor in planned.tensors if tensor.type_name != wanted[tensor.name])


def _with_whole_rows(tensor: TensorInfo) -> TensorInfo:
    """The tensor with rows that any block fits; what is no matrix stays."""
    if n_dims(tensor.dims) < 2:  # noqa: PLR2004 - a matrix
        return tensor
    row = -(-tensor.dims[0] // _LONGEST_BLOCK) * _LONGEST_BLOCK
    return replace(tensor, dims=(row, *tensor.dims[1:]))


def largest_working_bytes(plan: RecipePlan) -> int:
    """Memory for the largest tensor as a whole: as it is, as 32-bit floats, and as it becomes."""
    after = {tensor.name: tensor.n_bytes for tensor in plan.header.tensors}
    return max(
        (
            tensor.n_bytes + tensor.elements * row_bytes("f32", 1) + after[tensor.name]
            for tensor in plan.reference.tensors
        ),
        default=0,
    )
