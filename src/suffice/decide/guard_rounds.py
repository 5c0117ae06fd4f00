"""Which rounds of two commands in turns can be held against each other: a command may measure something else the next time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from suffice.decide.guard_fingerprint import Comparability, compare_fingerprints
from suffice.stats.rounds import LEAST_ROUNDS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from suffice.decide.guard_fingerprint import Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class AlikeRounds:
    """The rounds, from 0, in which both sides did the work of the first base on its machine; ``reason``: in what the first of the others differs, "" where none does."""

    numbers: tuple[int, ...]
    total: int
    reason: str

    @property
    def obstacle(self) -> str:
        """Why too few are left to judge anything; "" where enough are."""
        if len(self.numbers) >= LEAST_ROUNDS or not self.reason:
            return ""
        kept = f"{len(self.numbers)} of {self.total} rounds are comparable with the first base"
        return f"not comparable: {self.reason}; {kept}, and {LEAST_ROUNDS} are needed"

    @property
    def note(self) -> str:
        """How many were left out, and why; "" where none was."""
        left_out = self.total - len(self.numbers)
        if not left_out:
            return ""
        return f"{left_out} of {self.total} rounds were left out, which are not comparable with the first base: {self.reason}"


def alike_rounds(bases: Sequence[Fingerprint], heads: Sequence[Fingerprint]) -> AlikeRounds:
    """The rounds that are comparable with the first base, by a fingerprint of each side and round, one round at least.

    A base must be the first one's work on its machine, as it is. A head may be placed on other CPUs of it, as its command says.
    """
    reasons = [_why_not(bases[0], base, head) for base, head in zip(bases, heads, strict=True)]
    return AlikeRounds(
        numbers=tuple(number for number, reason in enumerate(reasons) if not reason),
        total=len(reasons),
        reason=next((reason for reason in reasons if reason), ""),
    )


def _why_not(first: Fingerprint, base: Fingerprint, head: Fingerprint) -> str:
    own = compare_fingerprints(first, base)
    if own.comparability is not Comparability.COMPARABLE:
        return own.reason
    # Against both: what the first base does not tell, that of the round may.
    others = (compare_fingerprints(one, head) for one in (first, base))
    return next((one.reason for one in others if one.comparability is Comparability.NOT_COMPARABLE), "")
