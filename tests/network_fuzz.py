"""Compares random networks on every target; `--help` says how."""

import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parent
    sys.path[:0] = [str(tests), str(tests / "compiler")]
    from networks.tool import main

    sys.exit(main())
