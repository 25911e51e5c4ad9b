"""The C interface of a Verilated model, which harness.h and ctypes declare: the same fields at the same places."""

import ctypes
import subprocess
from pathlib import Path

import pytest

from vtakit.sim.rtl import model

HEADER = Path(model.__file__).with_name("harness.h")
STRUCTURES = {"vta_op": model._COp, "vta_dram": model._CDram, "vta_settings": model._CSettings}


def printed(folder: Path, expressions: list[str]) -> list[int]:
    """What expressions of C are, with the header included."""
    lines = "".join(f'    (void)printf("%lu\\n", (unsigned long)({each}));\n' for each in expressions)
    text = f'#include <stddef.h>\n#include <stdio.h>\n#include "{HEADER}"\n\nint main(void)\n{{\n{lines}    return 0;\n}}\n'
    (folder / "print.c").write_text(text)
    subprocess.run(["gcc", "-std=c99", "print.c", "-o", "print"], cwd=folder, check=True)
    return [int(word) for word in subprocess.run(["./print"], cwd=folder, check=True, capture_output=True).stdout.split()]


@pytest.mark.parametrize("name", STRUCTURES)
def test_structures(tmp_path, name):
    structure = STRUCTURES[name]
    names = [each[0] for each in structure._fields_]
    wanted = [ctypes.sizeof(structure)]
    expressions = [f"sizeof(struct {name})"]
    for field in names:
        place = getattr(structure, field)
        wanted += [place.offset, place.size]
        expressions += [f"offsetof(struct {name}, {field})", f"sizeof(((struct {name} *)0)->{field})"]
    assert printed(tmp_path, expressions) == wanted


def test_numbers(tmp_path):
    names = [f"VTA_{kind.name}" for kind in model.Kind]
    assert printed(tmp_path, names) == [kind.value for kind in model.Kind]
    assert printed(tmp_path, ["VTA_RUNNING", "VTA_ENDED", "VTA_TIMEOUT"]) == [model._RUNNING, model._ENDED, model._TIMEOUT]
    assert printed(tmp_path, ["VTA_PAGE_CROSSED", "VTA_WRONG_LAST", "VTA_UNSTABLE", "VTA_WRONG_BURST"]) == [*model._PROTOCOL]
