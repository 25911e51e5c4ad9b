"""Targets: one interface. A third one, in this file, compiles, saves, loads and runs networks; nothing else knows of it."""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
import onnx
import pytest
from model_support import network
from support import raises

import vtakit
from vtakit import te
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.machine import Machine
from vtakit.compiler.codegen.places import Place, Port, Region, Step
from vtakit.compiler.graph.compile import Layer, Network, compile_graph
from vtakit.compiler.graph.ir import Graph, graph_text
from vtakit.compiler.graph.passes.base import Seen, run_passes
from vtakit.compiler.graph.passes.fold import Evaluate
from vtakit.compiler.graph.passes.pipeline import passes_for_cpu
from vtakit.compiler.graph.stored import dump_graph, load_graph
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.stmt import Function
from vtakit.compiler.ir.values import int_value
from vtakit.compiler.lower import Limits
from vtakit.compiler.lower.errors import VerifyError
from vtakit.compiler.lower.interpreter import interpret
from vtakit.compiler.passes import lower_late
from vtakit.compiler.schedule.schedule import Schedule, create_schedule
from vtakit.compiler.te.tensor import Tensor
from vtakit.runtime import cli, create
from vtakit.runtime.fields import number
from vtakit.runtime.module import Module
from vtakit.runtime.source import Options
from vtakit.runtime.target import Engine, Image, Opening, Part, Progress, Target, TargetError, Values
from vtakit.runtime.targets import register, unregister
from vtakit.runtime.timed import Timed

ROOT = Path(__file__).parents[2]
X = np.random.default_rng(3).standard_normal((1, 3, 16, 16)).astype(np.float32)


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Loops(Part):
    """Loop programs, kept as the graph that they follow from."""

    kind: ClassVar[str] = "loops"
    graph: bytes

    def dump(self) -> tuple[dict[str, Any], list[bytes]]:
        return {}, [self.graph]

    @classmethod
    def parse(
        cls, entry: Mapping[str, Any], blobs: Sequence[memoryview], values: Sequence[Port], *, reads: tuple[int, ...],
        writes: tuple[int, ...], layers: tuple[Layer, ...],
    ) -> Self:
        (graph,) = blobs
        return cls(reads=reads, writes=writes, layers=layers, graph=bytes(graph))


@dataclass(frozen=True)
class Interpreted(Target):
    """Loops run by the interpreter."""

    vector_bytes: int = 16

    name: ClassVar[str] = "interpreted"
    summary: ClassVar[str] = "the interpreter of the loop programs"
    devices: ClassVar[tuple[str, ...]] = ("python",)
    options: ClassVar[tuple[str, ...]] = ("vector_bytes",)
    kinds: ClassVar[tuple[type[Part], ...]] = (Loops,)

    @classmethod
    def make(cls, **options: Any) -> Self:
        return cls(**options)

    def to_dict(self) -> dict[str, Any]:
        return {"vector_bytes": self.vector_bytes}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Self:
        return cls(number(data["vector_bytes"]))

    @property
    def machine(self) -> Machine:
        return Machine(vector_bytes=self.vector_bytes)

    @property
    def own_bytes(self) -> int:
        return 1 << 16

    @property
    def limits(self) -> Limits:
        return Limits(vector_bytes=self.vector_bytes)

    def function(self, function: Function, options: Mapping[str, Any]) -> Any:
        return lambda *arrays: interpret(function, arrays)

    def schedule(self, outputs: Sequence[Tensor], decisions: Mapping[str, Any] | None = None) -> Schedule:
        return create_schedule([tensor.op for tensor in outputs], decisions)

    def late(self, function: Function) -> Function:
        return lower_late(function)

    def network(
        self, name: str, kernels: Sequence[Function], steps: Sequence[Step], inputs: Sequence[Port], outputs: Sequence[Port], *,
        params_bytes: int, arena_bytes: int,
    ) -> tuple[Sequence[Function], Sequence[Step]]:
        return kernels, steps

    def compile(
        self, graph: Graph, options: Options, evaluate: Evaluate, *, after: Seen | None = None, progress: Progress | None = None,
        most_bytes: int | None = None,
    ) -> Image:
        graph = run_passes(graph, passes_for_cpu(evaluate, integer=options.integer), after)
        made = compile_graph(graph, self, progress=progress, most_bytes=most_bytes)
        ins, outs = len(made.inputs), len(made.outputs)
        part = Loops(reads=tuple(range(ins)), writes=tuple(range(ins, ins + outs)), layers=made.layers, graph=dump_graph(graph),
                     arena_bytes=made.arena_bytes, live_bytes=made.live_bytes)
        return Image(graph.name, self, made.inputs, made.outputs, (), (part,), graph_text(graph))

    def engines(self, image: Image, opening: Opening) -> dict[str, Engine]:
        return {Loops.kind: Interpreter(self, image)}


class Interpreter(Engine):
    """Networks, step by step."""

    def __init__(self, target: Interpreted, image: Image) -> None:
        self.networks = {part: compile_graph(load_graph(part.graph), target) for part in image.parts_of(Loops)}

    def run(self, part: Loops, values: Values) -> None:
        for _ in self.steps(self.networks[part], [values[at][0] for at in (*part.reads, *part.writes)]):
            pass

    def profile(self, part: Loops, values: Values, repeat: int) -> tuple[list[Timed], None]:
        self.run(part, values)
        return [Timed(layer, 1.0) for layer in part.layers], None

    def close(self) -> None:
        pass

    def steps(self, made: Network, arrays: list[np.ndarray]) -> Iterator[None]:
        memory = {Region.PARAMS: np.zeros(made.params_bytes, np.uint8), Region.ARENA: np.zeros(made.arena_bytes, np.uint8)}
        for at, array in made.params:
            memory[Region.PARAMS][at:at + array.nbytes] = array.reshape(-1).view(np.uint8)
        views = [array.reshape(-1).view(np.uint8) for array in arrays]
        kernels, steps = made.code

        def bytes_at(place: Place) -> np.ndarray:
            if place.region in memory:
                return memory[place.region][place.at:]
            return views[place.at + (len(made.inputs) if place.region is Region.OUTPUT else 0)]

        for step in steps:
            if step.kernel < 0:
                source, to = map(bytes_at, step.args)
                to[:step.copied_bytes] = source[:step.copied_bytes]
            else:
                function = kernels[step.kernel]
                interpret(function, [shaped(bytes_at(place), param) for place, param in zip(
                    step.args, function.params, strict=True)])
            yield


def shaped(data: np.ndarray, param: Any) -> np.ndarray:
    """The bytes at a parameter's place as its array."""
    assert isinstance(param, Buffer)
    shape = tuple([int_value(extent) or 0 for extent in param.shape])
    kind = np.dtype(str(param.dtype))
    return data[:int(np.prod(shape)) * kind.itemsize].view(kind).reshape(shape)


@pytest.fixture(autouse=True)
def third() -> Iterator[type[Interpreted]]:
    yield register(Interpreted)
    unregister(Interpreted)


def test_a_third_target_compiles_saves_loads_and_runs_a_network(tmp_path):
    (wanted,) = vtakit.compile(network()).run({"x": X}).values()
    module = vtakit.compile(network(), "interpreted")
    np.testing.assert_allclose(module.run({"x": X})["y"], wanted, rtol=1e-4, atol=1e-5)
    module.save(tmp_path / "net.vtak")
    loaded = vtakit.load(tmp_path / "net.vtak", "python")
    np.testing.assert_array_equal(loaded.run({"x": X})["y"], module.run({"x": X})["y"])
    assert loaded.image.target == Interpreted()
    assert len(loaded.profile({"x": X}).layers) == len(module.image.layers)
    again = vtakit.load(tmp_path / "net.vtak", recompile=True)
    np.testing.assert_array_equal(again.run({"x": X})["y"], module.run({"x": X})["y"])
    graph_module = create(module.image.graph, tmp_path / "net.vtak", "python")
    graph_module.run(x=X)
    np.testing.assert_array_equal(graph_module.get_output(0), module.run({"x": X})["y"])


def test_a_third_target_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "net.onnx")
    np.savez("in.npz", x=X)
    assert cli.main(["run", "net.onnx", "--target", "interpreted", "--device", "python", "--input", "in.npz", "--profile"]) == 0
    assert "conv1" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        cli.main(["compile", "--target", "help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    names = ["llvm", "vta", "cuda", "opencl", "interpreted"]
    assert [line.split()[0] for line in said.splitlines()] == list(vtakit.targets()) == names
    assert "the interpreter of the loop programs" in said


def test_a_third_target_makes_functions_and_holds_them_to_its_limits():
    a = te.placeholder((8,), name="a")
    b = te.compute((8,), lambda i: a[i] + 1, name="b")
    s = te.create_schedule(b.op)
    out = np.zeros(8, np.float32)
    vtakit.build(s, [a, b], "interpreted")(np.arange(8, dtype=np.float32), out)
    np.testing.assert_array_equal(out, np.arange(8) + 1)
    s[b].vectorize(b.op.axis[0])
    with pytest.raises(VerifyError, match="8 lanes of float32 are 32 bytes, the device's vectors have 16"):
        vtakit.build(s, [a, b], "interpreted")
    vtakit.build(s, [a, b], vtakit.target("interpreted", vector_bytes=32))


def test_names_options_and_devices_that_there_are_not(tmp_path):
    with raises(TargetError, "there is a target 'interpreted' already"):
        register(Interpreted)
    with raises(TargetError, "unknown target 'interpretd'; did you mean 'interpreted'? Known: cuda, …"):
        vtakit.target("interpretd")
    with raises(TargetError, "target 'vta' has no option 'vector_bytes'; it is one of target 'interpreted'"):
        vtakit.target("vta", vector_bytes=3)
    with raises(TargetError, "target 'interpreted' has no option 'lanes'; known: vector_bytes"):
        vtakit.target("interpreted", lanes=3)
    with raises(TargetError, "config goes with the name of a target, and a target was given"):
        vtakit.compile(network(), Interpreted(), config="tiny")
    vtakit.compile(network()).save(tmp_path / "net.vtak")
    wrong = "this one is for 'llvm', which runs on cpu"
    for device, says in (
        ("fsim", f"device 'fsim' runs models for target 'vta' (--target vta); {wrong}"),
        ("python", f"device 'python' runs models for target 'interpreted' (--target interpreted); {wrong}"),
        ("gpu", "unknown device 'gpu'; did you mean 'cpu'? Known: board, cpu, cuda, cycle, … rtl, sim, uio"),
        (3, "3 is no device of target 'llvm', which runs on cpu"),
    ):
        with raises(TargetError, says):
            vtakit.load(tmp_path / "net.vtak", device)
        with raises(TargetError, says):
            vtakit.compile(network(), device=device)
        with raises(TargetError, says):
            create("", tmp_path / "net.vtak", device)
        with raises(TargetError, says):
            Module(vtakit.compile(network()).image, device)


def test_a_module_file_for_a_target_that_is_not_there(tmp_path):
    vtakit.compile(network(), "interpreted").save(tmp_path / "net.vtak")
    unregister(Interpreted)
    with pytest.raises(VtakitError, match=r"net.vtak' is inconsistent: unknown target 'interpreted'; known: cuda, llvm, .*"):
        vtakit.load(tmp_path / "net.vtak")


def test_nothing_asks_for_the_class_of_a_target():
    """But its own folders: there the description that its code generator takes is known by its class."""
    found = []
    for path in sorted(path for part in PARTS for path in (ROOT / part).rglob("*.py")):
        if not {"cpu", "vta", "llvm"} & set(path.parts):
            found += [f"{path.relative_to(ROOT)}: {asked}" for asked in classes_asked_for(path.read_text(encoding="utf-8"))]
    assert found == ["runtime/targets.py: isinstance(given, Target)"] * 2  # the interface itself


PARTS = ("boards", "compiler", "hw", "runtime", "sim", "vtakit/base", "vtakit/cache", "vtakit/models")


def classes_asked_for(text: str) -> list[str]:
    """Return the calls of isinstance and issubclass, and the class patterns, that name a target's class, under whatever alias."""
    tree = ast.parse(text)
    own = {alias.asname or alias.name: alias.name for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)
           for alias in node.names}

    def names(node: ast.AST) -> set[str]:
        every = list(ast.walk(node))
        found = {own.get(name.id, name.id) for name in every if isinstance(name, ast.Name)}
        return found | {name.attr for name in every if isinstance(name, ast.Attribute)}
    asked = [node for node in ast.walk(tree) if isinstance(node, ast.MatchClass) and names(node.cls) & TARGETS]
    asked += [node for node in ast.walk(tree) if isinstance(node, ast.Call) and len(node.args) == 2
              and names(node.func) & {"isinstance", "issubclass"} and names(node.args[1]) & TARGETS]
    return [ast.unparse(node) for node in asked]


TARGETS = {"Cpu", "Vta", "Target"}


@pytest.mark.parametrize("text", [
    "from vtakit.runtime.cpu.target import Cpu as CpuTarget\nisinstance(target, (CpuTarget, int))",
    "import vtakit.runtime.vta.target as t\nissubclass(kind, t.Vta)",
    "from a import Vta\nmatch target:\n    case Vta():\n        pass",
])
def test_an_alias_hides_no_class(text):
    assert len(classes_asked_for(text)) == 1


def test_the_accelerators_limits_are_its_scratchpads():
    """A buffer that cannot fit is the verifier's to refuse, before code is made."""
    limits = vtakit.target("vta", config="tiny").limits
    assert limits.buffer_bytes == {"inp": 128, "wgt": 256, "acc": 512}
    a = te.placeholder((64, 1, 4), "int8", name="a")
    cached = te.compute(a.shape, lambda *i: a(*i), name="cached")
    out = te.compute(a.shape, lambda *i: cached(*i), name="out")
    s = te.create_schedule(out.op)
    s[cached].set_scope("inp")
    with pytest.raises(VerifyError, match="cached has 256 bytes of inp memory, the device has 128"):
        vtakit.build(s, [a, out], vtakit.target("vta", config="tiny"))


@pytest.mark.parametrize(("name", "options", "message"), [
    (["llvm"], {}, "unknown target ['llvm']; known: cuda, interpreted, llvm, opencl, vta"),
    ("llvm", {"cpu": 3}, "cpu of a target is 3 and must be text"),
    ("llvm", {"threads": "x"}, "threads of a target is 'x' and must be True or False"),
    ("llvm", {"features": "+avx2"}, "features of a target is '+avx2' and must be a tuple of text"),
    ("vta", {"copies": True}, "copies is True and must be a whole number from 1 to 64"),
])
def test_arguments_of_other_types_are_told(name, options, message):
    with pytest.raises(VtakitError) as caught:
        vtakit.target(name, **options)
    assert str(caught.value) == message


@pytest.mark.parametrize(("options", "message"), [
    ({"cpu": "nope"}, "'nope' is not a recognized processor"), ({"triple": "foo-bar"}, "no target for the triple 'foo-bar'")])
def test_what_llvm_does_not_know_is_refused_before_anything_is_made(options, message):
    with pytest.raises(CodegenError, match=message):
        vtakit.target("llvm", **options)


def test_options_of_the_target_are_told_from_those_of_the_device():
    with pytest.raises(TargetError, match=r"machine is given: it belongs to the target, vtakit.target\('llvm', machine=…\)"):
        vtakit.compile(network(), machine={"tasks": 2})
