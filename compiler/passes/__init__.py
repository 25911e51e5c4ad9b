"""Late passes: from loops with blocks to the low form that code is made from.

`lower_late` runs them all; `vtakit.compiler.passes.pipeline` names each step, docs/compiler_ir.md shows what each does.
`vtakit.compiler.passes.legal.check` tells whether a function is legal, or in the low form. The low form, which codegen takes:

- Statements are Seq, For, While, If, LetStmt, Allocate, Store, Evaluate and Attr; there is no Block. An Attr whose key
  codegen does not know is to be passed over.
- Loops are SERIAL, PARALLEL, or (for a GPU) THREAD with blockIdx or threadIdx tags, each tag once on a path. ``For.notes``
  may hold pragmas that no pass knew.
- Every buffer that is read or written has one dimension, stride 1, offset 0 and a scalar dtype: each Load and Store has one
  index, counted in elements. It is int32, or int64 where the memory may have 2**31 elements or more (symbolic sizes).
- `Function.params` are as they were, so that argument checks and symbolic sizes see shapes and strides. The body names a
  parameter's memory by a flat buffer that has the **same `data` variable** (``flat.data is param.data``): look memory up by
  `buffer.data`, never by the buffer object. Its index already includes strides and `offset`.
- Two flat buffers with the same `data` and different dtypes are views of one allocation (memory reused for another type);
  only one of them is an Allocate's. Each starts at the allocation's first byte.
- On a GPU also ``Store(…, shuffle_down(value, distance, width))`` and ``shuffle(value, lane, width)``, calls of kind "effect"
  that stand alone as a Store's value; and ``sync("shared")``.
- Vectors: a Load or Store with a vector index, a Ramp (stride 1: contiguous) or any other vector of integers (a gather or
  scatter); the value of a Store has as many lanes as its index. There are no masks: lane-dependent conditions were
  serialised. Select may have a vector condition, and conditions of vectors are combined by
  BitAnd and BitOr of bools; And, Or, IfThenElse and conditions of If are scalar.
- ``address_of(load, offset, mask)``: `load` has one flat index and `offset` is 0; but among the arguments of
  ``call_packed`` it is the buffer as it was declared, with zero indices, so that the called function gets its shape.
- Select evaluates both sides, and both are safe to evaluate.
- Allocate has constant size for scopes other than "global"; its elements are undefined at first.
"""

from vtakit.compiler.passes.base import Pass, PassError
from vtakit.compiler.passes.pipeline import late_passes, lower_late

__all__ = ["Pass", "PassError", "late_passes", "lower_late"]
