"""The command line. Thin: parse, call, print, exit code; one file per command."""

from __future__ import annotations

import os
import sys

_INTERRUPTED = "interrupted; a record that was being written holds what was measured so far, go on with --resume"
INTERRUPTED_EXIT_CODE = 130  # 128 + SIGINT, as shells expect
BAD_INPUT_EXIT_CODE = 2


def main() -> None:
    """Entry point of ``suffice``. Errors raised on purpose become one sentence on stderr and their exit code.

    1 is for verdicts and guards alone: no accident ends with it.
    """
    try:
        code = _run()
    except KeyboardInterrupt:
        code = INTERRUPTED_EXIT_CODE
        _tell(_INTERRUPTED)
    except Exception as error:  # the last line of defence: one sentence, never a code that means a verdict
        if os.environ.get("SUFFICE_DEBUG"):
            raise
        _tell(
            f"a defect in suffice: {type(error).__name__}: {error}; please report it, with the traceback that "
            "SUFFICE_DEBUG=1 shows"
        )
        code = BAD_INPUT_EXIT_CODE
    sys.exit(code)


def _run() -> int | str | None:
    from suffice.cli.app import build_app  # an interruption from here on ends with one sentence
    from suffice.errors import SufficeError

    try:
        build_app()()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED_EXIT_CODE:  # Typer turns Ctrl-C into this code and says nothing
            _tell(_INTERRUPTED)
        return leaving.code
    except SufficeError as error:
        if str(error):
            _tell(str(error))
        _silence_stdout()
        return error.exit_code
    return 0


def _silence_stdout() -> None:
    """Python flushes once more when it ends; a stdout that failed before would then fail again."""
    try:
        sys.stdout.flush()
    except (AttributeError, OSError, ValueError):
        with open(os.devnull, "wb") as nowhere:  # noqa: PTH123  # os.devnull is no path of ours
            os.dup2(nowhere.fileno(), 1)


def _tell(message: str) -> None:
    """One line on stderr, if there is one that takes it."""
    from suffice.report.tables import one_line

    try:
        sys.stderr.write(f"suffice: {one_line(message)}\n")
        sys.stderr.flush()
    except (AttributeError, OSError, ValueError):  # closed, or full: there is nobody to tell
        return
