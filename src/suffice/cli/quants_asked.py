"""What `quants` was asked: the flags as given, and what is refused before anything is read."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from suffice.errors import UsageError

if TYPE_CHECKING:
    from suffice.decide.quants_types import QualityPolicy
    from suffice.loaders.eval_samples import EvalSamples
    from suffice.loaders.items import ItemSet
    from suffice.model.demand import Demand
    from suffice.quants.parties import Party
    from suffice.quants.respondent import AskOptions

_LEAST_LOGS: Final = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class QuantsOptions:
    """The flags of `quants`; None: not given."""

    reference: str | None
    candidates: tuple[str, ...]
    items: Path | None
    make: str | None
    imatrix: Path | None
    demand_file: Path | None
    max_loss_points: float | None
    texts: tuple[Path, ...]
    text_tokens: int
    distance: bool
    speed: bool
    budget_s: float | None
    slots: int
    threads: int | None
    max_tokens: int
    chat_prompts: bool
    choices_as_text: bool
    on_error: str
    logs: tuple[str, ...]
    log_metric: str | None
    log_filter: str | None
    ca_file: Path | None
    engine: str | None
    engine_library: Path | None
    out: Path | None
    resume: bool
    chart: Path | None
    csv: Path | None
    markdown: Path | None
    flips: Path | None = None
    from_folder: Path | None = None

    def new_folder(self) -> Path:
        """Where the comparison is kept; by the time, where no name is given.

        Raises:
            UsageError: --resume without the folder to go on with.
        """
        if self.resume and self.out is None:
            raise UsageError("--resume needs --out FOLDER, where the interrupted comparison is")
        return self.out or Path("suffice-runs") / f"quants-{datetime.now(UTC).strftime('%Y%m%dT%H%M%SZ')}"

    @property
    def outputs(self) -> dict[str, Path | None]:
        """What is written beside the folder, by flag."""
        return {"--chart": self.chart, "--csv": self.csv, "--flips": self.flips, "--markdown": self.markdown}

    @property
    def inputs(self) -> list[Path]:
        """All files that are read, and the comparison itself."""
        files = [self.items, self.imatrix, self.demand_file, self.ca_file, self.engine_library, *self.texts]
        for folder in (self.out, self.from_folder):
            files += [] if folder is None else [folder, folder / "quants.json", folder / "quants.part.json"]
        words = [word for word in (self.reference, *self.candidates) if word and "://" not in word]
        logs = [text.partition("=")[2] for text in self.logs]
        return [path for path in files if path is not None] + [Path(word) for word in (*words, *logs)]

    def demand(self) -> Demand | None:
        """The demand, where one is given."""
        from suffice.loaders.demand import load_demand

        return None if self.demand_file is None else load_demand(self.demand_file)

    def policy(self, demand: Demand | None) -> QualityPolicy:
        """What a candidate has to reach.

        Raises:
            UsageError: a loss that can never be shown, that is none, or another one than the demand's.
        """
        from suffice.cli.quality import loss_of
        from suffice.decide.quants_evidence import policy_of

        points = self.max_loss_points
        return policy_of(demand, None if points is None else loss_of(points))

    def ask_options(self) -> AskOptions:
        """How models are asked."""
        from suffice.quants.respondent import AskOptions

        return AskOptions(
            slots=self.slots,
            max_tokens=self.max_tokens,
            chat_prompts=self.chat_prompts,
            choices_as_text=self.choices_as_text,
            threads=self.threads,
        )

    def parties(self) -> tuple[Party, ...]:
        """Who is compared.

        Raises:
            UsageError: no reference, or no candidate.
        """
        from suffice.quants.parties import parties
        from suffice.quants.remake import recipes_of

        if self.reference is None:
            raise UsageError("what is compared? Give a reference, then candidates or --make q8_0,q4_k_m")
        return parties(self.reference, self.candidates, () if self.make is None else recipes_of(self.make))

    def item_set(self) -> ItemSet:
        """The questions.

        Raises:
            UsageError: no file, an unknown policy, or lines that cannot be used.
        """
        from suffice.loaders.items import OnError, load_items

        if self.items is None:
            raise UsageError(
                "which questions? Give --items items.jsonl (docs/items.md has what stands in it, examples/items four sets)"
            )
        if self.on_error not in {policy.value for policy in OnError}:
            raise UsageError(f"--on-error {self.on_error}: write stop or skip")
        return load_items(self.items, on_error=OnError(self.on_error))

    def sample_logs(self) -> list[tuple[str, EvalSamples]]:
        """The logs by name, in their order.

        Raises:
            UsageError: fewer than two, or a name twice.
            RecordError: a file that is no such log.
        """
        from suffice.loaders.eval_samples import read_eval_samples

        named = [text.partition("=")[::2] for text in self.logs]
        if any(not name or not file for name, file in named):
            raise UsageError("--log NAME=FILE: name each log, such as --log f16=samples_f16.jsonl")
        if len(named) < _LEAST_LOGS or len({name for name, _ in named}) < len(named):
            raise UsageError("--log is needed twice at least, with different names, the reference's first")
        return [
            (name, read_eval_samples(Path(file), metric=self.log_metric, filter_name=self.log_filter))
            for name, file in named
        ]
