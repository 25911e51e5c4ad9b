"""One measurement in a process of its own, for `cpu_suite.py`: what a cold compilation takes, or the memory of a runtime.

    python benchmarks/cpu_fresh.py compile MODEL.onnx MODULE.vtak KIND
    python benchmarks/cpu_fresh.py vtakit MODULE.vtak INPUTS.npz KIND
    python benchmarks/cpu_fresh.py onnxruntime|OpenVINO MODEL.onnx INPUTS.npz KIND

KIND is bfloat16 to compute in it; float32 and int8 are what the model is in.

Memory is what the process holds more than before the model is loaded, with the runtime's own libraries in place: at the end of
three runs, and the most on the way. The last line that is printed is JSON.
"""

import importlib
import json
import os
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

os.environ["OMP_NUM_THREADS"] = os.environ["OPENBLAS_NUM_THREADS"] = "1"

import cpu_peers
import numpy as np
import onnx

import vtakit
from vtakit.compiler.codegen.llvm.target import Target, target_machine


def held(kind: str) -> int:
    """Bytes of this process: "VmRSS" now, "VmHWM" the most since it was asked to forget."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(f"{kind}:"):
            return 1024 * int(line.split()[1])
    return 0


def memory(load: Callable[[], Callable[[], Any]]) -> dict[str, int]:
    """What loading and three runs take."""
    before = held("VmRSS")
    with suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5")  # the most begins anew
    run = load()
    for _ in range(3):
        run()
    return {"held_bytes": held("VmRSS") - before, "most_bytes": held("VmHWM") - before}


def main(what: str, path: str, other: str, kind: str) -> None:
    """Measure and print."""
    if what == "compile":
        begin = time.process_time()  # it works on one thread: on an idle machine this is the clock's
        module = vtakit.compile(path, cache=False, precision="bfloat16" if kind == "bfloat16" else "float32")
        taken = time.process_time() - begin
        module.save(other)
        print(json.dumps({"compile_s": taken}))
        return
    given = dict(np.load(other))
    if what == "vtakit":
        target_machine(Target.host())  # loads LLVM, as the import of a peer loads its library

        def load() -> Callable[[], Any]:
            loaded = vtakit.load(path)
            return lambda: loaded.run(given)
    else:
        (peer,) = [peer for peer in cpu_peers.PEERS if peer.name == what]
        importlib.import_module(peer.package)

        def load() -> Callable[[], Any]:
            return peer.prepare(onnx.load(path), given, 1, kind)
    print(json.dumps(memory(load)))


if __name__ == "__main__":
    main(*sys.argv[1:5])
