"""The `vtakit` command, which `python -m vtakit.runtime` is too."""

import sys
from importlib import import_module


def main() -> int:
    """Run one command; returns the exit status. Ctrl-C is one line as soon as this runs, while the rest is loaded too."""
    try:
        cli = import_module("vtakit.runtime.cli")
    except KeyboardInterrupt:
        print("vtakit: interrupted; nothing was left half-written", file=sys.stderr)
        return 2
    return int(cli.main())


if __name__ == "__main__":
    sys.exit(main())
