"""How often each interval of `suffice quants` holds the true value: simulated, or summed over all outcomes where that can be done.

    python -m benchmarks.interval_coverage                 # all parts, seeded, one core, about three minutes
    python -m benchmarks.interval_coverage --part grouped  # one of: paired grid grouped price graded hidden bootstrap share documents tail planned

Prints the tables of docs/quality-statistics.md. "95 %" is the two-sided interval's coverage in percent; "low" and "high" are the
one-sided errors of the 95 % bounds: how often the lower bound lies above the truth, and the upper one below it (5 would be exact).
"""

from __future__ import annotations

import argparse
import math
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
from benchmarks.paired_outcomes import newcombe_covers, outcomes
from scipy.special import ndtr
from scipy.stats import binom

from suffice.quality.bootstrap import BootstrapKind, bootstrap_interval
from suffice.quality.tails import token_tail
from suffice.stats.documents import DocumentTotal, Scale, document_mean
from suffice.stats.mcnemar import PairedCounts
from suffice.stats.noninferiority import Decision, items_to_decide, non_inferior
from suffice.stats.paired import (
    GroupDifferences,
    PairedSummary,
    difference_interval,
    p_above,
    summarize_counts,
    summarize_groups,
)
from suffice.stats.score import paired_statistic
from suffice.stats.shares import ShareSummary, share_bounds, share_interval, summarize_share, summarize_share_groups

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]
    Ints = NDArray[np.int64]
    Draw = Callable[[tuple[int, ...]], Floats]
    Case = tuple[int, int, float]  # groups, mean items of each, correlation

SEED = 20261130
REPETITIONS = 2000
GROUPINGS = ((5, 20), (10, 10), (20, 15), (30, 10), (50, 6), (100, 10), (200, 5))  # groups, mean items of each


def table(title: str, header: str, rows: Iterable[str]) -> None:
    """Print a Markdown table."""
    columns = header.count("|") + 1
    print(f"\n**{title}**\n\n| {header} |\n|{'---|' * columns}")
    for row in rows:
        print(f"| {row} |", flush=True)


def rates(p_values: Sequence[float] | Floats, chance: Floats | None = None) -> str:
    """Two-sided coverage and both one-sided errors from one-sided p-values at the truth, of outcomes alike or with their chances."""
    p = np.asarray(p_values)
    weights = np.full(len(p), 1 / len(p)) if chance is None else chance
    return " | ".join(f"{100 * weights[part].sum():.1f}" for part in ((p > 0.025) & (p < 0.975), p < 0.05, p > 0.95))


def p_values_of(gained: Ints, lost: Ints, items: int, truth: float) -> tuple[Floats, Floats]:
    """One-sided p-values at the truth, ours and Tango's."""
    pairs = list(zip(gained.tolist(), lost.tolist(), strict=True))
    ours = [known(p_above(summary_of_counts(g, b, items), truth)) for g, b in pairs]
    return np.array(ours), ndtr([-paired_statistic(g, b, items, truth) for g, b in pairs])


def paired_row(items: int, differing: float, lost_share: float) -> str:
    """Coverage for one truth: ours and Tango's exactly, Newcombe's simulated at accuracies of 0.6 and 0.98."""
    loss = differing * lost_share
    gain = differing - loss
    gained, lost, chance = outcomes(items, gain, loss)
    truth = gain - loss
    ours, plain = p_values_of(gained, lost, items, truth)
    newcombe = []
    random = np.random.default_rng((SEED, items, round(100 * differing), round(100 * lost_share)))
    for accuracy in (0.6, 0.98):
        both = min(max(0.0, accuracy - loss), 1 - differing)
        cells = random.multinomial(items, [both, loss, gain, max(0.0, 1 - both - differing)], size=10 * REPETITIONS)
        newcombe.append(100 * float(np.mean(newcombe_covers(cells, truth))))
    tango = rates(plain, chance).split(" | ")[0]
    newcombe_text = " | ".join(f"{share:.1f}" for share in newcombe)
    return f"{items} | {differing:.0%} | {lost_share:.0%} | {rates(ours, chance)} | {tango} | {newcombe_text}"


def grid_row(items: int) -> str:
    """The worst of a finer grid of truths: ours and Tango's."""
    ours_worst, plain_worst = [100.0, 0.0], [100.0, 0.0]
    cases = 0
    for differing in (0.005, 0.01, 0.015, 0.02, 0.03, 0.04, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3):
        for lost_share in (0.5, 0.6, 0.75, 0.9, 1.0):
            loss = differing * lost_share
            truth = differing - 2 * loss
            gained, lost, chance = outcomes(items, differing - loss, loss)
            p_values = p_values_of(gained, lost, items, truth)
            for worst, p in zip((ours_worst, plain_worst), p_values, strict=True):
                worst[0] = min(worst[0], 100 * float(chance[(p > 0.025) & (p < 0.975)].sum()))
                worst[1] = max(worst[1], *(100 * float(chance[side].sum()) for side in (p < 0.05, p > 0.95)))
            cases += 1
    text = " | ".join(f"{value:.1f}" for value in ours_worst + plain_worst)
    return f"{items} | {cases} | {text}"


def grid() -> None:
    """The worst cases of a finer grid."""
    table(
        "The worst of a finer grid: 0.5 to 30 % differ, half to all of them lost (exact sums)",
        "items | cases | 95 %, least | one side, most | Tango's 95 %, least | Tango's one side, most",
        (grid_row(items) for items in (30, 50, 100, 200, 300, 500, 1000)),
    )


def summary_of_counts(gained: int, lost: int, items: int) -> PairedSummary:
    """Independent items, of which those that do not differ are right."""
    gained, lost = int(gained), int(lost)
    return summarize_counts(
        PairedCounts(both_right=items - gained - lost, only_reference=lost, only_candidate=gained, both_wrong=0)
    )


def known(value: float | None) -> float:
    """A number that must be there."""
    if value is None:
        raise ValueError("a case of the table has no interval")
    return value


def paired() -> None:
    """Independent items, right or wrong."""
    table(
        "Right or wrong, independent items (exact sums)",
        "items | differ | of these lost | 95 % | low | high | plain Tango | Newcombe, accuracy 0.6 | Newcombe, 0.98",
        (
            paired_row(items, differing, lost_share)
            for items in (30, 100, 300, 1000)
            for differing in (0.01, 0.02, 0.05, 0.1, 0.2)
            for lost_share in (0.5, 0.8, 1.0)
        ),
    )


def group_sizes(groups: int, mean: int, random: np.random.Generator) -> Ints:
    """Sizes of documents, very uneven: geometric."""
    return random.geometric(1 / mean, groups).astype(np.int64)


def correlated(draw: Draw, sizes: Ints, correlation: float, random: np.random.Generator) -> Floats:
    """Values of which each is, with the root of the correlation as chance, its group's own value: intra-class correlation as given."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    shared = draw((len(sizes),))[group]
    own = draw((len(group),))
    return np.where(random.random(len(group)) < math.sqrt(correlation), shared, own)


def summary_of(values: Floats, sizes: Ints, *, binary: bool) -> PairedSummary:
    """The summary of differences whose groups follow each other."""
    starts = np.concatenate(([0], np.cumsum(sizes)[:-1]))
    gains, losses = np.maximum(values, 0), np.maximum(-values, 0)
    sums = [np.add.reduceat(part, starts).tolist() for part in (gains, losses, gains * gains, losses * losses)]
    groups = [
        GroupDifferences(items=n, gained=g, lost=b, whole_gained=gg, whole_lost=bb)
        for n, g, b, gg, bb in zip(sizes.tolist(), *sums, strict=True)
    ]
    return summarize_groups(groups, binary=binary, differing=int(np.count_nonzero(values)))


def changes(random: np.random.Generator, differing: float) -> Draw:
    """Differences of right and wrong, four of five a loss."""

    def draw(shape: tuple[int, ...]) -> Floats:
        uniform = random.random(shape)
        return np.where(uniform < 0.8 * differing, -1.0, np.where(uniform < differing, 1.0, 0.0))

    return draw


def simulated_rates(draw: Draw, truth: float, case: Case, random: np.random.Generator, *, binary: bool) -> str:
    """Coverage of our interval with new sizes in each repetition; refused ones are left out."""
    groups, mean, correlation = case
    p_values = []
    for _ in range(REPETITIONS // 2):
        sizes = group_sizes(groups, mean, random)
        summary = summary_of(correlated(draw, sizes, correlation, random), sizes, binary=binary)
        if summary.shortage is None:
            p_values.append(known(p_above(summary, truth)))
    return rates(p_values)


def grouped() -> None:
    """Right or wrong in groups."""
    random = np.random.default_rng(SEED + 1)
    table(
        "Right or wrong, in groups of very uneven size",
        "groups | items | correlation | differ | 95 % | low | high",
        (
            f"{groups} | {groups * mean} | {correlation} | {differing:.0%} | "
            + simulated_rates(
                changes(random, differing), -0.6 * differing, (groups, mean, correlation), random, binary=True
            )
            for groups, mean in GROUPINGS
            for correlation in (0.0, 0.2, 0.5)
            for differing in (0.02, 0.05, 0.2)
        ),
    )


def price_row(groups: int, mean: int, differing: float, correlation: float, random: np.random.Generator) -> str:
    """How much wider the interval by groups of one size is than that of the same items taken for independent."""
    sizes, alone = np.full(groups, mean), np.ones(groups * mean, dtype=np.int64)
    ratios = []
    for _ in range(REPETITIONS // 50):
        values = correlated(changes(random, differing), sizes, correlation, random)
        wide, narrow = (difference_interval(summary_of(values, size, binary=True)) for size in (sizes, alone))
        if wide is not None and narrow is not None:
            ratios.append((wide.high - wide.low) / (narrow.high - narrow.low))
    return f"{groups} | {mean} | {correlation} | {differing:.0%} | {np.mean(ratios):.2f} | {math.sqrt(1 + (mean - 1) * correlation):.2f}"


def price() -> None:
    """The width that groups cost."""
    random = np.random.default_rng(SEED + 8)
    table(
        "What groups of one size cost: width by group over width of independent items",
        "groups | items of each | correlation | differ | width | if the correlation were known",
        (
            price_row(groups, mean, differing, correlation, random)
            for groups, mean in ((200, 5), (100, 10), (50, 20))
            for correlation in (0.0, 0.3)
            for differing in (0.02, 0.05, 0.2)
        ),
    )


GRADED: dict[str, tuple[Callable[[np.random.Generator, tuple[int, ...]], Floats], float]] = {
    "few differ": (lambda r, s: changes(r, 0.05)(s) * r.beta(1, 2, s), -0.01),
    "very few, all lost": (lambda r, s: np.where(r.random(s) < 0.02, -r.beta(1, 2, s), 0.0), -0.02 / 3),
    "all differ a little": (lambda r, s: np.clip(r.normal(-0.02, 0.1, s), -1, 1), -0.02),
    "skewed loss": (lambda r, s: -r.beta(0.3, 3, s), -0.3 / 3.3),
    "many the same": (
        lambda r, s: np.where(r.random(s) < 0.4, r.beta(2, 5, s) - r.beta(2.2, 5, s), 0.0),
        0.4 * (2 / 7 - 2.2 / 7.2),
    ),
}


def graded() -> None:
    """Graded scores, alone and in groups."""
    random = np.random.default_rng(SEED + 2)
    cases = ((30, 1, 0.0), (100, 1, 0.0), (300, 1, 0.0), (10, 10, 0.3), (30, 10, 0.3), (100, 10, 0.3))
    table(
        "Graded scores",
        "differences | groups | items | correlation | 95 % | low | high",
        (
            f"{name} | {case[0]} | {case[0] * case[1]} | {case[2]} | "
            + simulated_rates(partial(draw, random), truth, case, random, binary=False)
            for name, (draw, truth) in GRADED.items()
            for case in cases
        ),
    )


BROKEN = 0.9  # what an answer loses that breaks: a score of 0.9 becomes 0


def hidden_row(case: Case, small: tuple[float, float], broken: float, random: np.random.Generator) -> str:
    """Small differences both ways, and answers that break altogether, so few that none may be seen."""
    share, size = small
    truth = -BROKEN * broken

    def draw(shape: tuple[int, ...]) -> Floats:
        uniform = random.random(shape)
        below = np.where(uniform < broken + share, -size, np.where(uniform < broken + 2 * share, size, 0.0))
        return np.where(uniform < broken, -BROKEN, below)

    groups, mean, correlation = case
    return f"{groups} | {groups * mean} | {correlation} | {share:.0%} by {size} | {broken:.2%} | " + simulated_rates(
        draw, truth, case, random, binary=False
    )


def hidden() -> None:
    """Graded scores whose few large losses hide among many small differences."""
    random = np.random.default_rng(SEED + 9)
    alone = ((60, 1, 0.0), (100, 1, 0.0), (200, 1, 0.0), (300, 1, 0.0), (400, 1, 0.0), (1000, 1, 0.0))
    in_groups = ((30, 10, 0.2), (100, 10, 0.0), (100, 10, 0.5), (300, 10, 0.2), (300, 10, 0.5))
    table(
        "Graded scores: small differences both ways, and answers that break",
        "groups | items | correlation | each way | broken | 95 % | low | high",
        (
            hidden_row(case, small, broken, random)
            for case in (*alone, *in_groups)
            for small in ((0.45, 0.01), (0.3, 0.05), (0.45, 0.1))
            for broken in (0.0112, 0.03)
        ),
    )


def bootstrap_row(name: str, groups: int, mean: int, correlation: float) -> str:
    """Coverage of the three bootstraps in one case."""
    random = np.random.default_rng((SEED, groups, mean, len(name)))
    draw, truth = GRADED[name]
    covered = dict.fromkeys(BootstrapKind, 0)
    repetitions = REPETITIONS // 10
    for _ in range(repetitions):
        sizes = group_sizes(groups, mean, random)
        values = correlated(partial(draw, random), sizes, correlation, random)
        names = np.repeat(np.arange(groups), sizes).tolist()
        for kind in BootstrapKind:
            interval = bootstrap_interval(values.tolist(), names, kind, resamples=499)
            covered[kind] += interval is not None and interval.low <= truth <= interval.high
    shares = " | ".join(f"{100 * count / repetitions:.0f}" for count in covered.values())
    return f"{name} | {groups} | {groups * mean} | {correlation} | {shares}"


def bootstrap() -> None:
    """The three bootstraps on a few of the same cases, with fewer repetitions: what they miss is plain."""
    table(
        "Bootstraps by group (none is used to decide)",
        "differences | groups | items | correlation | percentile | BCa | studentized",
        (
            bootstrap_row(name, groups, mean, correlation)
            for name in ("few differ", "all differ a little", "skewed loss")
            for groups, mean, correlation in ((100, 1, 0.0), (10, 10, 0.3), (30, 10, 0.3), (100, 10, 0.3))
        ),
    )


def share_errors(summary: ShareSummary, accuracy: float) -> Floats | None:
    """Whether the interval holds the truth, and on which side each bound fails; None where it is refused."""
    interval, bounds = share_interval(summary), share_bounds(summary, 0.95)
    if interval is None or bounds is None:
        return None
    return np.array([interval.low <= accuracy <= interval.high, bounds[0] > accuracy, bounds[1] < accuracy], float)


def share_row(items: int, accuracy: float) -> str:
    """Coverage of Wilson's interval and errors of the corrected bounds, summed over all outcomes."""
    chances = binom.pmf(np.arange(items + 1), items, accuracy)
    found = np.zeros(3)
    for right in np.flatnonzero(chances > 1e-8).tolist():
        summary = summarize_share_groups([1.0] * right + [0.0] * (items - right), [1] * items, binary=True)
        errors = share_errors(summary, accuracy)
        found += 0 if errors is None else chances[right] * errors
    return f"{items} | – | {accuracy} | – | " + " | ".join(f"{100 * part:.1f}" for part in found)


def share_grouped_row(groups: int, mean: int, accuracy: float, correlation: float, random: np.random.Generator) -> str:
    """The same in groups, simulated."""
    found = []
    for _ in range(REPETITIONS // 2):
        sizes = group_sizes(groups, mean, random)
        values = correlated(lambda shape: (random.random(shape) < accuracy).astype(float), sizes, correlation, random)
        errors = share_errors(summarize_share(values.tolist(), np.repeat(np.arange(groups), sizes).tolist()), accuracy)
        if errors is not None:
            found.append(errors)
    shares = " | ".join(f"{100 * part:.1f}" for part in np.mean(found, axis=0))
    return f"{groups * mean} | {groups} | {accuracy} | {correlation} | {shares}"


def share() -> None:
    """The accuracy of one model."""
    random = np.random.default_rng(SEED + 4)
    alone = (
        share_row(items, accuracy) for items in (5, 10, 30, 100, 300, 1000) for accuracy in (0.6, 0.8, 0.9, 0.95, 0.98)
    )
    in_groups = (
        share_grouped_row(groups, mean, accuracy, correlation, random)
        for groups, mean in ((5, 20), (20, 15), (50, 6), (200, 5))
        for accuracy in (0.6, 0.9, 0.98)
        for correlation in (0.0, 0.3)
    )
    table(
        "Accuracy of one model (Wilson; bounds exact for independent items, else corrected)",
        "items | groups | accuracy | correlation | 95 % | low | high",
        chain(alone, in_groups),
    )


def document_totals(kind: str, documents: int, random: np.random.Generator) -> tuple[Floats, Ints, float]:
    """Totals and tokens of documents of very uneven length, with the true mean."""
    tokens = np.maximum(8, 300 * random.lognormal(-0.3, 0.8, documents)).astype(np.int64)
    if kind == "log-loss":
        return (
            tokens * random.normal(2.5, 0.4, documents) + np.sqrt(tokens) * random.normal(0, 2.5, documents),
            tokens,
            2.5,
        )
    if kind == "paired difference of log-loss":
        means = random.normal(0.02, 0.02, documents) * np.where(random.random(documents) < 0.1, 3, 1)
        return tokens * means + np.sqrt(tokens) * random.normal(0, 0.2, documents), tokens, 0.024
    values = random.lognormal(-(1.6**2) / 2, 1.6, int(tokens.sum()))
    totals = np.add.reduceat(values, np.concatenate(([0], np.cumsum(tokens)[:-1])))
    return 0.01 * totals * random.lognormal(-0.125, 0.5, documents), tokens, 0.01


def documents_row(kind: str, number: int, random: np.random.Generator) -> str:
    """Coverage of the mean per token, and how often the documents were too uneven for an interval."""
    skewed = kind.startswith("KL")
    repetitions = REPETITIONS // 2 if skewed else REPETITIONS
    inside = done = 0
    for _ in range(repetitions):
        totals, tokens, truth = document_totals(kind, number, random)
        parts = [DocumentTotal(total=float(a), tokens=int(n)) for a, n in zip(totals, tokens, strict=True)]
        mean = document_mean(parts, Scale.LOGARITHMIC if skewed else Scale.PLAIN)
        if mean.interval is not None:
            done += 1
            inside += mean.interval.low <= truth <= mean.interval.high
    return f"{kind} | {number} | {100 * inside / done:.1f} | {100 * (1 - done / repetitions):.1f}"


def documents() -> None:
    """Means per token with documents as the unit."""
    random = np.random.default_rng(SEED + 5)
    table(
        "Means per token, by document",
        "quantity | documents | 95 % | refused, %",
        (
            documents_row(kind, number, random)
            for kind in ("log-loss", "paired difference of log-loss", "KL divergence, heavy-tailed")
            for number in (5, 10, 20, 50, 200)
        ),
    )


def tail_row(number: int, truth: float, random: np.random.Generator) -> str:
    """Coverage of the interval of P99 over the tokens of so many documents."""
    found = []
    for _ in range(REPETITIONS // 10):
        tokens = np.maximum(8, 300 * random.lognormal(-0.3, 0.8, number)).astype(int)
        parts = [random.lognormal(-0.125, 0.5) * random.lognormal(-(1.6**2) / 2, 1.6, count) for count in tokens]
        interval = token_tail(parts).interval
        if interval is not None:
            found.append(interval.low <= truth <= interval.high)
    coverage = f"{100 * np.mean(found):.1f}" if found else "–"
    return f"{number} | {coverage} | {100 * (1 - len(found) / (REPETITIONS // 10)):.0f}"


def tail() -> None:
    """P99 over tokens, by document; the truth is the quantile of a large sample."""
    random = np.random.default_rng(SEED + 6)
    factors = random.lognormal(-0.125, 0.5, 1_000_000)
    truth = float(np.quantile(factors * random.lognormal(-(1.6**2) / 2, 1.6, 1_000_000), 0.99))
    rows = (tail_row(number, truth, random) for number in (10, 20, 50, 100))
    table("P99 over tokens, by document", "documents | 95 % | refused, %", rows)


def planned_row(differing: float, lost_share: float, margin: float, random: np.random.Generator) -> str:
    """How often the number of items that is said to be enough is."""
    loss = round(1000 * differing * lost_share)
    gain = round(1000 * differing) - loss
    pilot = summary_of_counts(gain, loss, 1000)
    items = items_to_decide(pilot, -margin)
    if items is None:
        raise ValueError("no number of items decides this case")
    wanted = Decision.YES if pilot.difference > -margin else Decision.NO
    repetitions = REPETITIONS // 2
    hits = 0
    for _, lost, gained in random.multinomial(items, [1 - differing, loss / 1000, gain / 1000], size=repetitions):
        hits += non_inferior(summary_of_counts(gained, lost, items), margin).decision is wanted
    return f"{differing:.0%} | {lost_share:.0%} | {margin} | {wanted} | {items} | {100 * hits / repetitions:.0f}"


def planned() -> None:
    """The number of items that is said to be enough: how often it is, for 80 % asked."""
    random = np.random.default_rng(SEED + 7)
    cases = ((0.02, 0.5, 0.01), (0.05, 0.5, 0.01), (0.05, 0.6, 0.02), (0.1, 0.8, 0.03), (0.2, 0.5, 0.03))
    table(
        "Items that are said to be enough",
        "differ | of these lost | margin | answer | items | came out so, %",
        (planned_row(*case, random) for case in cases),
    )


PARTS = {
    part.__name__: part
    for part in (paired, grid, grouped, price, graded, hidden, bootstrap, share, documents, tail, planned)
}


def main() -> None:
    """Print one part, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--part", choices=PARTS, action="append")
    for part in parser.parse_args().part or PARTS:
        PARTS[part]()


if __name__ == "__main__":
    main()
