"""Tile registers in NumPy, for machines without: code for AMX runs with its instructions replaced by calls of this model.

What the instructions do is Intel's ISA extensions reference, chapter 3; the order of bfloat16 sums is not modelled.
"""

import ctypes
import threading
from dataclasses import replace

import ml_dtypes
import numpy as np

from vtakit.compiler.codegen.llvm.compile import Compiled, translate
from vtakit.compiler.codegen.llvm.target import Target
from vtakit.runtime.cpu.function import Function

PERMITTED, REFUSED = 0, -1  # what the system answers
_INSTRUCTIONS = {
    "ldtilecfg": (ctypes.c_void_p,), "tilerelease": (), "tilezero": (ctypes.c_uint8,),
    "tileloadd64": (ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64),
    "tilestored64": (ctypes.c_uint8, ctypes.c_void_p, ctypes.c_int64),
    **dict.fromkeys(("tdpbusd", "tdpbssd", "tdpbf16ps"), (ctypes.c_uint8,) * 3),
}


class TileRegisters:
    """The registers of each thread, and how often each instruction ran.

    errors : what a processor would have trapped at
    """

    def __init__(self, answer: int = PERMITTED) -> None:
        self.answer, self.counts, self.errors = answer, dict.fromkeys(_INSTRUCTIONS, 0), []
        self._tiles = {}  # by the system's number of a thread: Python's own forgets a thread that it did not start
        for name, kinds in _INSTRUCTIONS.items():
            setattr(self, f"model_{name}", ctypes.CFUNCTYPE(None, *kinds)(self._counted(name)))
        self.model_syscall = ctypes.CFUNCTYPE(ctypes.c_int64, *[ctypes.c_int64] * 3)(lambda *_: self.answer)

    def function(self, compiled: Compiled) -> Function:
        """The code for AMX as a function that this machine runs."""
        text = compiled.text.replace("@syscall(", "@model_syscall(")
        for name in _INSTRUCTIONS:
            text = text.replace(f"@llvm.x86.{name}(", f"@model_{name}(")
        kept = [feature for feature in compiled.target.features if "amx" not in feature]
        target = Target(compiled.target.triple, compiled.target.cpu, tuple(kept))
        names = ["model_syscall", *(f"model_{name}" for name in _INSTRUCTIONS)]
        outside = [name for name in compiled.outside if name != "syscall"] + [name for name in names if f"@{name}(" in text]
        made = replace(compiled, text=text, target=target, code=translate(text, target, "object"), outside=tuple(outside))
        return Function(made, {}, (self,))

    def _counted(self, name):
        def run(*args):
            self.counts[name] += 1
            try:
                getattr(self, f"_{name}")(*args)
            except Exception as error:  # ctypes would print it and go on
                self.errors.append(f"{name}{args}: {error!r}")
        return run

    def _ldtilecfg(self, shapes):
        config = np.frombuffer(ctypes.string_at(shapes, 64), np.uint8)
        assert config[0] == 1
        widths, heights = config[16:32].view(np.uint16), config[48:56]
        shapes = zip(heights, widths, strict=True)
        self._tiles[threading.get_native_id()] = [np.zeros(shape, np.uint8) for shape in shapes]

    def _tilerelease(self):
        del self._tiles[threading.get_native_id()]

    def _tilezero(self, register):
        self._tiles[threading.get_native_id()][register][:] = 0

    def _tileloadd64(self, register, base, stride):
        tile = self._tiles[threading.get_native_id()][register]
        assert tile.size
        for row in range(len(tile)):
            tile[row] = np.frombuffer(ctypes.string_at(base + row * stride, tile.shape[1]), np.uint8)

    def _tilestored64(self, register, base, stride):
        tile = self._tiles[threading.get_native_id()][register]
        assert tile.size
        for row, line in enumerate(tile):
            ctypes.memmove(base + row * stride, line.tobytes(), len(line))

    def _multiply(self, c, a, b, kinds, together, sums):
        tiles = self._tiles[threading.get_native_id()]
        left, right, found = tiles[a].view(kinds[0]), tiles[b].view(kinds[1]), tiles[c].view(sums)
        rows, steps, columns = len(found), len(right), found.shape[1]
        assert found.size
        assert left.shape == (rows, steps * together)
        assert right.shape == (steps, columns * together)
        wide = np.int64 if sums is np.int32 else np.float64
        products = np.einsum("mpq,pnq->mn", left.astype(wide).reshape(rows, steps, together),
                             right.astype(wide).reshape(steps, columns, together))
        found[:] = (found.astype(wide) + products).astype(sums)

    def _tdpbusd(self, c, a, b):
        self._multiply(c, a, b, (np.uint8, np.int8), 4, np.int32)

    def _tdpbssd(self, c, a, b):
        self._multiply(c, a, b, (np.int8, np.int8), 4, np.int32)

    def _tdpbf16ps(self, c, a, b):
        self._multiply(c, a, b, (ml_dtypes.bfloat16, ml_dtypes.bfloat16), 2, np.float32)
