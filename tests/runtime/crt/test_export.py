"""What an export writes: fresh registers, places that do not overlap, any names."""

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from crt_support import GIVEN, GRAPH, HERE, SECONDS, STRICT, check_outputs, rtl_library, run, shared_module, write_inputs
from hypothesis import given
from hypothesis import strategies as st
from model_support import module_of, network
from support import raises

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.builder import Builder
from vtakit.compiler.graph.memory import ALIGN
from vtakit.compiler.ir.dtypes import dtype
from vtakit.hw.isa.c_header import c_registers
from vtakit.hw.isa.regs import REGISTERS, offset_of
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.crt import layout
from vtakit.runtime.crt.c_text import c_string, comment
from vtakit.runtime.crt.export import export_c
from vtakit.runtime.crt.header import argument_names, header
from vtakit.runtime.crt.layout import layout_of
from vtakit.runtime.target import Image

SOURCES = Path(layout.__file__).with_name("sources")
X = np.random.default_rng(6).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net():
    """A float network for this processor, on one thread, with an arena."""
    return vtakit.compile(network(), name="net")


def test_the_registers_are_those_of_the_hardware():
    """If this fails: write c_registers() to runtime/crt/sources/vtakit_registers.h."""
    text = (SOURCES / "vtakit_registers.h").read_text()
    assert text == c_registers()
    for register in REGISTERS:
        assert f"#define VTAKIT_REG_{register.name.upper()} 0x{offset_of(register.name):03x}u\n" in text


def placed(spans: Sequence[tuple[int, int, int]], arena: int = 0) -> tuple[dict[int, int], int]:
    """Places of values in the workspace, and its size: (bytes, part that makes a value, part that reads it last) of each."""
    parts = tuple([
        CpuPart(reads=tuple([at for at, (_, first, last) in enumerate(spans) if first < part == last]),
                writes=tuple([at for at, (_, first, _) in enumerate(spans) if first == part]),
                code=b"", symbols=("", "", ""), outside=(), messages=(), layers=(), params=np.zeros(0, np.uint8),
                arena_bytes=arena, live_bytes=0)
        for part in range(9)
    ])
    image = Image("net", Target.host(), (), (), tuple([Port("v", (span[0],), dtype("int8")) for span in spans]), parts, "")
    host = layout_of(image).host
    return {**host.between, **{-1 - at: place for at, place in enumerate(host.arenas.values())}}, host.size


@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(0, 8), st.integers(0, 8)), max_size=12), st.integers(0, 100))
def test_what_is_in_use_at_one_time_does_not_overlap(spans, arena):
    """Values between parts, and the arena of each part."""
    live = {at: (size, min(one, other), max(one, other)) for at, (size, one, other) in enumerate(spans)}
    places, end = placed([*live.values()], arena)
    live |= {-1 - part: (arena, part, part) for part in range(9)}
    assert {*places} == {*live}
    for a, (size, first, last) in live.items():
        assert places[a] % ALIGN == 0
        assert places[a] + size <= end
        for b, (other, begin, stop) in live.items():
            if a < b and size and other and first <= stop and begin <= last:
                assert places[a] + size <= places[b] or places[b] + other <= places[a]
    most = sum(-(-size // ALIGN) * ALIGN for size, _, _ in live.values())
    assert end <= max(most, ALIGN)


def test_values_that_are_not_in_use_together_share_memory():
    assert placed([(1000, at, at + 1) for at in range(6)])[1] == 2 * 1024


def test_a_model_for_the_processor_alone_has_no_drivers(net, tmp_path):
    names = net.export_c(tmp_path)
    assert {*names} == {"net.h", "net.c", "net.bin", "net_data.S", "net_part0.o", "vtakit_error.c", "vtakit_error.h",
                        "vtakit_registers.h", "main.c", "Makefile", "README.txt"}
    assert "No memory is allocated." in (tmp_path / "net.h").read_text()
    allocating = replace(net.image, parts=(replace(net.image.parts_of(CpuPart)[0], outside=("free", "malloc")),))
    assert "The machine code calls malloc and free." in header(allocating, layout_of(allocating))
    assert layout_of(net.image).host.size >= net.image.arena_bytes > 0
    X.tofile(tmp_path / "x.raw")
    run(["make", "-s", f"CFLAGS={' '.join(STRICT)} -fsanitize=address,undefined"], tmp_path)
    run(["build/net", "--repeat", "2", "x.raw", "y.raw"], tmp_path)
    np.testing.assert_array_equal(np.fromfile(tmp_path / "y.raw", "f4"), net.run({"x": X})["y"].ravel())
    assert "--rtl" not in subprocess.run(["build/net", "--help"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout


@pytest.mark.xdist_group("rtl")
def test_weights_as_an_array_are_the_same_bytes(tmp_path):
    """The program has the same data, with each way to embed it."""
    module = shared_module()
    module.export_c(tmp_path, embed="c")
    assert not (tmp_path / "split.bin").exists()
    (tmp_path / "dump.c").write_text('#include <stdint.h>\n#include <stdio.h>\nextern const uint64_t split_data[];\n'
                                     'int main(void) { return fwrite(split_data, 1, SIZE, stdout) != SIZE || '
                                     f'(uintptr_t)split_data % {ALIGN}; }}\n')
    data = layout_of(module.image).data
    run(["gcc", *STRICT[:-2], f"-DSIZE={len(data)}", "dump.c", "split_data.c", "-o", "dump"], tmp_path)
    assert subprocess.run(["./dump"], cwd=tmp_path, capture_output=True, check=True, timeout=SECONDS).stdout == data
    write_inputs(tmp_path, GIVEN)
    run(["make", "-s"], tmp_path)
    run(["build/split", "--rtl", rtl_library(), "x.raw", "y0.raw", "y1.raw"], tmp_path)
    with pytest.raises(VtakitError, match="embed='base64' is no way to embed weights; known: c, incbin"):
        module.export_c(tmp_path / "other", embed="base64")
    assert not (tmp_path / "other").exists()


def test_the_buffer_of_sentences_holds_the_longest(tmp_path):
    """Of each status with each string of the runtime, and with the longest numbers."""
    text = re.sub(r'"\s+"', "", (SOURCES / "vtakit_vta.c").read_text())
    whats = sorted({*re.findall(r'"(?:[^"\\]|\\.)*"', text)})
    assert '"it does not answer a reset"' in whats
    run(["gcc", *STRICT, f"-I{SOURCES}", f"-DWHATS={', '.join(whats)}", HERE / "sentences.c", SOURCES / "vtakit_error.c", "-o",
         "sentences"], tmp_path)
    done = subprocess.run([tmp_path / "sentences"], capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stdout


def test_names_that_c_does_not_have(tmp_path):
    """Of inputs and outputs: words of C, macros of the export, ends of comments, escape sequences, two that become one."""
    names = ["int", "model", "ODD_INPUTS", "VTAKIT_OK", 'a"b\\', "*/ x /*", "\x1b[31mred", "größe", "a-b", "a.b", "??="]
    builder = Builder("odd")
    values = [builder.input(name, (2,), "float32") for name in names]
    total = values[0]
    for value in values[1:]:
        total = builder.one("add", total, value)
    module = module_of(builder.finish([("*/", total), ("y", builder.one("neg", total))]))
    module.export_c(tmp_path)
    given = {name: np.full(2, 1 + at, "f4") for at, name in enumerate(names)}
    files = []
    for at, array in enumerate(given.values()):
        files.append(f"in{at}")
        array.tofile(tmp_path / files[-1])
    assert all(byte >= 32 or byte == 10 for file in tmp_path.glob("odd.[ch]") for byte in file.read_bytes())
    run(["make", "-s", f"CFLAGS={' '.join(STRICT)}"], tmp_path)
    run(["build/odd", *files, "sum", "y"], tmp_path)
    assert np.fromfile(tmp_path / "sum", "f4").tolist() == [66.0, 66.0]
    assert np.fromfile(tmp_path / "y", "f4").tolist() == [-66.0, -66.0]


@pytest.mark.xdist_group("rtl")
@pytest.mark.parametrize("names", [
    ("needs", "launches", "uploads"), ("split_data", "split-needs", "split_0"), ("vtakit_run", "vtakit-send", "vtakit_fail"),
    ("messages", "work", "status"), ("errno", "EOF", "stdout"), ("split", "SPLIT_LAUNCHES", "split_inputs_0"),
])
def test_names_that_the_text_itself_has(tmp_path, names):
    """Of a model with launches: its functions, variables and macros, those of the runtime, and those of headers."""
    image = shared_module().image
    ports = [replace(port, name=name) for port, name in zip((*image.inputs, *image.outputs), names, strict=True)]
    export_c(replace(image, inputs=tuple(ports[:1]), outputs=tuple(ports[1:])), tmp_path)
    write_inputs(tmp_path, GIVEN)
    run(["make", "-s", f"CFLAGS={' '.join(STRICT)}"], tmp_path)
    run(["build/split", "--rtl", rtl_library(), "x.raw", "y0.raw", "y1.raw"], tmp_path)
    check_outputs([tmp_path / "y0.raw", tmp_path / "y1.raw"], shared_module().run(GIVEN))


def test_an_argument_is_not_a_function_of_the_model(net):
    """Where the way round a name of the C library leads to one of the model's own."""
    image = replace(net.image, name="arg", inputs=(replace(net.image.inputs[0], name="close"),))
    assert argument_names(image) == ["arg_close_1", "y"]


def test_a_model_without_inputs(tmp_path):
    builder = Builder("fixed")
    value = builder.one("neg", builder.constant(np.array([1, 2], "f4")))
    module_of(builder.finish([("y", value)])).export_c(tmp_path)
    run(["make", "-s", f"CFLAGS={' '.join(STRICT)}"], tmp_path)
    run(["build/fixed", "y.raw"], tmp_path)
    assert np.fromfile(tmp_path / "y.raw", "f4").tolist() == [-1.0, -2.0]


def test_text_in_c():
    assert c_string('a"\\?\n\x1bé') == '"a\\"\\\\\\?\\012\\033\\303\\251"'
    assert comment("a*/b/*c\x1b") == "a* /b/ *c?"


@pytest.mark.parametrize(("status", "says"), [
    (2, 'the second "condition" holds'), (-1, "memory ran out"), (3, "it ended with a status that the model does not have"),
])
def test_a_part_that_fails_is_a_sentence(net, tmp_path, status, says):
    """Machine code that only returns a status, in place of the model's."""
    (tmp_path / "stub.c").write_text(f"int net(void); int net_step(void); int net(void) {{ return {status}; }}\n")
    run(["gcc", "-c", "stub.c", "-o", "stub.o"], tmp_path)
    messages = ("the first condition holds", 'the second "condition" holds')
    part = replace(net.image.parts_of(CpuPart)[0], code=(tmp_path / "stub.o").read_bytes(), messages=messages)
    export_c(replace(net.image, parts=(part,)), tmp_path)
    (tmp_path / "stub.o").unlink()
    X.tofile(tmp_path / "x")
    run(["make", "-s", f"CFLAGS={' '.join(STRICT)}"], tmp_path)
    failed = f"net: a part of the model on the processor failed: {says}\n"
    assert run(["build/net", "x", "y"], tmp_path, status=1) == failed


@pytest.mark.parametrize("name", ["main", "makefile", "vtakit_vta", "vtakit", "driver_sim", "int", "Größe"])
def test_names_that_no_model_can_have(name, net, tmp_path):
    image = SimpleNamespace(name=name, parts_of=lambda kind: ())
    with pytest.raises(CodegenError, match="with another name"):
        export_c(image, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_model_without_launches_has_no_rtl(net, tmp_path):
    with raises(VtakitError, "model 'net' has no part for the accelerator, so there is no RTL to export"):
        net.export_c(tmp_path, rtl=True)


def test_the_graph_of_these_tests_has_parts_on_both():
    kinds = [type(part).__name__ for part in shared_module().image.parts]
    assert kinds == ["CpuPart", "VtaPart", "CpuPart", "VtaPart", "CpuPart"]
    assert len(GRAPH.outputs) == 2
