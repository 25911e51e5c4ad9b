"""What the documents show is run: every `sh` and `python` block, page by page, in an empty folder; links lead somewhere.

Python blocks with no `sh` block between them go on from each other, as a reader takes them; a `text` block is what the code
above it prints, or a part of that.
"""

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


def steps(page: Path) -> list[tuple[str, str, list[str]]]:
    """(language, code, what it prints) of the page's blocks, neighbouring ones of Python joined."""
    joined: list[tuple[str, str, list[str]]] = []
    for language, text in blocks(page):
        if language == "text":
            joined[-1][2].append(text)
        elif joined and language == joined[-1][0] == "python":
            joined[-1] = language, f"{joined[-1][1]}\n{text}", joined[-1][2]
        else:
            joined.append((language, text, []))
    return joined


def test_the_readme_names_the_two_commands():
    assert ("sh", TWO_COMMANDS) in blocks(ROOT / "README.md")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page, tmp_path):
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text, prints in steps(page):
        assert language in ("sh", "python"), f"{page.name}: a block without a language cannot be run"
        if text == TWO_COMMANDS:
            continue
        call = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-W", "error", "-c", text]
        done = subprocess.run(
            call, cwd=tmp_path, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}{done.stderr}"
        for shown in prints:
            assert shown in done.stdout, f"{page.name}:\n{shown}\nis not in\n{done.stdout}"


def test_the_matmul_that_is_explained_is_the_one_that_is_measured():
    """docs/matmul.md has the schedule of examples/matmul.py, which benchmarks/cpu_matmul.py runs, word for word."""
    source = (ROOT / "examples" / "matmul.py").read_text(encoding="utf-8")
    schedule = re.search(r"^def schedule\(.*?^    return s\n", source, flags=re.MULTILINE | re.DOTALL)
    assert schedule is not None
    assert schedule[0] in (ROOT / "docs" / "matmul.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", prose):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target
