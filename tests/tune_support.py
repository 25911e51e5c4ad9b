"""A template whose candidates fail in every way, for tests of measurement."""

import signal

from vtakit import te, tune
from vtakit.runtime.tune.crew import Limits

N = 64
QUICK = Limits(compile_s=60, run_s=3, memory_bytes=1 << 30)


def call_python(A):
    def body(ins, outs):
        return te.call_packed("a_function_of_python", ins[0].access_ptr("r"), outs[0].access_ptr("w"))
    return te.extern((N,), [A], body, name="B")


@tune.template
def faulty(cfg, kinds=("right", "wrong", "crash", "hang", "memory", "beside", "input", "late", "check", "illegal", "python")):
    """B = A + 1, or something else."""
    kind = cfg.define_knob("kind", list(kinds)).val
    cfg.define_knob("number", [*range(20)])
    A = te.placeholder((N,), name="A")

    def call(*args):
        return te.extern((N,), [A], lambda ins, outs: te.call_extern("int32", *[each(ins, outs) for each in args]), name="B")
    cfg.require(kind != "illegal", "this combination is not legal")
    if kind == "crash":
        B = call(lambda i, o: "raise", lambda i, o: int(signal.SIGSEGV), lambda i, o: o[0].access_ptr("w"))
    elif kind == "hang":
        B = call(lambda i, o: "sleep", lambda i, o: 1000, lambda i, o: o[0].access_ptr("w"))
    elif kind == "beside":
        B = call(lambda i, o: "memset", lambda i, o: o[0].access_ptr("w"), lambda i, o: 0,
                 lambda i, o: te.const(4 * N + 4, "int64"))
    elif kind == "input":
        B = call(lambda i, o: "memset", lambda i, o: i[0].access_ptr("r"), lambda i, o: 0, lambda i, o: te.const(4 * N, "int64"),
                 lambda i, o: o[0].access_ptr("w"))
    elif kind == "late":
        B = call(lambda i, o: "a_function_that_nobody_has", lambda i, o: o[0].access_ptr("w"))
    elif kind == "python":
        B = call_python(A)
    elif kind == "memory":
        large = te.compute((1 << 29,), lambda i: A[i % N].astype("float64"), name="large")
        B = te.compute((N,), lambda i: large[i << 22].astype("float32"), name="B")
    else:
        B = te.compute((N,), lambda i: A[i] + (2.0 if kind == "wrong" else 1.0), name="B")
    return te.create_schedule(B.op), [A, B]
