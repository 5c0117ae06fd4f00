"""Every error that suffice raises on purpose.

::

    SufficeError                 one sentence: what happened, to what, what to do
    ├── UsageError               a flag or an argument is wrong
    │   └── UnsupportedShapeError  a shape is understood, and cannot be built or cut into slices
    ├── DemandError              a demand file is wrong, contradictory or impossible
    ├── ModelFileError           a GGUF file is damaged, unsupported or hostile
    ├── RecordError              a run record or benchmark file cannot be used
    ├── OutputError              a result could not be written
    └── EngineError              an engine is missing, does not fit, or failed
        ├── EngineMissingError   no engine is installed; the message has the command that installs one
        └── EngineCrashError     the engine's process died (a crash inside llama.cpp)

The command line prints the sentence and exits with ``exit_code``; nothing else is printed, least of all a traceback.
"""

from __future__ import annotations


class SufficeError(Exception):
    """Base of all errors raised on purpose. ``str(error)`` is one message for a person."""

    exit_code: int = 2


class UsageError(SufficeError):
    """A flag or an argument is wrong."""


class UnsupportedShapeError(UsageError):
    """A shape is understood, and cannot be built or cut into slices."""


class DemandError(SufficeError):
    """A demand file is wrong, contradictory or impossible."""


class ModelFileError(SufficeError):
    """A model file is damaged, unsupported or hostile."""


class RecordError(SufficeError):
    """A run record or a foreign benchmark file cannot be used."""


class OutputError(SufficeError):
    """A result could not be written."""


class EngineError(SufficeError):
    """An engine is missing, does not fit, or failed."""


class EngineMissingError(EngineError):
    """No engine is installed; the message has the command that installs one."""


class EngineCrashError(EngineError):
    """The engine's process died; what was measured before is kept."""
