"""Modules, programs and configurations, and random mutations of them, for `file_mutations`."""

import functools
import hashlib
import io
import random
import struct
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from file_formats import FORMATS, Case, format_of, of_bytes, of_json, one_input, saved, specials
from module_support import DIGEST, PREFIX, with_header_text

from vtakit.hw.isa import file as program_file
from vtakit.hw.isa.asm import disasm
from vtakit.hw.isa.config import INSN_BYTES, NAMED
from vtakit.runtime import module_file
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.vta.part import VtaPart


@functools.cache
def _vta_module() -> tuple[Any, bytes]:
    """A module with a program of the accelerator."""
    from integer_nets import Integers
    from model_support import vta_module

    net = Integers("small", seed=1)
    graph = net.finish(net.conv(net.input(1, 3, 6, 6), 4))
    image = vta_module(graph, "tiny").image
    return image, module_file.dump(image)


def _warm_modules() -> None:
    saved()
    _vta_module()


@format_of("vtak", _warm_modules)
def _vtak(rng: random.Random) -> Case:
    """Bytes changed, or the header with a checksum that is right; then what loads is run."""
    _, data = saved(rng.choice((0, 1, 3)))
    names = {"net.vtak": of_bytes(rng, data) if rng.random() < 0.2 else with_header_text(data, lambda head: of_json(rng, head))}
    return Case("vtak", ["run", "net.vtak", "--input", "in.npz"], {**names, "in.npz": one_input()})


@format_of("vtak_vta", _warm_modules)
def _vtak_vta(rng: random.Random) -> Case:
    image, data = _vta_module()
    port = image.inputs[0]
    out = io.BytesIO()
    np.savez(out, **{port.name: np.ones(port.shape, str(port.dtype))})
    changed = of_bytes(rng, data) if rng.random() < 0.2 else with_header_text(data, lambda head: of_json(rng, head))
    return Case("vtak_vta", ["run", "net.vtak", "--input", "in.npz"], {"net.vtak": changed, "in.npz": out.getvalue()})


@format_of("object", _warm_modules)
def _object(rng: random.Random) -> Case:
    """Machine code changed, all checksums right: loaded, not run, since code that is loaded may do anything."""
    image, _ = saved(rng.choice((0, 1, 3)))
    (part,) = image.parts_of(CpuPart)
    code, tables = bytearray(part.code), int.from_bytes(part.code[40:48], "little")
    for _ in range(rng.choice((1, 1, 2, 3))):
        parts = [(0, 64), (tables, len(code)), (tables, len(code)), (len(code) // 2, tables), (0, len(code))]
        at = rng.randrange(*rng.choice(parts))
        bits = bytes([code[at] ^ 1 << rng.randrange(8)])
        new = rng.choice([b"\xff" * 8, b"\0" * 8, b"\0\0\0\0\1\0\0\0", bits, bytes([rng.randrange(256)])])
        code[at:at + len(new)] = new
    data = module_file.dump(replace(image, parts=(replace(part, code=bytes(code[:len(part.code)])),)))
    return Case("object", ["run", "net.vtak"], {"net.vtak": data})


@functools.cache
def _evil_code() -> bytes:
    """An object whose functions make the canary when they are called."""
    from vtakit.compiler.codegen.llvm.passes import machine_code
    from vtakit.compiler.codegen.llvm.target import Target

    image, _ = saved()
    (part,) = image.parts_of(CpuPart)
    text = f'target triple = "{Target.host().triple}"\n@name = private constant [7 x i8] c"canary\\00"\n'
    text += f"@{part.symbols[2]} = constant [32 x i8] zeroinitializer\ndeclare i32 @mkdir(ptr, i32)\n"
    for name in part.symbols[:2]:
        text += f"define i32 @{name}(ptr %a) nounwind {{\n  %r = call i32 @mkdir(ptr @name, i32 511)\n  ret i32 0\n}}\n"
    return machine_code(text, Target.host(), "object")


@format_of("recompile", lambda: (_warm_modules(), _evil_code()))
def _recompile(rng: random.Random) -> Case:
    """A module whose machine code makes the canary, and whose graph is changed: --recompile runs none of the code."""
    image, _ = saved()
    (part,) = image.parts_of(CpuPart)
    evil = replace(image, parts=(replace(part, code=_evil_code()),))
    held = image.source.blob.read()
    size = int.from_bytes(held[:4], "little")
    text = held[4:4 + size] if rng.random() < 0.1 else of_json(rng, held[4:4 + size])
    graph = struct.pack("<I", len(text)) + text + held[4 + size:]
    graph = of_bytes(rng, graph) if rng.random() < 0.1 else graph
    from vtakit.runtime.source import Blob

    changed = replace(evil, source=replace(image.source, blob=Blob.of([graph])))
    data = module_file.dump(changed)
    if rng.random() < 0.3:
        data = with_header_text(data, lambda head: of_json(rng, head))
    recompile = [] if rng.random() < 0.3 else ["--recompile"]  # without, the manifest is not that of the header
    return Case("recompile", ["run", "net.vtak", *recompile, "--input", "in.npz"], {"net.vtak": data, "in.npz": one_input()})


@functools.cache
def _signed() -> tuple[bytes, bytes]:
    """A signed module with code that makes the canary, and a trusted key that has not signed it."""
    from vtakit.runtime.signing import new_key, sign

    image, _ = saved()
    (part,) = image.parts_of(CpuPart)
    with tempfile.TemporaryDirectory() as folder:
        private, _ = new_key(Path(folder, "them"))
        _, public = new_key(Path(folder, "me"))
        path = Path(folder, "net.vtak")
        module_file.save(replace(image, parts=(replace(part, code=_evil_code()),)), path)
        sign(path, private)
        return path.read_bytes(), public.read_bytes()


def _warm_signed() -> None:
    _warm_modules()
    _signed()


@format_of("signed", _warm_signed)
def _signed_case(rng: random.Random) -> Case:
    """A module that somebody else has signed, or the key, changed: the code is not run."""
    data, key = _signed()
    if rng.random() < 0.6:
        at = rng.choice((0, len(data) - 104, len(data) - 104))
        data = data[:at] + of_bytes(rng, data[at:]) if at else of_bytes(rng, data)
    else:
        key = of_bytes(rng, key)
    special = {"me.pub.pem": rng.choice(specials())} if rng.random() < 0.05 else {}
    command = ["run", "net.vtak", "--trusted", "me.pub.pem", "--input", "in.npz"]
    return Case("signed", command, {"net.vtak": data, "me.pub.pem": key, "in.npz": one_input()}, special)


# Programs and configurations.

@functools.cache
def _programs() -> tuple[Any, bytes]:
    image, _ = _vta_module()
    program = image.parts_of(VtaPart)[0].program
    return program, program_file.dump(program)


def _warm_programs() -> None:
    from vtakit import sim

    program, _ = _programs()
    sim.run(program, {b.name: bytes(b.size_bytes) for b in program.buffers if b.kind == "input" and b.data is None})


@format_of("vta", _warm_programs)
def _vta(rng: random.Random) -> Case:
    """A program's header or instructions changed, with a checksum that is right or not; run, checked or listed."""
    program, data = _programs()
    magic, version, head, _ = PREFIX.unpack_from(data)
    text, rest = data[PREFIX.size:PREFIX.size + head], data[PREFIX.size + head:-DIGEST]
    match rng.randrange(5):
        case 0:
            data = of_bytes(rng, data)
        case 1 | 2:
            text = of_json(rng, text)
        case _:
            end = len(program.insns) * INSN_BYTES
            changed = bytearray(rest)
            for _ in range(rng.randint(1, 3)):
                at = rng.randrange(end)
                changed[at] ^= 1 << rng.randrange(8)
            rest = bytes(changed)
    if rest != data[PREFIX.size + head:-DIGEST] or text != data[PREFIX.size:PREFIX.size + head]:
        body = PREFIX.pack(magic, version, len(text), len(rest)) + text + rest
        data = body + hashlib.sha256(body).digest()
    inputs = {b.name: bytes(b.size_bytes) for b in program.buffers if b.kind == "input" and b.data is None}
    given = [word for name in inputs for word in ("--input", f"{name}={name}.bin")]
    command = rng.choice([["check", "p.vta"], ["disasm", "p.vta"], ["sim", "p.vta", *given]])
    special = {"p.vta": rng.choice(specials())} if rng.random() < 0.03 else {}
    return Case("vta", command, {"p.vta": data} | {f"{name}.bin": zeros for name, zeros in inputs.items()}, special)


@format_of("json", _warm_programs)
def _json(rng: random.Random) -> Case:
    """A configuration changed."""
    data = of_json(rng, rng.choice(list(NAMED.values())).to_json().encode())
    program, _ = _programs()
    image = program.link().dram if hasattr(program, "link") else bytes(4096)
    command = ["check", "--config", "c.json", "--image", "d.bin", "--insn-addr", "0", "--insn-count", "1"]
    special = {"c.json": rng.choice(specials())} if rng.random() < 0.05 else {}
    return Case("json", command, {"c.json": data, "d.bin": bytes(image[:4096])}, special)


@format_of("asm", _warm_programs)
def _asm(rng: random.Random) -> Case:
    """Assembly text changed."""
    program, _ = _programs()
    text = "\n".join(disasm(word, program.config) for word in program.insns[:20]).encode()
    return Case("asm", ["asm", "p.s", "-o", "p.vta", "--config", "tiny"], {"p.s": of_bytes(rng, text)})


ALL_FORMATS = FORMATS  # with those above
