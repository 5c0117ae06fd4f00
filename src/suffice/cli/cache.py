"""``suffice cache``: what the cache of slices and of made candidates holds, and how to empty it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from suffice.cli import options

if TYPE_CHECKING:
    from suffice.quants.made_store import MadeStore
    from suffice.slices.cache import SliceCache


def build_cache_app() -> typer.Typer:
    """The command and its two subcommands."""
    app = options.group(shows_help=False)
    app.callback(invoke_without_command=True)(cache)
    app.command("clear")(clear)
    app.command("path")(path)
    return app


def cache(context: typer.Context, json_output: options.Json = False) -> None:
    """What the cache holds: pieces of models that `suffice measure SHAPE:QUANT` made, and candidates of `suffice quants --make`.

    It can be deleted at any time. SUFFICE_CACHE_DIR puts it elsewhere. SUFFICE_CACHE_LIMIT (8GiB) bounds the pieces, which
    have random weights; what was not used for longest goes first. Candidates stay until they are cleared.

    Example: suffice cache
    """
    from suffice.cli.output import print_json, print_text
    from suffice.errors import UsageError
    from suffice.quants.made_store import MadeStore
    from suffice.slices.cache import SliceCache

    if context.invoked_subcommand is not None:
        if json_output:
            raise UsageError(f"put --json behind the subcommand: suffice cache {context.invoked_subcommand} --json")
        return
    opened, made = SliceCache(), MadeStore()
    if json_output:
        print_json({**_document(opened), **_made_document(made)})
        return
    print_text("\n\n".join(part for part in (_text(opened), _made_text(made)) if part))


def _age_s(text: str) -> float:
    """Seconds from ``7d``, or from a duration as the other commands take it."""
    from suffice.units import SECONDS_PER_DAY, SECONDS_PER_HOUR, parse_duration_s

    stripped = text.strip().lower()
    try:
        if stripped.endswith("d"):
            return parse_duration_s(f"{stripped[:-1]}h") / SECONDS_PER_HOUR * SECONDS_PER_DAY
        return parse_duration_s(stripped)
    except ValueError as error:
        raise typer.BadParameter(f"{text!r} is not an age; write for example 7d, 12h or 30m") from error


def clear(
    older_than: Annotated[
        float | None,
        typer.Option(
            "--older-than", parser=_age_s, metavar="AGE", help="Only what was not used for this long: 7d, 12h."
        ),
    ] = None,
    json_output: options.Json = False,
) -> None:
    """Empty the cache. Only what suffice wrote is deleted, and nothing that a run is using.

    Example: suffice cache clear --older-than 7d
    """
    from suffice.cli.output import print_json, print_text
    from suffice.quants.made_store import MadeStore
    from suffice.slices.cache import SliceCache
    from suffice.units import format_memory

    opened, made = SliceCache(), MadeStore()
    freed = opened.clear(older_than) + made.clear(older_than)
    left = opened.total_bytes() + made.total_bytes()
    if json_output:
        print_json({"path": str(opened.root), "freed_bytes": freed, "total_bytes": left})
        return
    kept = " (in use by a run)" if left and older_than is None else ""
    print_text(f"{format_memory(freed)} freed in {opened.root}, {format_memory(left)} left{kept}")


def path(json_output: options.Json = False) -> None:
    """Where the cache is. The folder is made when it is first needed.

    Example: suffice cache path
    """
    from suffice.cli.output import print_json, print_text
    from suffice.slices.place import default_root

    root = str(default_root())
    if json_output:
        print_json({"path": root})
        return
    print_text(root)


def _document(opened: SliceCache) -> dict[str, Any]:
    from suffice.slices.cache import CacheEntry

    def entry(item: CacheEntry) -> dict[str, Any]:
        return {
            "key": item.key,
            "name": item.name,
            "layers": item.layers,
            "bytes": item.n_bytes,
            "last_used_unix_s": item.last_used_s,
            "path": str(item.path),
        }

    return {
        "path": str(opened.root),
        "total_bytes": opened.total_bytes(),
        "limit_bytes": opened.limit_bytes,
        "entries": [entry(item) for item in opened.entries()],
    }


def _text(opened: SliceCache) -> str:
    from suffice.report.tables import plain_table
    from suffice.units import format_memory

    entries = opened.entries()
    summary = (
        f"{opened.root}: {format_memory(opened.total_bytes())} of at most {format_memory(opened.limit_bytes)}, "
        f"{len(entries)} {'slice' if len(entries) == 1 else 'slices'}"
    )
    if not entries:
        return summary
    rows = [["model", "layers", "size", "last used"]]
    rows += [
        [entry.name or "unknown", _layers(entry.layers), format_memory(entry.n_bytes), _when(entry.last_used_s)]
        for entry in entries
    ]
    return f"{summary}\n\n{plain_table(rows)}\n\nlayers that several slices share take their space once"


def _made_document(made: MadeStore) -> dict[str, Any]:
    from suffice.quants.made_store import MadeEntry

    def entry(item: MadeEntry) -> dict[str, Any]:
        note = item.note
        return {
            "key": item.key,
            "recipe": note and note.recipe,
            "made_from": note and note.reference,
            "has_imatrix": note and note.imatrix is not None,
            "engine": note and note.engine,
            "bytes": item.n_bytes,
            "last_used_unix_s": item.last_used_s,
            "path": str(item.path / note.file if note else item.path),
        }

    return {"made_bytes": made.total_bytes(), "made": [entry(item) for item in made.entries()]}


def _made_text(made: MadeStore) -> str:
    """The candidates; nothing where there are none."""
    from suffice.report.tables import plain_table
    from suffice.units import format_memory

    entries = made.entries()
    if not entries:
        return ""
    rows = [["candidate", "made from", "size", "last used"]]
    for entry in entries:
        note = entry.note
        name = "unknown" if note is None else note.recipe + (" with imatrix" if note.imatrix else "")
        source = "unknown" if note is None else note.reference
        rows.append([name, source, format_memory(entry.n_bytes), _when(entry.last_used_s)])
    count = f"{len(entries)} {'candidate' if len(entries) == 1 else 'candidates'}"
    return f"{count} made by `suffice quants --make`: {format_memory(made.total_bytes())}\n\n{plain_table(rows)}"


def _layers(layers: int | None) -> str:
    return "unknown" if layers is None else str(layers)


def _when(at_s: float) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(at_s, tz=UTC).strftime("%Y-%m-%d %H:%M UTC")
