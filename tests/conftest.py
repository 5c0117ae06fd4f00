"""For all tests: the signals that they send arrive."""

from __future__ import annotations

import signal

# A shell starts what runs in its background with SIGINT ignored, and children inherit that: they would never be interrupted.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
