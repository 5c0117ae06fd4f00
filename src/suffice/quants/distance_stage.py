"""The distances of a comparison that has answered: with the reference's template, on one text, beside what was measured before."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from suffice.loaders.model_file import open_model_file
from suffice.measure.engine.seam import EngineSettings
from suffice.measure.limits import read_cpu_limits
from suffice.quants.distances import DistanceRun, compared, measure_distances_of
from suffice.quants.texts import DEFAULT_MAX_TOKENS
from suffice.quants.tokens import prompting_for

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from suffice.measure.engine.text_seam import TextEngine, TextSession
    from suffice.measure.prompting import Prompting
    from suffice.model.quants import Distance
    from suffice.quants.distances import DistanceResults
    from suffice.quants.subjects import LocalModel
    from suffice.quants.texts import UserTexts

_ANY_CONTEXT: Final = 1  # whoever opens a session chooses it


@dataclass(frozen=True, slots=True, kw_only=True)
class DistanceStage:
    """How distances are measured; see :class:`~suffice.quants.distances.DistanceRun`. ``threads`` None: all usable CPUs."""

    engine: TextEngine
    texts: UserTexts
    threads: int | None = None
    max_tokens: int = DEFAULT_MAX_TOKENS
    chat_prompts: bool = False
    progress: Callable[[str], None] = field(default=lambda _: None)

    def measure(
        self,
        files: Mapping[str, LocalModel],
        kept: Sequence[Distance],
        save: Callable[[tuple[Distance, ...]], None],
    ) -> DistanceResults:
        """The distances of the others from the first file. ``save`` gets all that there are whenever one more is there.

        Of ``kept``, those of files that are not there now stay, where they are on the same text.

        Raises:
            UsageError: there is no text.
            EngineError: the reference's engine failed.
        """
        threads = self.threads or read_cpu_limits().usable_cpus
        settings = EngineSettings(
            n_ctx=_ANY_CONTEXT,
            n_threads=threads,
            n_threads_batch=threads,
            # With it on, rounding depends on how a text is cut, by as much as eight bits differ from sixteen (docs/quality-statistics.md).
            flash_attention="off",
        )
        so_far = {(one.candidate, one.is_self): one for one in kept}

        def keep(found: Distance) -> None:
            so_far[found.candidate, found.is_self] = found
            save(tuple(so_far.values()))

        reference, *others = [
            compared(name, open_model_file(model.path), settings, identity=model.subject.identity)
            for name, model in files.items()
        ]
        run = DistanceRun(
            engine=self.engine,
            settings=settings,
            texts=self.texts,
            prompting=self._prompting(next(iter(files.values()))),
            max_tokens=self.max_tokens,
            progress=self.progress,
            save=keep,
        )
        found = measure_distances_of(run, reference, others, kept=kept)
        texts = {one.settings.get("text_sha256") for one in found.distances}
        away = [one for one in kept if one.candidate not in files and one.settings.get("text_sha256") in texts]
        return replace(found, distances=(*found.distances, *away))

    def _prompting(self, reference: LocalModel) -> Callable[[TextSession], Prompting]:
        def prompting(session: TextSession) -> Prompting:
            return prompting_for(
                session, reference.template, name=reference.subject.name, chat_prompts=self.chat_prompts
            )

        return prompting
