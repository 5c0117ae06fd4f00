"""The child of :mod:`suffice.loaders.pattern_search`: looks for patterns in texts until its input ends, or until it is killed."""

from __future__ import annotations

import json
import sys

from suffice.model.items import Pick
from suffice.model.scoring import find_pattern


def main() -> None:
    """One JSON line in, one out: ``pattern``, ``text`` and ``pick`` give ``found``."""
    for line in sys.stdin:
        asked = json.loads(line)
        pick = Pick(asked["pick"]) if asked["pick"] else None
        sys.stdout.write(json.dumps({"found": find_pattern(asked["pattern"], asked["text"], pick)}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
