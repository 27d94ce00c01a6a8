"""The campaigns' command line: `python -m tests.property relaxed --count N --seed S`; JSON last, failures before it."""

from __future__ import annotations

import sys

from tests.property.campaign import main

if __name__ == "__main__":
    # Worker processes import the campaign by its name, which they can't do with this file.
    sys.exit(main())
