"""The shape of the tree: one import root, imports that point one way, no circle, files of readable size."""

import ast
import os
import re
import sys
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PARTS = ("hw", "compiler", "runtime", "sim", "boards")
OWN = ("base", "cache", "models")  # packages in vtakit/ itself

# What each part may import, besides itself; the longest prefix decides (DESIGN.md section 2).
ALLOWED = {
    "vtakit.base": (),
    "vtakit.cache": ("vtakit.base",),
    "vtakit.models": ("vtakit.base",),
    "vtakit.hw.isa": ("vtakit.base",),
    "vtakit.hw.dram": ("vtakit.base",),
    "vtakit.hw.system": ("vtakit.base", "vtakit.hw.dram"),
    "vtakit.hw.values": (),
    "vtakit.hw.params": ("vtakit.base", "vtakit.hw.isa", "vtakit.hw.system"),
    "vtakit.hw": ("vtakit.base", "vtakit.hw.dram", "vtakit.hw.isa", "vtakit.hw.params", "vtakit.hw.system"),
    "vtakit.compiler": ("vtakit.base", "vtakit.hw.isa", "vtakit.hw.params", "vtakit.hw.system", "vtakit.hw.values"),
    "vtakit.sim": ("vtakit.base", "vtakit.cache", "vtakit.hw"),
    "vtakit.boards": ("vtakit.base", "vtakit.hw"),
    "vtakit.runtime": ("vtakit.base", "vtakit.boards", "vtakit.cache", "vtakit.compiler", "vtakit.hw", "vtakit.sim"),
    "vtakit": tuple(f"vtakit.{part}" for part in (*PARTS, *OWN)),
}
# Inside the compiler each package may import those before it (DESIGN.md section 2).
COMPILER = ("ir", "arith", "te", "schedule", "lower", "intrin", "passes", "codegen", "nn", "graph", "frontend", "quantize",
            "tune")
LINES_HABIT, LINES_CEILING = 300, 500
# Files over the habit, each with the reason why it is one file; a table of test cases may be long.
LONG = {
    "compiler/codegen/llvm/text/builder.py": "every instruction of LLVM that is made, one short method each",
    "runtime/target.py": "what a back end is: classes that refer to each other",
    "compiler/graph/passes/quantized/form.py": "one class, a method for each way to integers",
    "compiler/graph/passes/packed_bytes.py": "one class, a method for each operator",
    "compiler/graph/vta/units.py": "one class, a method for each kind of unit",
    "compiler/codegen/vta/actions.py": "the instructions of every kind of loop nest",
    "sim/random_programs.py": "one class, a method for each instruction",
    "sim/kernels.py": "a function for each instruction, which numba compiles together",
    "hw/isa/insns.py": "every instruction, memory and queue as data",
    "hw/isa/config.py": "one class with its derived values and the constraints on them",
}


@pytest.mark.xdist_group("structure")
def test_tests_of_a_group_run_in_one_process(request):
    """Or each would build its models; pytest-xdist marks groups in the names, or not at all if it does not know this pytest."""
    workers = "PYTEST_XDIST_WORKER" in os.environ
    assert request.node.nodeid.endswith("@structure") == workers, "pip install --upgrade pytest-xdist, or 'pytest<9.2'"


@cache
def modules() -> dict[str, Path]:
    """Every module of the package by its import name."""
    paths = [path for part in PARTS for path in (ROOT / part).rglob("*.py")]
    found = {"vtakit." + ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths}
    own = ROOT / "vtakit"
    found |= {".".join(path.relative_to(ROOT).with_suffix("").parts): path for part in OWN for path in (own / part).glob("*.py")}
    found |= {f"vtakit.{path.stem}": path for path in own.glob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


def imported(path: Path, *, everywhere: bool) -> set[str]:
    """The names that a module imports: everywhere, or only when it is itself imported."""
    tree = ast.parse(path.read_text())
    nodes = ast.walk(tree) if everywhere else iter(tree.body)
    names = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}:{node.lineno}: imports name what they take in full"
            assert "*" not in {alias.name for alias in node.names}, f"{path}:{node.lineno}: star import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names} | {str(node.module)}
    return names


def owner(name: str) -> str:
    return max((part for part in ALLOWED if name == part or name.startswith(part + ".")), key=len)


def test_the_package_is_its_links():
    for part in PARTS:
        link = ROOT / "vtakit" / part
        assert link.is_symlink()
        assert link.readlink() == Path("..") / part
    assert (ROOT / "vtakit" / "py.typed").exists()


def named(*prefixes: str) -> dict[str, Path]:
    """Modules whose names begin with one of the prefixes, all of them by default."""
    return {name: path for name, path in sorted(modules().items()) if name.startswith(prefixes or "vtakit")}


def test_imports_point_one_way():
    wrong = []
    for name, path in named().items():
        for target in sorted(imported(path, everywhere=True)):
            if target.partition(".")[0] in PARTS:
                wrong.append(f"{name} imports {target}: the import root is vtakit")
            elif target.startswith("vtakit."):
                part, own = owner(target), owner(name)
                if part not in (own, "vtakit") and not any(part == a or part.startswith(a + ".") for a in ALLOWED[own]):
                    wrong.append(f"{name} imports {target}")
    assert wrong == []


def test_each_package_of_the_compiler_imports_those_before_it():
    wrong = []
    for name, path in named("vtakit.compiler.").items():
        own = name.split(".")[2]
        assert own in COMPILER, f"{name}: give the package its place in COMPILER"
        targets = [target.split(".") for target in imported(path, everywhere=True)]
        inside = {target[2] for target in targets if target[:2] == ["vtakit", "compiler"] and len(target) > 2}
        wrong += [f"{name} imports {later}" for later in sorted(inside - set(COMPILER[:COMPILER.index(own) + 1]))]
    assert wrong == []


CORE = tuple(f"vtakit.compiler.{part}" for part in COMPILER[:COMPILER.index("passes") + 1])


def test_the_scheduling_core_imports_no_accelerator():
    wrong = []
    for name, path in named(*CORE, "vtakit.compiler.codegen.llvm").items():
        wrong += [f"{name} imports {target}" for target in imported(path, everywhere=True) if target.startswith("vtakit.hw")]
    assert wrong == []


def test_the_scheduling_core_has_no_word_of_an_accelerators():
    """Memory scopes, capacities and intrinsics are objects that it is given."""
    wrong = []
    for name, path in named(*CORE).items():
        tree = ast.parse(path.read_text())
        texts = {ast.get_docstring(node, clean=False) for node in ast.walk(tree)
                 if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)}
        words = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
        words |= {node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute)}
        words |= {str(node.value) for node in ast.walk(tree) if isinstance(node, ast.Constant)} - texts
        wrong += [f"{name}: {word}" for word in words if re.search(r"\b(vta|inp|wgt|acc|uop|gemm)\b", word, re.IGNORECASE)]
    assert wrong == []


@pytest.mark.parametrize("part", ["vtakit.base", "vtakit.hw.isa"])
def test_the_standard_library_is_enough_for(part):
    for name, path in modules().items():
        if name.startswith(part):
            outside = {t.partition(".")[0] for t in imported(path, everywhere=True)} - set(sys.stdlib_module_names) - {"vtakit"}
            assert not outside, f"{name} imports {outside}"


def providers(path: Path) -> set[str]:
    """Return the modules from which a file's import statements take names; a name may be a module itself."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in modules() else str(node.module) for name in names}
    return found & modules().keys()


def shortest_circle(graph: dict[str, set[str]]) -> tuple[str, ...]:
    """Return the modules of the shortest circle, the first of them at the end once more; () if there is none."""
    while leaves := {name for name, targets in graph.items() if not targets}:
        graph = {name: targets - leaves for name, targets in graph.items() if name not in leaves}
    return min(filter(None, (circle_through(name, graph) for name in sorted(graph))), key=len, default=())


def circle_through(start: str, graph: dict[str, set[str]]) -> tuple[str, ...]:
    """Return the shortest circle that begins at a module; () if there is none."""
    ways: dict[str, tuple[str, ...]] = {}
    ends = [(start,)]
    while ends and start not in ways:
        reached = {target: (*way, target) for way in ends for target in sorted(graph[way[-1]]) if target not in ways}
        ways |= reached
        ends = [*reached.values()]
    return ways.get(start, ())


def test_imports_have_no_circle():
    """Every import statement counts, also within a function or for types alone: a module can be read after those that it imports.

    The root is left out: it gives users the public names, and modules take the version from it.
    """
    graph = {name: providers(path) - {name, "vtakit"} for name, path in named().items() if name != "vtakit"}
    circle = shortest_circle(graph)
    assert not circle, f"circle of imports: {' -> '.join(circle)}"


def test_the_shortest_circle_is_found():
    assert shortest_circle({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == ()
    assert shortest_circle({"a": {"b"}, "b": {"c", "d"}, "c": {"a"}, "d": {"e"}, "e": {"d"}}) == ("d", "e", "d")
    assert shortest_circle({"a": {"b"}, "b": {"c"}, "c": {"a"}, "d": {"a"}}) == ("a", "b", "c", "a")


def test_files_have_a_readable_size():
    sizes = {
        str(path.relative_to(ROOT)): len(path.read_text().splitlines())
        for folder in (*PARTS, "vtakit", "tests", "examples", "benchmarks") for path in (ROOT / folder).glob("**/*.py")
    }
    assert {name: lines for name, lines in sizes.items() if lines > LINES_CEILING} == {}
    assert {name for name, lines in sizes.items() if lines > LINES_HABIT and not name.startswith("tests/")} == set(LONG)


def test_importing_the_package_is_light():
    """`import vtakit` and the command line load neither NumPy nor any simulator."""
    heavy = {"numpy", "numba", "rich", "amaranth", "hypothesis", "onnx"}
    for module in ("vtakit", "vtakit.runtime.cli", "vtakit.hw.isa.asm"):
        seen: set[str] = set()
        todo = [module]
        while todo:
            name = todo.pop()
            if name in modules() and name not in seen:
                seen.add(name)
                todo += [*imported(modules()[name], everywhere=False), name.rpartition(".")[0]]
                assert not {t.partition(".")[0] for t in imported(modules()[name], everywhere=False)} & heavy, name
