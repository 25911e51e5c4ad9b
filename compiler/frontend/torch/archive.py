"""The archive that torch.export.save writes (.pt2), read without running anything in it.

torch.export.load unpickles parts of the archive, loads shared libraries from it, and evaluates strings of its program as Python.
Here the archive is read as data: the program is JSON (see `program`), weights and constants are raw arrays, and a pickle is read
by torch's weights-only unpickler, which knows tensors and plain containers. Sample inputs are not read.
"""

import io
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vtakit.base.archive import Archive
from vtakit.base.jsons import read_json
from vtakit.base.limits import MAX_JSON_BYTES, check_name, check_shape
from vtakit.compiler.frontend.errors import ModelError

if TYPE_CHECKING:
    import torch

_PROGRAM = "models/model.json"
_WEIGHTS, _CONSTANTS = "data/weights/", "data/constants/"
_UNREAD = ("data/sample_inputs/", "extra/", ".data/")
_MARKS = ("archive_format", "archive_version", "byteorder", "version", _PROGRAM)
_OLD_PROGRAM = "serialized_exported_program.json"
_OLD_WEIGHTS, _OLD_CONSTANTS = "serialized_state_dict.pt", "serialized_constants.pt"
_OLD = (_OLD_PROGRAM, _OLD_WEIGHTS, _OLD_CONSTANTS, "serialized_example_inputs.pt", "version")
_ATTRIBUTE = re.compile(r"[\w.\-]+")
_MOST_EXPANDED_BYTES = 1 << 26  # of all weights, and of all constants, that have more elements than their data, by strides of 0
# Element types by torch's number; the numbers are part of the format.
_KINDS = {
    1: "uint8", 2: "int8", 3: "int16", 4: "int32", 5: "int64", 6: "float16", 7: "float32", 8: "float64", 9: "complex32",
    10: "complex64", 11: "complex128", 12: "bool", 13: "bfloat16", 28: "uint16", 34: "uint32", 35: "uint64",
}


@dataclass(frozen=True, slots=True)
class Contents:
    """A program and its tensors. Tensors are read on request, since that needs torch, whose import takes seconds.

    program : JSON, not checked yet
    archive : what holds the tensors
    root    : folder of the program in the archive; None in the layout before torch 2.8
    """

    program: Any
    archive: Archive
    root: str | None

    def weights(self) -> "Mapping[str, torch.Tensor]":
        """Return parameters and buffers by their names in the module. Raises as `read_archive`."""
        return self._tensors(_WEIGHTS, _OLD_WEIGHTS)

    def constants(self) -> "Mapping[str, torch.Tensor]":
        """Return the other tensors that the program reads, by name. Raises as `read_archive`."""
        return self._tensors(_CONSTANTS, _OLD_CONSTANTS)

    def _tensors(self, folder: str, old: str) -> "Mapping[str, torch.Tensor]":
        if self.root is None:
            return _pickled_dict(self.archive, old)
        return _Payloads(self.archive, self.root).tensors(folder)


def read_archive(data: bytes) -> Contents:
    """Read an archive, of torch 2.8's layout and later, or of the layout before. Tensors are not read yet.

    Raises ModelError for a part that would run code, ArchiveError or LimitError for a damaged archive.
    """
    archive = Archive(data)
    if _OLD_PROGRAM in archive:
        _refuse_others(archive, "", _OLD, ("extra_files/",))
        program = read_json(archive.read(_OLD_PROGRAM), most_bytes=MAX_JSON_BYTES, what="its program")
        return Contents(program, archive, None)
    programs = [name for name in archive.sizes if name.endswith(_PROGRAM)]
    if len(programs) != 1:
        raise ModelError(f"it has {len(programs)} files {_PROGRAM!r}, and torch.export.save writes one")
    root = programs[0].removesuffix(_PROGRAM)
    _refuse_others(archive, root, _MARKS, (_WEIGHTS, _CONSTANTS, *_UNREAD))
    order = archive.read(f"{root}byteorder").strip() if f"{root}byteorder" in archive else b"little"
    if order != b"little":
        raise ModelError("its numbers are big-endian: save it on a little-endian machine" if order == b"big" else
                         f"its part 'byteorder' is {order!r:.40}, and must be 'little'")
    program = read_json(archive.read(programs[0]), most_bytes=MAX_JSON_BYTES, what="its program")
    return Contents(program, archive, root)


def _refuse_others(archive: Archive, root: str, files: tuple[str, ...], folders: tuple[str, ...]) -> None:
    for name in archive.sizes:
        inner = name.removeprefix(root)
        if not name.startswith(root) or not (inner in files or inner.startswith(folders)):
            raise ModelError(f"it has the part {name!r:.80}, which is no part of a program: compiled code and files of other "
                             "tools are refused; save the program with torch.export.save")


class _Payloads:
    """Reads the tensors of an archive."""

    def __init__(self, archive: Archive, root: str) -> None:
        self.archive, self.root = archive, root
        self.expanded = 0

    def tensors(self, folder: str) -> "dict[str, torch.Tensor]":
        kind = folder.split("/")[1]
        legacy, config = (f"{self.root}{folder}model{end}" for end in (".pt", f"_{kind}_config.json"))
        if legacy in self.archive:
            return _pickled_dict(self.archive, legacy)
        if config not in self.archive:
            raise ModelError(f"it lacks its part {config!r}")
        found = read_json(self.archive.read(config), most_bytes=MAX_JSON_BYTES, what=f"its part {config!r}")
        known: dict[tuple[str, int], Any] = {}
        return {name: self._tensor(folder, name, meta, known) for name, meta in _entries(found, config)}

    def _tensor(self, folder: str, name: str, meta: Any, known: dict[tuple[str, int], Any]) -> "torch.Tensor":
        import torch

        _check_attribute(name)
        file = meta["path_name"]
        if not isinstance(file, str) or not file.startswith(("weight_", "tensor_")):
            raise ModelError(f"its constant {name!r} is the custom object {file!r:.60}, whose making would run code")
        where = f"{self.root}{folder}{file}"
        if where not in self.archive:
            raise ModelError(f"it lacks the data of {name!r}, the part {where!r:.120}")
        if meta["use_pickle"]:
            return _tensor_of(_pickled(self.archive, where), name)
        described = meta["tensor_meta"]
        kind = _KINDS.get(described["dtype"])
        if kind is None:
            raise ModelError(f"{name!r} has the element type of number {described['dtype']!r:.20}, which vtakit does not read")
        key = where, described["dtype"]
        if key not in known:
            data = self.archive.read(where)
            dtype = getattr(torch, kind)
            if len(data) % dtype.itemsize:
                raise ModelError(f"the data of {name!r} have {len(data):,} bytes, which is no whole number of {kind}")
            known[key] = torch.frombuffer(data, dtype=dtype) if data else torch.empty(0, dtype=dtype)
        found = self._view(known[key], described, name)
        return torch.nn.Parameter(found, requires_grad=False) if meta["is_param"] is True else found

    def _view(self, flat: "torch.Tensor", described: Any, name: str) -> "torch.Tensor":
        """The elements of a tensor in its data; every one lies inside."""
        shape, strides = ([fixed_size(each, name) for each in described[key]] for key in ("sizes", "strides"))
        offset = fixed_size(described["storage_offset"], name)
        check_shape(shape, f"{name!r}")
        if len(strides) != len(shape):
            raise ModelError(f"{name!r} has {len(shape)} sizes and {len(strides)} strides")
        size = math.prod(shape)
        end = 1 + offset + sum((dim - 1) * stride for dim, stride in zip(shape, strides, strict=True)) if size else 0
        if end > len(flat):
            raise ModelError(f"{name!r} reaches {end:,} elements into its data, which have {len(flat):,}")
        if size > len(flat):
            self.expanded += size * flat.dtype.itemsize
            if self.expanded > _MOST_EXPANDED_BYTES:
                raise ModelError(f"{name!r} has {size:,} elements in data of {len(flat):,}: save a contiguous tensor")
        return flat.as_strided(shape, strides, offset) if size else flat.new_empty(shape)


def _entries(config: Any, where: str) -> Iterator[tuple[str, Any]]:
    if not isinstance(config, dict) or not isinstance(config.get("config"), dict):
        raise ModelError(f"its part {where!r} is no table of tensors")
    for name, meta in config["config"].items():
        if not isinstance(meta, dict):
            raise ModelError(f"its part {where!r} does not describe {name!r:.60}")
        yield name, meta


def fixed_size(given: Any, what: str) -> int:
    """A size in a program's JSON. Raises ModelError, which calls its owner `what`, for an open or negative one."""
    size = given.get("as_int") if isinstance(given, dict) else None
    if isinstance(given, dict) and "as_expr" in given:
        raise ModelError(f"{what} has an open shape: export the module without dynamic_shapes")
    if isinstance(size, bool) or not isinstance(size, int) or not 0 <= size < 1 << 62:
        raise ModelError(f"{what} has the size {given!r:.40}, and a size is a whole number, at least 0")
    return size


def _check_attribute(name: str) -> None:
    """Refuse a name that torch could not write into the Python text that it makes of a program."""
    check_name(name, "the tensor")
    if not _ATTRIBUTE.fullmatch(name):
        raise ModelError(f"{name!r:.60} cannot name a tensor of a module: names are letters, digits, '_', '-' and '.'")


def _pickled(archive: Archive, where: str) -> Any:
    """A pickled part, by the unpickler that makes tensors and plain containers only."""
    import torch

    data = archive.read(where)
    try:
        Archive(data, stored=True)  # the pickle is in an archive of its own, as torch.save writes it
        return torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for a damaged file
        why = " ".join(str(error).split())
        found = re.search(r"GLOBAL ([\w.]+)|Unsupported \w+ ([\w.]+)", why)
        asked = next((each for each in found.groups() if each), "") if found else ""
        told = f"asks for {asked}" if asked else f"cannot be read: {why.partition('. ')[0][:160] or type(error).__name__}"
        raise ModelError(f"its part {where!r:.120} is a pickle that is no plain tensors ({told}), and is not run") from None


def _pickled_dict(archive: Archive, where: str) -> "dict[str, torch.Tensor]":
    if where not in archive:
        raise ModelError(f"it lacks its part {where!r}")
    found = _pickled(archive, where)
    if not isinstance(found, dict) or not all(isinstance(name, str) for name in found):
        raise ModelError(f"its part {where!r} is no table of tensors")
    for name in found:
        _check_attribute(name)
    return {name: _tensor_of(held, name) for name, held in found.items()}


def _tensor_of(held: Any, name: str) -> "torch.Tensor":
    import torch

    if not isinstance(held, torch.Tensor):
        raise ModelError(f"its constant {name!r} is a {type(held).__name__} and no tensor")
    if type(held) not in (torch.Tensor, torch.nn.Parameter) or held.layout is not torch.strided or held.device.type != "cpu":
        raise ModelError(f"{name!r} is a tensor of the kind {type(held).__name__}, {held.layout}, on {held.device}; vtakit reads "
                         "dense ones in this machine's memory")
    if held.numel() * held.itemsize > held.untyped_storage().nbytes() + _MOST_EXPANDED_BYTES:
        raise ModelError(f"{name!r} has {held.numel():,} elements in data of fewer: save a contiguous tensor")
    return held
