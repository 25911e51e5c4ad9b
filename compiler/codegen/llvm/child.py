"""LLVM in a process of its own: a JSON request on standard input, the bytes on standard output.

Run by `vtakit.compiler.codegen.llvm.compile` for targets other than this machine.
"""

import json
import sys

from vtakit.compiler.codegen.llvm.errors import CodegenError
from vtakit.compiler.codegen.llvm.passes import machine_code
from vtakit.compiler.codegen.llvm.target import Target


def main() -> int:
    asked = json.load(sys.stdin)
    try:
        found = machine_code(asked["text"], Target(asked["triple"], asked["cpu"], tuple(asked["features"])), asked["to"])
    except CodegenError as error:
        print(f"CodegenError: {error}", file=sys.stderr)
        return 1
    sys.stdout.buffer.write(found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
