"""Install vtakit as its users do, and run what each installation promises: `python tests/installs --help`."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from installs.tool import main

sys.exit(main())
