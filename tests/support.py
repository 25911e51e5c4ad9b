"""Helpers of several test files: messages of errors, processes to interrupt, strategies over configurations and programs."""

import importlib.util
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

import pytest
from hypothesis import strategies as st

from vtakit.hw.isa.codec import encode
from vtakit.hw.isa.config import NAMED, VTAConfig
from vtakit.hw.isa.formats import Field, Format, Kind, Placed
from vtakit.hw.isa.insns import FORMATS, OPCODE, TRANSFERS, Opcode
from vtakit.hw.isa.program import UOPS, Buffer, BufferKind, Part, Program, Relocation

EXAMPLES = Path(__file__).parents[1] / "examples"
ANY = " … "  # in the text of a message that a test expects: any words of the same line stand there
_WORDS = r"(?!\w|\.\d).*(?<![\w.-])"  # from the end of a word or number to the beginning of one


@contextmanager
def raises(error: type[Exception], message: str) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect exactly `error`, with a message that `says` finds to be `message`."""
    with pytest.raises(error) as caught:
        yield caught
    assert says(str(caught.value), message), f"the message is {str(caught.value)!r}, not {message!r}"
    assert type(caught.value) is error


def says(text: str, wanted: str) -> bool:
    """Return whether `text` is `wanted`, in which ` … ` stands for any words.

    "buffer 'a' has 64 bytes but 63 bytes of data" says "buffer 'a' … 64 bytes … 63 …": the parts occur in this order, in one
    line. Each part is whole words and numbers: 63 is neither 163 nor -63 nor 63.5. The first part begins the message and the
    last part ends it, unless ``…`` stands before or after them. A test names the rule, the culprit (name and value) and the
    cure; the words between them stay cheap to improve.
    """
    parts = f" {wanted} ".split(ANY)
    return re.fullmatch(_WORDS.join(map(re.escape, parts)), f" {text} ") is not None


def module(name: str) -> ModuleType:
    """An example, imported."""
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


def interruptible(*words: str, **options: object) -> subprocess.Popen[str]:
    """Python with these arguments, in a session of its own. It hears signals even where we do not, as under `nohup` or in CI."""
    def hear() -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
    return subprocess.Popen([sys.executable, *words], text=True, start_new_session=True, preexec_fn=hear, **options)


def runs(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_for(what: Callable[[], bool], seconds: float = 60) -> None:
    """Wait until something holds; a loaded machine takes its time."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, f"it has not come about within {seconds} s"
        time.sleep(0.02)


def _shapes() -> list[tuple[int, int, int, int, int]]:
    """Every (inp width, wgt width, acc width, batch, block) whose elements have 1 to 4096 bytes."""
    return [
        (inp, wgt, acc, batch, block)
        for inp in range(5) for wgt in range(5) for acc in range(max(3, inp), 6) for batch in range(9) for block in range(8)
        if all(3 <= bits <= 15 for bits in (batch + block + inp, 2 * block + wgt, batch + block + acc))
    ]


SHAPES = _shapes()


@st.composite
def random_configs(draw: st.DrawFn) -> VTAConfig:
    """A legal configuration: any shape, and depths up to each of the bounds of ISA.md section 1."""
    inp_width, wgt_width, acc_width, batch, block = draw(st.sampled_from(SHAPES))
    uop = draw(st.integers(1, 13))
    acc = draw(st.integers(1, 11))
    inp = draw(st.integers(1, 16))
    wgt = draw(st.integers(1, min(16, 32 - acc - max(acc, inp))))
    return VTAConfig(
        log_inp_width=inp_width, log_wgt_width=wgt_width, log_acc_width=acc_width, log_batch=batch, log_block=block,
        log_uop_buff_size=uop + 2,
        log_inp_buff_size=inp + batch + block + inp_width - 3,
        log_wgt_buff_size=wgt + 2 * block + wgt_width - 3,
        log_acc_buff_size=acc + batch + block + acc_width - 3,
    )


def configs() -> st.SearchStrategy[VTAConfig]:
    """The named configurations and any other legal one."""
    return st.sampled_from(list(NAMED.values())) | random_configs()


def field_values(placed: Placed) -> st.SearchStrategy[int]:
    """Every value that a field can hold, its extremes often; of a list, its members."""
    if placed.field.members is not None:
        return st.sampled_from([int(member) for member in placed.field.members])
    return st.sampled_from([placed.low, placed.high]) | st.integers(placed.low, placed.high)


@st.composite
def fields_of(draw: st.DrawFn, fmt: Format, cfg: VTAConfig) -> dict[str, int]:
    """A value for every field of a format but the opcode."""
    return {p.field.name: draw(field_values(p)) for p in fmt.place(cfg) if p.field is not OPCODE}


@st.composite
def instructions(draw: st.DrawFn, cfg: VTAConfig | None = None) -> tuple[VTAConfig, Opcode, dict[str, int]]:
    """(configuration, opcode, the value of every field but the opcode)."""
    chosen = draw(configs()) if cfg is None else cfg
    op = draw(st.sampled_from(Opcode))
    return chosen, op, draw(fields_of(FORMATS[op], chosen))


@st.composite
def buffers(draw: st.DrawFn) -> Buffer:
    """A buffer of any kind, with data or without."""
    kind = draw(st.sampled_from(BufferKind))
    data = draw(st.binary(max_size=100) if kind is BufferKind.CONST else st.none() | st.binary(max_size=100))
    size = draw(st.integers(0, 1 << 50)) if data is None else len(data)
    name = draw(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,12}", fullmatch=True) | st.text(max_size=4).filter(str.isidentifier))
    return Buffer(name=name if name != UOPS else "uops_", size_bytes=size, kind=kind, data=data)


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Any legal program of a few instructions, some of them words that are none: it need not run."""
    cfg = draw(configs())
    some = draw(st.lists(buffers(), max_size=4, unique_by=lambda buffer: buffer.name))
    insns: list[int] = []
    relocations: list[Relocation] = []
    for index in range(draw(st.integers(0, 6))):
        if draw(st.integers(0, 9)) == 0:
            insns.append(draw(st.integers(0, (1 << 128) - 1)))
            continue
        _, op, values = draw(instructions(cfg))
        insns.append(encode(cfg, FORMATS[op].name, **values))
        if op in TRANSFERS and draw(st.booleans()):
            symbol = draw(st.sampled_from([UOPS, *(buffer.name for buffer in some)]))
            shared = any(buffer.name == symbol and buffer.kind is BufferKind.SCRATCH for buffer in some)
            relocations.append(Relocation(index, symbol, draw(st.sampled_from(["", "a", "conv_1", "ä"])) if shared else ""))
    uops = draw(st.lists(st.integers(0, (1 << 32) - 1), max_size=4))
    names = draw(st.lists(st.from_regex(r"[!-:<-~äλ]{1,12}", fullmatch=True), max_size=3, unique=True))
    ends = sorted(draw(st.lists(st.integers(0, len(insns)), min_size=len(names), max_size=len(names))))
    parts = [Part(name, end) for name, end in zip(names, [*ends[:-1], len(insns)], strict=False)]
    return Program(config=cfg, insns=tuple(insns), uops=tuple(uops), buffers=tuple(some), relocations=tuple(relocations),
                   parts=tuple(parts))


def flag_names(fields: tuple[Field, ...]) -> list[str]:
    """The names of the one-bit fields that stand as bare words in assembly text."""
    return [field.name for field in fields if field.kind is Kind.FLAG]
