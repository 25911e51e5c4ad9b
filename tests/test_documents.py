"""What the documents show is run: every `sh` and `python` block, page by page, in an empty folder; links lead somewhere."""

import argparse
import importlib
import json
import re
from pathlib import Path

import pytest
from installs.examples import TWO_COMMANDS, blocks, run_page

from vtakit.runtime.cli import summaries

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LIMIT_SECONDS = 120  # of a block


def test_the_readme_names_the_two_commands():
    assert ("sh", TWO_COMMANDS) in blocks(ROOT / "README.md")


def test_the_readme_is_short_and_leads_to_every_document():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert text.count("\n") <= 150
    assert {path.name for path in PAGES[1:]} <= set(re.findall(r"\(docs/(\w+\.md)\)", text))


def test_the_picture_of_the_readme_has_the_cycles_that_were_measured():
    """benchmarks/vta_picture.py draws it; tests/data/vta_networks.json has the exact cycles."""
    kept = json.loads((ROOT / "tests" / "data" / "vta_networks.json").read_text())["ResNet-18, 224x224"]
    picture = (ROOT / "docs" / "resnet18.svg").read_text(encoding="utf-8")
    assert f"{kept['cycles']:,} cycles" in picture, "run python benchmarks/vta_picture.py --write"


@pytest.mark.usefixtures("keeps_models")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_block_runs(page, tmp_path):
    run_page(page, tmp_path, LIMIT_SECONDS)


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


def options_of(command: str) -> set[str]:
    """Return the options of a command of vtakit."""
    parser = argparse.ArgumentParser(prog=command)
    importlib.import_module(f"vtakit.runtime.commands.{command}").add_arguments(parser)
    return {option for action in parser._actions for option in action.option_strings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_have_the_options_that_pages_give_them(page):
    """In lines of code and in inline code."""
    text = page.read_text(encoding="utf-8").replace("\\\n", " ")
    for command, rest in re.findall(r"\bvtakit ([a-z]+)\b([^`\n|]*)", text):
        if command in summaries():
            assert {*re.findall(r"(?<![\w-])(--[a-z][a-z-]*)", rest)} <= options_of(command), f"vtakit {command}{rest}"
