"""Run every fenced `sh` and `python` block of a page in the current folder: `python examples.py README.md`.

The README's two commands of make are left to .ci/run. Blocks of Python with no other between them go on from each other, as a
reader takes them; a `text` block is what the code above it prints, or a part of that.
"""

import os
import re
import subprocess
import sys
import time
from pathlib import Path

LIMIT_SECONDS = 300
TWO_COMMANDS = "make demo\nmake test\n"  # .ci/run runs these


def blocks(page: Path) -> list[tuple[str, str]]:
    """Return (language, text) of every fenced block of a page."""
    return re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def steps(page: Path) -> list[tuple[str, str, list[str]]]:
    """Return (language, code, what it prints) of a page's blocks, neighbouring ones of Python joined."""
    joined: list[tuple[str, str, list[str]]] = []
    for language, text in blocks(page):
        if language == "text":
            joined[-1][2].append(text)
        elif joined and language == joined[-1][0] == "python":
            joined[-1] = language, f"{joined[-1][1]}\n{text}", joined[-1][2]
        else:
            joined.append((language, text, []))
    return joined


def run_page(page: Path, folder: Path, limit_seconds: float = LIMIT_SECONDS) -> None:
    """Run a page's blocks in a folder; an AssertionError has the block that fails and what it said."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for language, text, prints in steps(page):
        assert language in ("sh", "python"), f"{page.name}: a block without a language cannot be run"
        if text == TWO_COMMANDS:
            continue
        call = ["bash", "-euo", "pipefail", "-c", text] if language == "sh" else [sys.executable, "-W", "error", "-c", text]
        done = subprocess.run(
            call, cwd=folder, env=os.environ | {"PATH": path}, capture_output=True, text=True, timeout=limit_seconds, check=False
        )
        assert done.returncode == 0, f"{page.name}:\n{text}\n{done.stdout}{done.stderr}"
        for shown in prints:
            assert shown in done.stdout, f"{page.name}:\n{shown}\nis not in\n{done.stdout}"


if __name__ == "__main__":
    begun = time.perf_counter()
    run_page(Path(sys.argv[1]), Path())
    print(f"  every block of {Path(sys.argv[1]).name} ({time.perf_counter() - begun:.1f} s)")
