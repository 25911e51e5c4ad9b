"""Print the test files that a change touches most: what `make quick` runs.

  python tests/touched.py                    for uncommitted changes, or else for the last commit
  python tests/touched.py --since main --most 20

A test file scores for each changed module that it imports, the more the fewer test files import that module. A module that is
imported through another one scores less. Changed test files come first, and the checks of the structure are always there.
"""

import argparse
import ast
import subprocess
import sys
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PARTS = ("boards", "compiler", "hw", "runtime", "sim")  # folders beside vtakit/ that it links to
ALWAYS = ROOT / "tests" / "test_structure.py"
DEPTH_PENALTY = 8  # a module that is imported through another one scores an eighth
DEPTH = 2  # most modules between a test and a changed module, if a test is found there
MOST_DEPTH = 12  # most modules between them otherwise


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--since", metavar="REVISION", help="git revision with which the working tree is compared")
    parser.add_argument("--most", type=int, default=8, metavar="N", help="test files to print (8)")
    args = parser.parse_args()
    try:
        changed = changes(args.since)
    except subprocess.CalledProcessError as error:
        print(f"touched.py: git cannot list the changed files: {error.stderr.strip()}", file=sys.stderr)
        return 2
    tests = {path: imported(path) for path in sorted((ROOT / "tests").rglob("test_*.py"))}
    own = [path for path in changed if path in tests]
    others = ranked(changed, tests)
    for path in list(dict.fromkeys([ALWAYS, *own, *others]))[:max(args.most, 1 + len(own))]:
        print(path.relative_to(ROOT))
    return 0


def changes(since: str | None) -> list[Path]:
    """Return the Python files that differ from a revision and are still there."""
    if since is None and not _git("status", "--porcelain", "--", "*.py"):
        since = next(iter(_git("rev-list", "--first-parent", "--max-count=1", "--skip=1", "HEAD")), None)
        if since is None:  # the first commit, or all that a shallow clone has
            return []
    since = since or "HEAD"
    names = _git("diff", "--name-only", since, "--", "*.py") + _git("ls-files", "--others", "--exclude-standard", "--", "*.py")
    return [ROOT / name for name in dict.fromkeys(names) if (ROOT / name).exists()]


def _git(*words: str) -> list[str]:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()


def name_of(path: Path) -> str:
    """Return the name under which others import a file: of the product, or of a test's helper."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    if parts[0] in PARTS:
        parts = ("vtakit", *parts)
    if parts[0] == "tests":
        parts = parts[-2:] if path.parent.joinpath("__init__.py").exists() else parts[-1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@cache
def imported(path: Path) -> frozenset[str]:
    """Return the names of all modules that a file may import, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("vtakit."):
            found.add(node.value)  # imported by its name
    return frozenset(found)


def ranked(changed: Iterable[Path], tests: Mapping[Path, frozenset[str]]) -> list[Path]:
    """Return the test files that changed modules touch, those first that they touch most."""
    between = {name_of(path): path for part in (*PARTS, "vtakit", "tests") for path in (ROOT / part).rglob("*.py")
               if path not in tests and not any(parent.is_symlink() for parent in path.parents)}
    scores = dict.fromkeys(tests, 0.0)
    for path in changed:
        names, weight = {name_of(path)}, 1.0
        found = False
        for depth in range(MOST_DEPTH + 1):
            if depth > DEPTH and found:
                break
            helpers = [between[name] for name in names if name in between and between[name].is_relative_to(ROOT / "tests")]
            beside = {test for helper in helpers for test in near(helper, tests)}
            touched = {test for test, imports in tests.items() if not names.isdisjoint(imports)} | beside
            found = found or bool(touched)
            for test in touched:
                scores[test] += weight / len(touched)
            names = {name for name, other in between.items() if not names.isdisjoint(imported(other))} - names
            weight /= DEPTH_PENALTY
        beside = near(ROOT / "tests" / path.relative_to(ROOT), tests)
        for test in beside:
            scores[test] += 1 / len(beside) if found else weight
    return sorted([test for test, score in scores.items() if score], key=lambda test: -scores[test])


def near(path: Path, tests: Iterable[Path]) -> list[Path]:
    """Return the test files of the folder of a path, or of the nearest folder above: some find what they use by themselves."""
    for folder in path.parents:
        if folder == ROOT / "tests":
            break
        if found := [test for test in tests if test.parent == folder]:
            return found
    return []


if __name__ == "__main__":
    sys.exit(main())
