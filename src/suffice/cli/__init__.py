"""The command line. Thin: parse, call, print, exit code; one file per command."""

from __future__ import annotations

import os
import sys

from suffice.errors import SufficeError
from suffice.report.tables import one_line

_INTERRUPTED = (
    "suffice: interrupted; a record that was being written holds what was measured so far, go on with --resume\n"
)
INTERRUPTED_EXIT_CODE = 130  # 128 + SIGINT, as shells expect


def main() -> None:
    """Entry point of ``suffice``. Errors raised on purpose become one sentence on stderr and their exit code."""
    from suffice.cli.app import build_app  # after this, everything is the command line's

    try:
        build_app()()
    except SystemExit as leaving:
        if leaving.code == INTERRUPTED_EXIT_CODE:  # Typer turns Ctrl-C into this code and says nothing
            sys.stderr.write(_INTERRUPTED)
        raise
    except SufficeError as error:
        sys.stderr.write(f"suffice: {one_line(str(error))}\n")  # the command line prints
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.stderr.write(_INTERRUPTED)
        sys.exit(INTERRUPTED_EXIT_CODE)
    except BrokenPipeError:
        # The reader of our output (head, less) went away; Python would complain once more when it flushes.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except Exception as error:  # the last line of defence: one sentence, and never a code that means a verdict
        if os.environ.get("SUFFICE_DEBUG"):
            raise
        sys.stderr.write(
            f"suffice: a defect in suffice: {type(error).__name__}: {one_line(str(error))}; "
            "please report it, with the traceback that SUFFICE_DEBUG=1 shows\n"
        )
        sys.exit(SufficeError.exit_code)
