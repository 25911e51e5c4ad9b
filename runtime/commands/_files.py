"""Say in the help of each command that reads files what code in a file can do."""

_MODEL = "Models (.onnx, .pt2) and arrays (.npz) are read as data: no code in them is run."
_MODULE = ("A module file (.vtak) holds machine code, which is run: take those of others with --trusted or --recompile only "
           "(docs/files.md).")
_PROGRAM = "Programs, images and configurations are data: a program reaches the simulated accelerator's memory, and nothing else."

ABOUT = {
    "run": f"{_MODEL} {_MODULE}",
    "report": f"{_MODEL} {_MODULE}",
    "export": f"{_MODEL} A module file (.vtak) holds machine code, which becomes part of the export: take those of others with "
              "--trusted or --recompile only (docs/files.md).",
    "compile": f"{_MODEL} The module that is written holds machine code: who loads it trusts you or your signature (see sign).",
    "decisions": _MODEL,
    "quantize": _MODEL,
    "tune": f"{_MODEL} Records and cost models are JSON: data too.",
    "records": "Records are JSON: no code in them is run.",
    "sim": _PROGRAM,
    "check": _PROGRAM,
    "disasm": _PROGRAM,
    "asm": _PROGRAM,
    "verilog": "Configurations are read as data: no code in them is run.",
    "synth": "Configurations are read as data: no code in them is run.",
}
