"""Valid small files of each format, and random mutations of them, for `file_mutations`."""

import functools
import importlib.util
import io
import json
import os
import random
import struct
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_mutations
from onnx import TensorProto, numpy_helper

import vtakit
from vtakit.runtime import module_file

_WORDS = ["", "x", "..", "/dev/zero", "\0", "é", "x" * 5000, "__import__('os').mkdir('canary')", "NaN", "float32"]
_NUMBERS = [0, -1, 1, 2, 255, 1 << 16, 1 << 31, 1 << 40, 1 << 62, 1 << 64, -(1 << 63), 10**30]


@dataclass(frozen=True)
class Case:
    """A mutated file and the command that reads it.

    files    : contents by name
    specials : what makes files that are none: pipes, links, folders
    """

    format: str
    command: list[str]
    files: Mapping[str, bytes]
    specials: Mapping[str, Callable[[Path], object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Format:
    """How cases of a format are made; `warm` makes what they share, before the process forks."""

    case: Callable[[random.Random], Case]
    warm: Callable[[], object]


FORMATS: dict[str, Format] = {}
_PACKAGES = {"pt2": "torch", "tflite": "ai_edge_litert"}  # that make files of a format


def formats_here() -> list[str]:
    """The formats whose packages are installed."""
    return [name for name in FORMATS if name not in _PACKAGES or importlib.util.find_spec(_PACKAGES[name])]


Maker = Callable[[random.Random], Case]


def format_of(name: str, warm: Callable[[], object]) -> Callable[[Maker], Maker]:
    def register(case: Maker) -> Maker:
        FORMATS[name] = Format(case, warm)
        return case
    return register


# Mutations of bytes, JSON and archives.

def of_bytes(rng: random.Random, data: bytes) -> bytes:
    """With some bytes changed, cut out, put in twice or cut off."""
    found = bytearray(data or b"\0")
    for _ in range(rng.randint(1, 4)):
        at = rng.randrange(max(1, len(found)))
        match rng.randrange(8):
            case 0 | 1 | 2:
                found[at:at + 1] = bytes([rng.randrange(256)])
            case 3:
                found[at:at + 1] = bytes([found[at] ^ 1 << rng.randrange(8)]) if found else b""
            case 4:
                found[at:at + 8] = rng.choice([b"\xff" * 8, b"\0" * 8, struct.pack("<q", rng.choice(_NUMBERS[:9]))])
            case 5:
                del found[at:at + rng.randint(1, 16)]
            case 6:
                found[at:at] = found[at:at + rng.randint(1, 16)]
            case _:
                del found[at:]
    return bytes(found)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Every place in JSON: its container and the key there."""
    if isinstance(value, dict):
        return [(value, key) for key in value] + [place for inner in value.values() for place in _places(inner)]
    if isinstance(value, list):
        return [(value, at) for at in range(len(value))] + [place for inner in value for place in _places(inner)]
    return []


def _value(rng: random.Random, old: Any) -> Any:
    near = [old + 1, old - 1, -old, old * 2, old * 1000] if isinstance(old, int) and not isinstance(old, bool) else []
    nested: Any = []
    for _ in range(rng.choice((1, 70, 3000))):
        nested = [nested]
    others = [None, True, [], {}, 0.5, float("inf"), [old], {"x": old}, [1] * 2000, nested]
    return rng.choice([*near, *near, *_NUMBERS, *_WORDS, *others])


def of_json(rng: random.Random, data: bytes) -> bytes:
    """With values of the JSON changed, taken out, put in twice or exchanged; or with bytes changed."""
    if rng.random() < 0.15:
        return of_bytes(rng, data)
    try:
        value = json.loads(data)
    except ValueError:  # what was changed before
        return of_bytes(rng, data)
    for _ in range(rng.choice((1, 1, 2, 3))):
        try:
            places = _places(value)
        except RecursionError:  # what was put in before
            break
        if not places:
            break
        holder, key = rng.choice(places)
        match rng.randrange(6):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 0:
                holder.pop(key)
            case 1 if isinstance(holder, list):
                holder.insert(key, holder[key])
            case 1 | 2:
                other, at = rng.choice(places)
                try:
                    holder[key], other[at] = json.loads(json.dumps(other[at])), json.loads(json.dumps(holder[key]))
                except (KeyError, IndexError, RecursionError):
                    continue
            case _:
                holder[key] = _value(rng, holder[key])
    try:
        return json.dumps(value).encode()
    except RecursionError:
        return b"[" * 3000 + b"]" * 3000


def members(data: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def zipped(parts: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in parts.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)  # of 1980: a time of now would make each run another file
    return out.getvalue()


def of_members(rng: random.Random, parts: dict[str, bytes], mutate: Callable[[random.Random, str, bytes], bytes]) -> bytes:
    """An archive with one member changed, gone, renamed or exchanged; or with bytes of the archive changed."""
    parts = dict(parts)
    for _ in range(rng.choice((1, 1, 2))):
        name = rng.choice(list(parts))
        match rng.randrange(10):
            case 0:
                del parts[name]
            case 1:
                parts[rng.choice(_WORDS[1:2] + _WORDS[6:8]) + name] = parts.pop(name)
            case 2:
                other = rng.choice(list(parts))
                parts[name], parts[other] = parts[other], parts[name]
            case 3:
                parts[name] = bytes(rng.choice((0, 1, 1 << 20)))
            case _:
                parts[name] = mutate(rng, name, parts[name])
        if not parts:
            break
    data = zipped(parts, rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)))
    return of_bytes(rng, data) if rng.random() < 0.25 else data


# Models.

@functools.cache
def _models() -> list[bytes]:
    return onnx_mutations.models()


@functools.cache
def one_input() -> bytes:
    out = io.BytesIO()
    np.savez(out, x=np.ones((1, 4, 6, 6), "f4"))
    return out.getvalue()


@functools.cache
def _module(at: int = 0) -> Any:
    """A compiled model; making one also loads the compiler."""
    return vtakit.compile(onnx.ModelProto.FromString(_models()[at]), cache=False)


@functools.cache
def saved(at: int = 0) -> tuple[Any, bytes]:
    image = _module(at).image
    return image, module_file.dump(image)


@format_of("onnx", _module)
def _onnx(rng: random.Random) -> Case:
    data = onnx_mutations.mutation(rng.randrange(1 << 40), _models())
    return Case("onnx", ["run", "net.onnx", "--no-cache", "--input", "in.npz"], {"net.onnx": data, "in.npz": one_input()})


@functools.cache
def _tflite_models() -> tuple[bytes, bytes]:
    """A network in int8, and a model whose weights are sparse."""
    from tflite_support import residual_network, sparse_model

    return residual_network(np.random.default_rng(0), size=8).bytes(), sparse_model()[0].bytes()


@functools.cache
def _tflite_inputs() -> tuple[bytes, bytes]:
    made = [io.BytesIO(), io.BytesIO()]
    np.savez(made[0], image=np.ones((1, 8, 8, 3), np.int8))
    np.savez(made[1], x=np.ones((2, 8), "f4"))
    return made[0].getvalue(), made[1].getvalue()


def _warm_tflite() -> None:
    from vtakit.compiler.frontend.tflite.importer import import_tflite

    _module()
    _tflite_models()
    path = Path("/proc/self/fd") / str(os.memfd_create("net.tflite"))
    path.write_bytes(_tflite_models()[0])
    import_tflite(path)


@format_of("tflite", _warm_tflite)
def _tflite(rng: random.Random) -> Case:
    at = rng.randrange(2)
    files = {"net.tflite": of_bytes(rng, _tflite_models()[at]), "in.npz": _tflite_inputs()[at]}
    return Case("tflite", ["run", "net.tflite", "--no-cache", "--input", "in.npz"], files)


def specials() -> list[Callable[[Path], object]]:
    return [
        os.mkfifo, Path.mkdir, lambda path: path.symlink_to("/dev/zero"), lambda path: path.symlink_to(path.name),
        lambda path: path.symlink_to("/proc/self/mem"), lambda path: None, _sparse,
    ]


def _sparse(path: Path) -> None:
    path.touch()
    os.truncate(path, 1 << 40)


@format_of("external", _module)
def _external(rng: random.Random) -> Case:
    """A model with data in another file, whose fields, or the file itself, are changed."""
    proto = onnx.ModelProto.FromString(_models()[0])
    data = b""
    for tensor in proto.graph.initializer:
        array = numpy_helper.to_array(tensor)
        tensor.ClearField("raw_data")
        tensor.data_location = TensorProto.EXTERNAL
        for key, value in {"location": "w.bin", "offset": str(len(data)), "length": str(array.nbytes)}.items():
            tensor.external_data.add(key=key, value=value)
        data += array.tobytes()
    entries = [entry for tensor in proto.graph.initializer for entry in tensor.external_data]
    special: dict[str, Callable[[Path], object]] = {}
    match rng.randrange(4):
        case 0:
            entry = rng.choice(entries)
            words = [*map(str, _NUMBERS), *_WORDS, "net.onnx", "../w.bin", "a/../w.bin", "/dev/stdin", "location", "1.5"]
            setattr(entry, rng.choice(("key", "value", "value", "value")), rng.choice(words))
        case 1:
            special["w.bin"] = rng.choice(specials())
        case 2:
            data = of_bytes(rng, data)
        case _:
            dims = rng.choice(proto.graph.initializer).dims
            dims[rng.randrange(len(dims))] = rng.choice(_NUMBERS[:9])
    if rng.random() < 0.1:
        special["net.onnx"] = rng.choice(specials())
    files = {"net.onnx": proto.SerializeToString(), "in.npz": one_input(), "w.bin": data}
    cached = [] if rng.random() < 0.5 else ["--no-cache"]
    return Case("external", ["run", "net.onnx", *cached, "--input", "in.npz"], files, special)


@functools.cache
def _program() -> dict[str, bytes]:
    """The members of a PyTorch program's archive."""
    import torch

    class Net(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(4, 3)
            self.shift = torch.ones(3)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.linear(x)) + self.shift
    out = io.BytesIO()
    torch.export.save(torch.export.export(Net().eval(), (torch.ones(2, 4),)), out)
    return members(out.getvalue())


class _Canary:
    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, ("canary",)


@functools.cache
def _pickles() -> list[bytes]:
    """Pickles that make the canary, and one that is harmless."""
    import pickle

    import torch

    out, plain = io.BytesIO(), io.BytesIO()
    torch.save({"linear.weight": _Canary()}, out)
    torch.save(torch.ones(3, 4), plain)
    return [out.getvalue(), pickle.dumps(_Canary()), plain.getvalue()]


def _warm_torch() -> None:
    _module()
    _pickles()
    with_torch = zipped(_program())
    path = Path("/proc/self/fd") / str(os.memfd_create("net.pt2"))
    path.write_bytes(with_torch)
    from vtakit.compiler.frontend.torch.importer import import_program
    from vtakit.runtime.torch_program import _loaded

    import_program(_loaded(path))


@format_of("pt2", _warm_torch)
def _pt2(rng: random.Random) -> Case:
    def mutate(rng: random.Random, name: str, data: bytes) -> bytes:
        if name.endswith(".json"):
            return of_json(rng, data)
        return rng.choice(_pickles()) if rng.random() < 0.5 else of_bytes(rng, data)
    parts = dict(_program())
    root = next(iter(parts)).partition("/")[0]
    if rng.random() < 0.3:
        name = rng.choice(
            ["data/weights/model.pt", "data/constants/model.pt", "data/constants/custom_obj_0", "data/aotinductor/x.so"])
        parts[f"{root}/{name}"] = rng.choice(_pickles())
    if rng.random() < 0.3:
        parts[f"{root}/data/sample_inputs/model.pt"] = _pickles()[0]
    if rng.random() < 0.3:
        name = f"{root}/data/{rng.choice(('weights/model_weights', 'constants/model_constants'))}_config.json"
        config = json.loads(parts[name])
        entry = rng.choice(list(config["config"].values()))
        entry["use_pickle"] = True
        parts[name] = json.dumps(config).encode()
        parts[f"{name.rpartition('/')[0]}/{entry['path_name']}"] = rng.choice(_pickles())
    if rng.random() < 0.2:
        name = f"{root}/models/model.json"
        program = json.loads(parts[name])
        code = "__import__('os').mkdir('canary')"
        program["guards_code"] = [code]
        holder, key = rng.choice([place for place in _places(program) if isinstance(place[0][place[1]], str)])
        holder[key] = code
        sizes = program["graph_module"]["graph"]["tensor_values"]["x"]["sizes"]
        if rng.random() < 0.5:
            sizes[0] = {"as_expr": {"expr_str": code, "hint": None}}
        parts[name] = json.dumps(program).encode()
    data = zipped(parts) if rng.random() < 0.2 else of_members(rng, parts, mutate)
    return Case("pt2", ["run", "net.pt2", "--input", "in.npz"], {"net.pt2": data, "in.npz": _input_of(2, 4)})


@functools.cache
def _input_of(*shape: int) -> bytes:
    out = io.BytesIO()
    np.savez(out, x=np.ones(shape, "f4"))
    return out.getvalue()


@format_of("npz", _module)
def _npz(rng: random.Random) -> Case:
    _, data = saved()
    parts = members(one_input())
    if rng.random() < 0.3:
        parts["more.npy"] = parts["x.npy"]
    made = of_members(rng, parts, lambda rng, name, data: _npy(rng, data))
    special = {"in.npz": rng.choice(specials())} if rng.random() < 0.05 else {}
    return Case("npz", ["run", "net.vtak", "--input", "in.npz"], {"in.npz": made, "net.vtak": data}, special)


def _npy(rng: random.Random, data: bytes) -> bytes:
    """An array's file with another header, or other bytes."""
    if rng.random() < 0.3:
        return of_bytes(rng, data)
    shape = tuple(rng.choice([1, 4, 6, 36, -1, *_NUMBERS]) for _ in range(rng.choice((0, 1, 4, 4, 4, 40))))
    descr = rng.choice(
        ["'<f4'", "'<f4'", "'<f8'", "'|O'", "'<f3'", "[('a', '<f4')]", "'|S0'", "'|V2'", "'<M8[s]'", "(1,)", "'<U99'"])
    shown = rng.choice([str(shape), "()", "(1, 4, 6, 6)", "[1]", "'x'", "(" * 300])
    text = f"{{'descr': {descr}, 'fortran_order': {rng.choice(('False', 'True', '3'))}, 'shape': {shown}, }}".encode()
    text += b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY" + bytes([rng.choice((1, 1, 1, 2, 3, 9)), 0]) + struct.pack("<H", len(text) & 0xFFFF) + text + data[128:]
