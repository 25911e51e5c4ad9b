"""What the documents show is run: every `sh` and `python` block, page by page, in an empty folder; links lead somewhere."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
TWO_COMMANDS = "make demo\nmake test\n"  # .ci/run runs these


def blocks(page: Path) -> list[tuple[str, str]]:
    """(language, text) of every fenced block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def test_the_readme_names_the_two_commands():
    assert ("sh", TWO_COMMANDS) in blocks(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text in blocks(page):
        assert language in ("sh", "python"), f"{page.name}: a block without a language cannot be run"
        if text == TWO_COMMANDS:
            continue
        call = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-W", "error", "-c", text]
        done = subprocess.run(
            call, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target
