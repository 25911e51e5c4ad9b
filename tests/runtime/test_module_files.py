"""Module files that somebody has changed: what a header says must be what the machine code was made for."""

import json
import os
import random
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from model_support import network
from module_support import with_header

import vtakit
from vtakit.base.errors import VtakitError
from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.runtime import module_file
from vtakit.runtime.cpu.elf import _Object, check_object
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.module import Module
from vtakit.runtime.module_file import PackageError

X = np.random.default_rng(5).standard_normal((1, 3, 16, 16)).astype("f4")


@pytest.fixture(scope="module")
def net() -> Module:
    return vtakit.compile(network())


def _set(*path: Any, to: Any) -> Callable[[Any], None]:
    def change(header: Any) -> None:
        for key in path[:-1]:
            header = header[key]
        header[path[-1]] = to
    return change


def _params_shorter(header: Any) -> None:
    """The last bytes of the parameters become the code's."""
    header["parts"][0]["sizes"] = [header["parts"][0]["sizes"][0] + 64, header["parts"][0]["sizes"][1] - 64]


PART = ("parts", 0)


@pytest.mark.parametrize("change", [
    _set("inputs", 0, 1, to=[1, 3, 16, 8]), _set("inputs", 0, 1, to=[1, 3, 16, 17]), _set("inputs", 0, 2, to="float16"),
    _set("outputs", 0, 1, to=[1, 4]), _set("outputs", 0, 2, to="float64"), _set(*PART, "arena", to=64),
    _set(*PART, "arena", to=1 << 40), _set("target", "features", to=[]), _set("target", "threads", to=False),
    _set(*PART, "messages", to=["one"]), _set(*PART, "outside", to=["system"]),
    _set(*PART, "symbols", to=["net_step", "net", "net_manifest"]), _set(*PART, "symbols", to=["net", "net", "net_manifest"]),
    _set(*PART, "symbols", to=["net", "net_step", "net"]), _set(*PART, "symbols", to=["net", "net_step", "nothing"]),
    lambda header: header["parts"][0]["layers"].pop(), _params_shorter,
])
def test_a_header_that_is_not_that_of_the_code_is_refused(net, tmp_path, change):
    path = tmp_path / "net.vtak"
    path.write_bytes(with_header(module_file.dump(net.image), lambda header: None))
    np.testing.assert_array_equal(vtakit.load(path).run({"x": X})["y"], net.run({"x": X})["y"])
    path.write_bytes(with_header(module_file.dump(net.image), change))
    with pytest.raises(VtakitError) as caught:
        vtakit.load(path)
    assert type(caught.value) in (CodegenError, PackageError)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("change", "words"), [
    (_set("inputs", 0, 1, to=[1] * 2000), ("rank", "2,000", "32")),
    (_set("inputs", 0, 0, to="x" * 2000), ("2,000 characters",)),
    (_set("inputs", 0, 2, to="float32x4"), ("float32x4",)),
    (_set("inputs", 0, 2, to="handle"), ("handle",)),
    (_set("name", to=None), ("None",)),
    (_set("name", to="n" * 5000), ("the module's name", "5,000 characters")),
    (_set("target", "triple", to="a b"), ("triple",)),
    (_set("parts", to=[]), ("belong to nothing",)),
    (lambda header: header["parts"][0]["outside"].append("\ud800"), ("surrogates",)),
    (_set("target", "features", to=["x" * 5000]), ("'xxx",)),
    (_set("deep", to=json.loads("[" * 100 + "]" * 100)), ("nested deeper",)),
])
def test_a_header_that_makes_no_sense_is_refused(net, tmp_path, change, words):
    path = tmp_path / "net.vtak"
    path.write_bytes(with_header(module_file.dump(net.image), change))
    with pytest.raises(PackageError) as caught:
        vtakit.load(path)
    assert len(str(caught.value)) < 500
    for word in words:
        assert word in str(caught.value)


def test_code_of_another_model_is_refused(net):
    other = vtakit.compile(network(), shapes={"x": (2, 3, 16, 16)}, cache=False)
    (part,), (given,) = net.image.parts_of(CpuPart), other.image.parts_of(CpuPart)
    with pytest.raises(CodegenError, match="not made for the arrays"):
        Module(replace(net.image, parts=(replace(part, code=given.code),)))


def damaged(code: bytes, seed: int) -> bytes:
    """An object with some bytes of its tables changed."""
    rng = random.Random(seed)
    found = bytearray(code)
    tables = int.from_bytes(code[40:48], "little")
    for _ in range(rng.choice((1, 1, 2, 3))):
        first, last = rng.choice([(0, 64), (tables, len(code)), (len(code) // 2, tables)])
        at = rng.randrange(first, last)
        match rng.randrange(3):
            case 0:
                found[at] = rng.randrange(256)
            case 1:
                found[at] ^= 1 << rng.randrange(8)
            case _:
                found[at:at + 8] = rng.choice([b"\xff" * 8, b"\0" * 8, b"\0\0\0\0\1\0\0\0"])
    return bytes(found[:len(code)])


def load_damaged(path: Path, first: int, count: int) -> None:
    """Load damaged objects in this process; print how many were refused."""
    image = module_file.parse(path.read_bytes(), "it")
    (part,) = image.parts_of(CpuPart)
    refused = 0
    for seed in range(first, first + count):
        try:
            Module(replace(image, parts=(replace(part, code=damaged(part.code, seed)),)))
        except VtakitError as error:
            refused += "\n" not in str(error)
    print(refused)


def test_damaged_objects_do_not_end_the_process(net, tmp_path):
    net.save(tmp_path / "net.vtak")
    here = str(Path(__file__).parent)
    script = f"import sys; sys.path.insert(0, {here!r}); from test_module_files import *; load_damaged(Path(sys.argv[1]), 0, 400)"
    paths = os.pathsep.join([here, str(Path(here).parent), str(Path(here).parent / "compiler"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path / "net.vtak")], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": paths})
    assert done.returncode == 0, done.stderr[-500:]
    assert 250 < int(done.stdout) < 400


@pytest.mark.parametrize("triple", ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"])
def test_objects_that_are_made_pass(triple):
    target = Target(triple)
    for words in ({}, {"winograd": False}):
        (part,) = vtakit.compile(network(), target, cache=False, **words).image.parts_of(CpuPart)
        check_object(part.code, target, part.symbols, frozenset(part.outside), "it")


def test_a_relocation_of_eight_bytes_stands_on_eight_zeros():
    """R_X86_64_PC64; the loader adds what stands in its place."""
    target = Target("x86_64-unknown-linux-gnu")
    (part,) = vtakit.compile(network(), target, cache=False).image.parts_of(CpuPart)
    code = bytearray(part.code)
    (at,), (count,) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<H", code, 60)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, at + 64 * number) for number in range(count)]
    rela = next(each for each in sections if each[1] == 4)
    home = sections[rela[7]]
    text = bytes(code[home[4]:home[4] + home[5]])
    place = next(at for at in range(len(text) - 8) if text[at:at + 4] == bytes(4) and any(text[at + 4:at + 8]))
    code[rela[4]:rela[4] + 16] = struct.pack("<QII", place, 24, 1)
    with pytest.raises(CodegenError, match="bytes where a relocation is to stand"):
        check_object(bytes(code), target, part.symbols, frozenset(part.outside), "it")


def test_names_of_an_object_are_short():
    """Many symbols may share the end of one name; each reading is bounded."""
    found = _Object(b"", "x86_64", "it")
    assert found._text(b"\0" + b"a" * 4096 + b"\0", 1) == "a" * 4096
    with pytest.raises(CodegenError, match="a name has more than 4,096 bytes"):
        found._text(b"\0" + b"a" * 4097 + b"\0", 1)


def test_a_module_for_another_system_is_no_elf():
    check_object(b"\0asm", Target("wasm32-unknown-unknown"), (), frozenset(), "it")
    with pytest.raises(CodegenError, match="damaged object"):
        check_object(b"\0asm" * 20, Target("x86_64-unknown-linux-gnu"), (), frozenset(), "it")
