"""Settings of every test."""

import os

from hypothesis import settings

settings.register_profile("vtakit", deadline=None, derandomize=os.environ.get("CI") == "true")
settings.load_profile("vtakit")
