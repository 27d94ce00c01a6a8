"""The campaign's command line: `python -m tests.values --count N --seed S` prints JSON last, what failed before it."""

from __future__ import annotations

import sys

from tests.values.campaign import main

if __name__ == "__main__":
    # Worker processes import the campaign by its name, which they can't do with this file.
    sys.exit(main())
