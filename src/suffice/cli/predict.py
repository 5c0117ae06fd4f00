"""``suffice predict``: many rows of machines and workloads, each with the speed that is to be expected."""

from __future__ import annotations

import csv
import gzip
import io
import zlib
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from suffice.cli import options
from suffice.errors import RecordError, UsageError
from suffice.units import GIB, KIB

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from suffice.predict.bulk import DevicePredictor

_MOST_BYTES: Final = GIB
_MOST_CELL_CHARACTERS: Final = 64 * KIB
_GZIP_MAGIC: Final = b"\x1f\x8b"

Rows = Annotated[
    Path,
    typer.Argument(
        metavar="ROWS.csv",
        help="Machines and workloads: columns of cloud machines joined with llama-bench, any of them missing; .csv or .csv.gz.",
    ),
]
Out = Annotated[
    Path, typer.Option("-o", "--out", metavar="OUT.csv", help="Where the table with the answers goes; .csv or .csv.gz.")
]


def predict(
    rows: Rows,
    out: Out,
    measured: Annotated[
        bool,
        typer.Option(
            "--measured/--no-measured",
            help="Show the real measurement where the very machine was measured (the default), or predict it all the same.",
        ),
    ] = True,
    json_output: options.Json = False,
) -> None:
    """Tokens per second with a range of 80 % for each row: a prediction, or the measurement of somebody who rented that machine.

    Adds the columns predicted_tokens_per_second, low, high and basis ("predicted", "measured elsewhere" or "unknown").

    Example: suffice predict rows.csv -o predicted.csv
    """
    from suffice.cli.output import print_json, print_text, warn
    from suffice.predict.bulk import UNKNOWN, counted, predict_table, with_answers
    from suffice.predict.cpu_data import shipped_cpu_model, shipped_measurements
    from suffice.records.store import write_atomically

    header, cells = read_table(rows)
    answers = predict_table(
        header, cells, shipped_cpu_model(), shipped_measurements() if measured else None, _devices()
    )
    names, lines = with_answers(header, cells, answers)
    write_atomically(out, _packed(out, names, lines))
    counts = counted(answers)
    if counts[UNKNOWN]:
        warn(
            [f"{counts[UNKNOWN]} of {len(cells)} rows cannot be predicted: they say too little of machine or workload"]
        )
    if json_output:
        print_json({"rows": len(cells), "level": shipped_cpu_model().level, "basis": counts, "out": str(out)})
    else:
        parts = ", ".join(f"{count} {basis}" for basis, count in counts.items() if count)
        print_text(f"{len(cells)} rows: {parts or 'none'}; written to {out}")


def read_table(path: Path) -> tuple[list[str], list[list[str]]]:
    """Header and rows of a CSV file, which may be compressed by gzip.

    Raises:
        RecordError: not readable, no CSV, or without the columns that a prediction needs.
    """
    from suffice.predict.rows import Columns

    text = _text(path)
    if "\x00" in text:
        raise RecordError(f"{path} is not a CSV file: it holds NUL characters")
    previous = csv.field_size_limit(_MOST_CELL_CHARACTERS)
    try:
        lines = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    except csv.Error as error:
        raise RecordError(f"{path} is not a usable CSV file: {error}") from error
    finally:
        csv.field_size_limit(previous)
    if not lines:
        raise RecordError(f"{path} is empty; a CSV file with a header and rows is needed")
    header = [name.strip() for name in lines[0]]
    lacking = Columns.of(header).lacks_all_of_a_kind()
    if lacking:
        raise RecordError(f"{path} cannot be predicted: {lacking} (its first line is read as the header)")
    for number, row in enumerate(lines[1:], start=2):
        if len(row) > len(header):
            raise RecordError(f"{path}: row {number} has {len(row)} cells, but the header has {len(header)}")
    return header, lines[1:]


def _text(path: Path) -> str:
    try:
        if path.exists() and not path.is_file():
            raise RecordError(f"{path} is not a regular file; give the path of a CSV file")
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        if content.startswith(_GZIP_MAGIC):
            with gzip.GzipFile(fileobj=io.BytesIO(content)) as packed:
                content = packed.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        raise RecordError(f"{path} does not exist") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise RecordError(f"{path} is a damaged gzip file: {error}") from error
    except (OSError, ValueError) as error:
        raise RecordError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if len(content) > _MOST_BYTES:
        raise RecordError(f"{path} holds more than {_MOST_BYTES} bytes; split it")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise RecordError(f"{path} is not UTF-8 text (byte {error.start}); save it as UTF-8 CSV") from error


def _packed(out: Path, names: Sequence[str], lines: Iterable[Sequence[str]]) -> bytes:
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(lines)
    content = buffer.getvalue().encode()
    if out.suffix == ".gz":
        return gzip.compress(content, mtime=0)
    if out.suffix not in {".csv", ".tsv", ".txt", ""} and out.suffix in {".json", ".xlsx", ".parquet"}:
        raise UsageError(f"{out} would be a CSV file; give it the ending .csv or .csv.gz")
    return content


def _devices() -> DevicePredictor | None:
    """The predictor of rows that ran on a GPU, where this package has it."""
    if find_spec("suffice.predict.device") is None:
        return None
    from importlib import import_module

    found: DevicePredictor | None = getattr(import_module("suffice.predict.device"), "predict_device_rows", None)
    return found
