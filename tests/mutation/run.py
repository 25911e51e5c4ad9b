"""Runs the mutation tool; `--help` says how."""

import sys
from pathlib import Path

if __name__ == "__main__":
    tests = Path(__file__).parents[1]
    sys.path[:0] = [str(tests), str(tests / "sim")]
    if sys.argv[1:2] == ["timing"]:
        from mutation.timing import main

        sys.exit(main(sys.argv[2:]))
    from mutation.tool import main

    sys.exit(main())
