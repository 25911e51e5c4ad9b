"""Sizes of a call: 0 in every schedule, and what a function requires of them before it touches memory."""

import numpy as np
import pytest

from vtakit import build, te
from vtakit.compiler.lower import LowerError, VerifyError, lower, verify
from vtakit.compiler.lower.interpreter import ArgumentError as InterpretedArgumentError
from vtakit.compiler.lower.interpreter import interpret
from vtakit.runtime.cpu.arguments import ArgumentError

L, M, N = te.size_var("l"), te.size_var("m"), te.size_var("n")


def zeros(*shape):
    return np.zeros(shape, "float32")


def ways(schedule, args):
    """The program run by the interpreter and as machine code, with what a refused call raises."""
    low = lower(schedule, args)
    compiled = build(schedule, args)
    return (lambda *a: interpret(low, a), InterpretedArgumentError), (compiled, ArgumentError)


def check(schedule, args, inputs, want):
    """Both ways give `want` in an array of garbage."""
    for way, _ in ways(schedule, args):
        out = np.full(np.shape(want), np.nan, "float32")
        way(*inputs, out)
        np.testing.assert_array_equal(out, want)


def sums(m, n):
    a, k = te.placeholder((m, n), name="A"), te.reduce_axis((0, n), name="k")
    c = te.compute((m,), lambda i: te.sum(a[i, k], axis=k), name="C")
    return a, k, c, te.create_schedule(c.op)


def fused(s, c, k):
    s[c].fuse(c.op.axis[0], k)


def fused_with_a_part(s, c, k):
    outer, _ = s[c].split(k, 4)
    s[c].fuse(c.op.axis[0], outer)


def fused_the_other_way(s, c, k):
    outer, inner = s[c].split(k, 4)
    s[c].reorder(outer, c.op.axis[0], inner)
    s[c].fuse(outer, c.op.axis[0])


def fused_and_split(s, c, k):
    _, inner = s[c].split(c.op.axis[0], 4)
    s[c].split(s[c].fuse(inner, k), 3)


def factored(s, c, k):
    made = s.rfactor(c, k)
    s[made].fuse(*s[made].op.axis)
    s[c].fuse(s[c].op.axis[0], s[c].op.reduce_axis[0])


@pytest.mark.parametrize("sizes", [(3, 0), (0, 3), (0, 0), (5, 7)])
@pytest.mark.parametrize("symbolic", [True, False])
@pytest.mark.parametrize("how", [fused, fused_with_a_part, fused_the_other_way, fused_and_split, factored])
def test_statement_13_data_and_terms_in_one_loop_for_sizes_of_0(how, symbolic, sizes):
    a, k, c, s = sums(M, L) if symbolic else sums(*sizes)
    how(s, c, k)
    x = np.random.default_rng(0).integers(-9, 9, sizes).astype("float32")
    check(s, [a, c], [x], x.sum(1))


@pytest.mark.parametrize("first", [0, 1], ids=["the outer two first", "the inner two first"])
@pytest.mark.parametrize("terms", [lambda n: 2, lambda n: n, lambda n: n + 1], ids=["2", "n", "n + 1"])
@pytest.mark.parametrize("columns", [lambda n: n, lambda n: n + 1, lambda n: n * 2, lambda n: 5])
def test_three_loops_fused_two_and_two(columns, terms, first):
    """The one loop that both orders come to; a size that is an expression stands in the quotients."""
    a = te.placeholder((N,), name="A")
    k = te.reduce_axis((0, terms(N)), "k")
    c = te.compute((M, columns(N)), lambda i, j: te.sum(a[0] + (i * 100 + j * 10 + k).astype("float32"), axis=k), name="C")
    s = te.create_schedule(c.op)
    i, j = c.op.axis
    if first:
        s[c].fuse(i, s[c].fuse(j, k))
    else:
        s[c].fuse(s[c].fuse(i, j), k)
    rows, n = 3, 4
    at = np.arange(terms(n))
    want = [[(7 + i * 100 + j * 10 + at).sum() for j in range(columns(n))] for i in range(rows)]
    check(s, [a, c], [np.full(n, 7, "float32")], np.array(want, "float32"))


@pytest.mark.parametrize("parts", [2, 3])
@pytest.mark.parametrize("cached", [True, False])
def test_a_number_of_parts_fused_with_the_rows(parts, cached):
    """The steps of the fused loop are as long as a part, which is a sum with a size in it."""
    a = te.placeholder((M, N), name="A")
    c = te.compute((M, N + 1), lambda i, j: te.if_then_else(j < N, a[i, j] * 2, 1.0), name="C")
    s = te.create_schedule(c.op)
    stage = s[s.cache_write(c, "local") if cached else c]
    i, j = stage.op.axis
    outer, _ = stage.split(j, nparts=parts)
    stage.fuse(i, outer)
    for rows, columns in ((3, 5), (2, 2), (0, 3), (4, 0)):
        x = np.arange(rows * columns, dtype="float32").reshape(rows, columns)
        check(s, [a, c], [x], np.pad(x * 2, [(0, 0), (0, 1)], constant_values=1))


def test_a_triangle_s_rows_and_terms_fused_within_a_part_of_them():
    """The greatest length of a part's terms is the lesser of two sizes: at least 1 where it runs, and a divisor."""
    a = te.placeholder((N, N), name="A")

    def terms(i, j):
        k = te.reduce_axis((0, te.min(j + 1, 1 + i)), "k")
        return te.max(a[i, k], axis=k)
    b = te.compute((N, N), terms, name="B")
    c = te.compute((N, N), lambda i, j: b[N - 1 - i, j] + j, name="C")
    s = te.create_schedule(c.op)
    outer, _ = s[c].split(c.op.axis[1], 4)
    s[b].fuse(b.op.axis[1], b.op.reduce_axis[0])
    s[b].compute_at(s[c], outer)
    for n in (1, 3, 6):
        x = np.random.default_rng(n).integers(-9, 9, (n, n)).astype("float32")
        want = [[x[n - 1 - i, :min(j, n - 1 - i) + 1].max() + j for j in range(n)] for i in range(n)]
        check(s, [a, c], [x], np.array(want, "float32"))


@pytest.mark.parametrize(("channels", "tag"), [(0, "blockIdx.y"), (0, "threadIdx.x"), (3, "threadIdx.x")])
def test_a_kernel_in_which_a_stage_has_no_threads(channels, tag):
    """Others of the kernel still run: with no channels the sums are 0, and are stored."""
    a = te.placeholder((4, channels), name="A")
    p = te.compute((4, channels), lambda i, c: a[i, c] + 1, name="P")
    k = te.reduce_axis((0, channels), "k")
    sums = te.compute((4,), lambda i: te.sum(p[i, k], axis=k), name="sums")
    d = te.compute((4,), lambda i: sums[i] * 2, name="D")
    s = te.create_schedule(d.op)
    i, = d.op.axis
    s[p].bind(p.op.axis[1], te.thread_axis(tag))
    s[p].set_scope("global" if tag == "blockIdx.y" else "shared")
    s[p].compute_at(s[sums], sums.op.axis[0])
    s[sums].compute_at(s[d], i)
    x = np.arange(4 * channels, dtype="float32").reshape(4, channels)
    out = np.full(4, np.nan, "float32")
    interpret(lower(s, [a, d]), [x, out])
    np.testing.assert_array_equal(out, (x + 1).sum(1) * 2)


def test_a_reduction_of_no_terms_across_threads_is_refused():
    """It has no thread that could store the results."""
    _, k, c, s = sums(4, 0)
    s[c].bind(k, te.thread_axis("threadIdx.x"))
    with pytest.raises(LowerError) as error:
        lower(s, [c.op.input_tensors[0], c])
    assert str(error.value) == """\
thread reductions: k has no terms, so that no thread would run and store the result of C

      # C, an output
      for i in range(4):
-->       for k in bind[threadIdx.x](0):  # reduce
              C[i] = sum(A[i, k], axis=[k])

hint: reduce it in one thread, or split it and bind the part of constant length"""


def test_first_results_are_set_once():
    a, k, c, s = sums(M, L)
    fused(s, c, k)
    assert str(lower(s, [a, c])) == """\
def main(A: float32[m, l], C: float32[m]):
    for i_init in range(m):
        block C_init(vi = i_init):
            C[vi] = 0.0
    for i_k_fused in range(m * l):
        block C(vi_1 = i_k_fused // l, vk = i_k_fused % l):
            C[vi_1] = C[vi_1] + A[vi_1, vk]"""


@pytest.mark.parametrize("shape", [(0, 4), (4, 0), (0, 0)])
@pytest.mark.parametrize("attached", [None, 0, 1])
def test_a_fused_loop_without_iterations(shape, attached):
    a = te.placeholder(shape, name="A")
    b = te.compute(shape, lambda i, j: a[i, j] + 1, name="B")
    c = te.compute(shape, lambda i, j: b[i, j] * 2, name="C")
    s = te.create_schedule(c.op)
    parts = s[c].split(s[c].fuse(*c.op.axis), 3)
    s[b].fuse(*b.op.axis)
    if attached is not None:
        s[b].compute_at(s[c], parts[attached])
    check(s, [a, c], [zeros(*shape)], zeros(*shape))


# -- what a function requires --------------------------------------------------------------------------------------------

def refuses(schedule, args, inputs, message):
    for way, error in ways(schedule, args):
        with pytest.raises(error) as raised:
            way(*inputs)
        assert str(raised.value).splitlines()[0] == message


@pytest.mark.parametrize("split", [None, 3])
def test_sizes_that_the_user_has_for_one(split):
    a, b = te.placeholder((N,), name="A"), te.placeholder((M,), name="B")
    c = te.compute((N,), lambda i: a[i] + b[i], name="C")
    s = te.create_schedule(c.op)
    if split:
        s[c].split(c.op.axis[0], split)
    assert str(lower(s, [a, b, c])).startswith("def main(A: float32[n], B: float32[m], C: float32[n]) where n <= m:\n")
    for n, m in ((5, 5), (5, 6), (0, 0)):
        check(s, [a, b, c], [zeros(n), zeros(m)], zeros(n))
    refuses(s, [a, b, c], [zeros(5), zeros(1), zeros(5)], "main needs n <= m, since index 0 of B[vi] takes the value n - 1, "
            "and B has m elements there; here m = 1 and n = 5")


def test_sizes_that_an_intermediate_has():
    """What is read of a stage is required to be there as well as what is read of an input."""
    a = te.placeholder((N,), name="A")
    b = te.compute((N,), lambda i: a[i] * 2, name="B")
    c = te.compute((M,), lambda i: b[i], name="C")
    s = te.create_schedule(c.op)
    for n, m in ((5, 5), (6, 5), (0, 0)):
        check(s, [a, c], [np.ones(n, "float32")], np.full(m, 2, "float32"))
    refuses(s, [a, c], [zeros(2), zeros(3)], "main needs m <= n, since index 0 of B[vi] takes the value m - 1, and B has n "
            "elements there; here m = 3 and n = 2")


def test_an_index_that_takes_a_loop_times_a_size():
    a = te.placeholder((N,), name="A")
    c = te.compute((M, L), lambda i, j: a[i * L + j], name="C")
    s = te.create_schedule(c.op)
    for n, m, length in ((6, 2, 3), (7, 2, 3), (0, 0, 3), (0, 3, 0)):
        x = np.arange(n, dtype="float32")
        check(s, [a, c], [x], x[:m * length].reshape(m, length))
    refuses(s, [a, c], [zeros(5), zeros(2, 3)], "main needs m * l <= n, since index 0 of A[vi * l + vj] takes the value m * l - "
            "1, and A has n elements there; here l = 3 and m = 2 and n = 5")


def test_what_does_not_run_reads_nothing():
    """With p = 0 no element of B is read, however many there are."""
    p = te.size_var("p")
    b = te.placeholder((M,), name="B")
    c = te.compute((N, p), lambda i, j: b[i] + j, name="C")
    s = te.create_schedule(c.op)
    check(s, [b, c], [zeros(1)], zeros(5, 0))
    refuses(s, [b, c], [zeros(1), zeros(5, 1)], "main needs n <= m or p < 1, since index 0 of B[vi] takes the value n - 1, and "
            "B has m elements there; here m = 1 and n = 5 and p = 1")


def test_the_header_of_a_library_says_what_is_checked():
    a, b = te.placeholder((N,), name="A"), te.placeholder((M,), name="B")
    c = te.compute((N,), lambda i: a[i] + b[i], name="C")
    header = build(te.create_schedule(c.op), [a, b, c], name="add").compiled.header
    assert "1 if not: n <= m, since index 0 of B[vi] takes the value n - 1, and B has m elements there." in header


def test_one_variable_for_equal_sizes_requires_nothing():
    a, b = te.placeholder((N,), name="A"), te.placeholder((N,), name="B")
    c = te.compute((N,), lambda i: a[i] + b[i], name="C")
    assert lower(te.create_schedule(c.op), [a, b, c]).requires == ()


def test_the_verifier_wants_the_requirement():
    a, b = te.placeholder((N,), name="A"), te.placeholder((M,), name="B")
    c = te.compute((N,), lambda i: a[i] + b[i], name="C")
    made = lower(te.create_schedule(c.op), [a, b, c])
    verify(made)
    with pytest.raises(VerifyError, match=r"^inside: index 0 of B\[vi\] takes the value n - 1, and B has m elements there, and "
                                          r"the function does not require n <= m\n"):
        verify(made._replace(requires=()))


def test_a_read_that_is_outside_whenever_it_runs_is_refused():
    a = te.placeholder((N,), name="A")
    c = te.compute((N,), lambda i: a[i - 1], name="C")
    with pytest.raises(VerifyError, match=r"^inside: index 0 of A\[vi - 1\] takes the value -1, and A has n elements there\n"):
        lower(te.create_schedule(c.op), [a, c])


def test_extents_are_not_negative():
    a, k = te.placeholder((N,), name="A"), te.reduce_axis((0, N - 2), name="k")
    b = te.compute((N - 2,), lambda i: a[i] + a[i + 2], name="B")
    c = te.compute((1,), lambda i: te.sum(b[k], axis=k), name="C")
    s = te.create_schedule(c.op)
    check(s, [a, c], [zeros(2)], zeros(1))
    check(s, [a, c], [np.ones(5, "float32")], np.full(1, 6, "float32"))
    refuses(s, [a, c], [zeros(1), zeros(1)], "main needs 2 <= n, since B is float32[n - 2]; here n = 1")


def test_an_argument_whose_extent_is_negative():
    a = te.placeholder((N,), name="A")
    c = te.compute((N - 2,), lambda i: a[i], name="C")
    with pytest.raises(ArgumentError, match=r"^argument C of main: float32\[n - 2\] with n = 1 has a negative extent$"):
        build(te.create_schedule(c.op), [a, c])(zeros(1), zeros(0))


# -- scans ---------------------------------------------------------------------------------------------------------------

def scan(rows, first, columns):
    """Sums down the columns, with the rows below `first` all 7."""
    x, state = te.placeholder((rows, columns), name="X"), te.placeholder((rows, columns), name="state")
    init = te.compute((first, columns), lambda t, i: te.const(7.0), name="init")
    update = te.compute((rows, columns), lambda t, i: state[t - 1, i] + x[t, i], name="update")
    return x, te.scan(init, update, state, [x], name="down")


@pytest.mark.parametrize("first", [1, 2])
def test_a_scan_has_its_first_rows(first):
    x, down = scan(M, first, N)
    s = te.create_schedule(down.op)
    for rows in range(first):
        around = np.zeros((first + 1, 5), "float32")
        refuses(s, [x, down], [zeros(rows, 5), around[:rows]],
                f"main needs {first} <= m, since down starts from {first} of its m rows; here m = {rows}")
        assert not around.any()
    check(s, [x, down], [zeros(first, 5)], np.full((first, 5), 7, "float32"))


def test_first_rows_of_symbolic_number():
    x, down = scan(M, L, N)
    s = te.create_schedule(down.op)
    check(s, [L, x, down], [2, np.ones((3, 2), "float32")], np.array([[7, 7], [7, 7], [8, 8]], "float32"))
    for rows, first, needs in ((1, 2, "l <= m"), (1, 0, "1 <= l")):
        here = f"l = {first} and m = {rows}" if "m" in needs else f"l = {first}"
        refuses(s, [L, x, down], [first, zeros(rows, 2), zeros(rows, 2)],
                f"main needs {needs}, since down starts from l of its m rows; here {here}")


@pytest.mark.parametrize("columns", [3, N])
def test_a_scan_whose_first_rows_are_all(columns):
    x, down = scan(2, 2, columns)
    check(te.create_schedule(down.op), [x, down], [zeros(2, 3)], np.full((2, 3), 7, "float32"))


@pytest.mark.parametrize("rows", [5, M])
@pytest.mark.parametrize("first", [1, 2])
def test_all_rows_of_a_scan_are_read(rows, first):
    x, down = scan(rows, first, 2)
    y = te.compute((rows, 2), lambda t, i: down[t, i] * x[t, i], name="Y")
    array = np.random.default_rng(0).integers(-9, 9, (5, 2)).astype("float32")
    want = np.full((5, 2), 7, "float32")
    want[first:] += array[first:].cumsum(0)
    check(te.create_schedule(y.op), [x, y], [array], want * array)


def test_a_scan_and_its_first_rows_stand_together():
    x, down = scan(4, 1, N)
    y = te.compute((4, N), lambda t, i: down[t, i] + 1, name="Y")
    s = te.create_schedule(y.op)
    s[down].compute_at(s[y], y.op.axis[0])
    s[down.op.init[0]].compute_at(s[y], y.op.axis[0])
    check(s, [x, y], [zeros(4, 3)], np.full((4, 3), 8, "float32"))
