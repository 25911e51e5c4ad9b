"""`python -m vtakit.runtime` is the `vtakit` command."""

import sys

from vtakit.runtime.cli import main

if __name__ == "__main__":
    sys.exit(main())
