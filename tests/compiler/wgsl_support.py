"""Running WGSL kernels on the first Vulkan device, in tests."""

from functools import cache
from typing import Any

import numpy as np

from vtakit.compiler.codegen.clike.kernel import source
from vtakit.compiler.codegen.clike.wgsl import Wgsl
from vtakit.compiler.codegen.gpu.host import HostCode
from vtakit.compiler.codegen.gpu.launches import Launch, split
from vtakit.compiler.codegen.llvm.signature import signature
from vtakit.compiler.ir import stmt as st
from vtakit.compiler.ir.buffer import Buffer
from vtakit.compiler.ir.dtypes import DType
from vtakit.compiler.ir.expr import Var
from vtakit.runtime.cpu.arguments import Arguments


@cache
def device() -> Any:
    """Return a WebGPU device, with all limits that its adapter has."""
    import wgpu

    adapter = wgpu.gpu.request_adapter_sync(power_preference="low-power")
    limits = {name: adapter.limits[name] for name in (
        "max-storage-buffers-per-shader-stage", "max-compute-invocations-per-workgroup", "max-compute-workgroup-size-x",
        "max-compute-workgroup-size-y", "max-compute-workgroup-size-z",
    )}
    return adapter.request_device_sync(required_limits=limits)


def words(array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return elements as 32-bit words, one each."""
    flat = np.ascontiguousarray(array).reshape(-1)
    if flat.dtype.itemsize == 2 and flat.dtype.kind not in "iu":
        return flat.view(np.uint16).astype(np.uint32)
    if flat.dtype.kind == "f":
        return flat.view(np.uint32)
    return flat.astype(np.int32 if flat.dtype.kind == "i" else np.uint32).view(np.uint32)


def elements(found: "np.ndarray[Any, Any]", array: "np.ndarray[Any, Any]") -> "np.ndarray[Any, Any]":
    """Return words as elements of an array's type and shape."""
    kind = array.dtype
    if kind.itemsize == 2 and kind.kind not in "iu":
        flat = found.astype(np.uint16).view(kind)
    elif kind.kind == "f":
        flat = found.view(kind)
    else:
        flat = found.view(np.int32 if kind.kind == "i" else np.uint32).astype(kind)
    return flat[:array.size].reshape(array.shape)


def word(value: Any, dtype: DType) -> int:
    """Return the word of a scalar."""
    if dtype.is_float:
        return int(np.float32(value).view(np.uint32))
    return int(value) & 0xFFFFFFFF


def on_wgpu(function: st.Function, args: list[Any]) -> None:
    """Run a function in low "gpu" form, without shuffles, on arrays in place."""
    import wgpu

    program = split(function)
    text = source(program, Wgsl())
    d = device()
    host, bound = HostCode(program), Arguments(signature(function))
    passed, arrays = bound.bind(tuple(args))
    s = bound.signature
    values = {param: value for param, value in zip((*s.params, *s.sizes), passed, strict=True) if isinstance(param, Var)}
    usage = wgpu.BufferUsage.STORAGE | wgpu.BufferUsage.COPY_SRC | wgpu.BufferUsage.COPY_DST
    memory = {}
    for param, array in zip(s.params, arrays, strict=True):
        if isinstance(param, Buffer):
            data = words(array)
            memory[param.data] = d.create_buffer_with_data(data=data if data.size else np.zeros(1, np.uint32), usage=usage)
    for buffer, size in zip(program.workspaces, host.workspaces(values), strict=True):
        memory[buffer.data] = d.create_buffer(size=4 * max(1, size * buffer.dtype.bytes), usage=usage)  # a word a byte
    module = d.create_shader_module(code=text.text) if program.launches else None

    def launch(number: int, grid: tuple[int, int, int], scalars: tuple[Any, ...]) -> None:
        if 0 not in grid:
            _run(d, module, text.kernels[number], program.launches[number], grid, memory, scalars)
    host.run(values, launch, lambda check: AssertionError(check.reason))
    for param, array in zip(s.params, arrays, strict=True):
        if isinstance(param, Buffer) and s.writes(param) and array.size:
            array[...] = elements(np.frombuffer(d.queue.read_buffer(memory[param.data]), np.uint32).copy(), array)


def _run(d: Any, module: Any, name: str, launch: Launch, grid: tuple[int, int, int], memory: Any, scalars: Any) -> None:
    import wgpu

    entries, layout = [], []
    buffers = [param for param in launch.params if isinstance(param, Buffer)]
    for at, param in enumerate(buffers):
        kind = "storage" if param.data in launch.writes else "read-only-storage"
        layout.append({"binding": at, "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": kind}})
        held = memory[param.data]
        entries.append({"binding": at, "resource": {"buffer": held, "offset": 0, "size": held.size}})
    kinds = [param.dtype for param in launch.params if isinstance(param, Var)]
    if kinds:
        data = np.zeros(-(-len(kinds) // 4) * 4, np.uint32)
        data[:len(kinds)] = [word(value, kind) for value, kind in zip(scalars, kinds, strict=True)]
        held = d.create_buffer_with_data(data=data, usage=wgpu.BufferUsage.UNIFORM)
        layout.append({"binding": len(buffers), "visibility": wgpu.ShaderStage.COMPUTE, "buffer": {"type": "uniform"}})
        entries.append({"binding": len(buffers), "resource": {"buffer": held, "offset": 0, "size": held.size}})
    group = d.create_bind_group_layout(entries=layout)
    pipeline = d.create_compute_pipeline(
        layout=d.create_pipeline_layout(bind_group_layouts=[group]), compute={"module": module, "entry_point": name},
    )
    encoder = d.create_command_encoder()
    compute = encoder.begin_compute_pass()
    compute.set_pipeline(pipeline)
    compute.set_bind_group(0, d.create_bind_group(layout=group, entries=entries))
    compute.dispatch_workgroups(*grid)
    compute.end()
    d.queue.submit([encoder.finish()])
