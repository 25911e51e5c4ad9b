"""The file that embeds an exported model's data: assembly with .incbin, or a C array."""

import vtakit
from vtakit.compiler.graph.memory import ALIGN
from vtakit.runtime.crt.layout import WORD_BYTES


def assembly(name: str) -> str:
    """Return the text of NAME_data.S, which includes NAME.bin."""
    return f"""\
/* Parameters, programs and weights of the model {name}: the bytes of {name}.bin. Made by vtakit {vtakit.__version__}.
 * The assembler looks for that file in the folder in which it runs and in those of -I. */
#if defined(__APPLE__) || (defined(_WIN32) && defined(__i386__))
#define DATA _{name}_data
#else
#define DATA {name}_data
#endif

#if defined(__APPLE__)
    .section __TEXT,__const
#elif defined(_WIN32)
    .section .rdata,"dr"
#else
    .section .rodata
#endif
    .balign {ALIGN}
    .globl DATA
#if defined(__ELF__)
    .type DATA, %object
#endif
DATA:
    .incbin "{name}.bin"
#if defined(__ELF__)
    .size DATA, . - DATA
    .section .note.GNU-stack,"",%progbits
#endif
"""


def array(name: str, data: bytes) -> str:
    """Return the text of NAME_data.c, which defines the data as a C array of 64-bit words; `data` is a multiple of 8 bytes."""
    words = [f"0x{int.from_bytes(data[at:at + WORD_BYTES], 'little'):x}u," for at in range(0, len(data), WORD_BYTES)]
    rows = "\n".join(" ".join(words[at:at + 6]) for at in range(0, len(words), 6))
    return f"""\
/* Parameters, programs and weights of the model {name}. Made by vtakit {vtakit.__version__}. */
#include <stdint.h>

#if defined(_MSC_VER)
#define ALIGNED __declspec(align({ALIGN}))
#else
#define ALIGNED __attribute__((aligned({ALIGN})))
#endif

extern const uint64_t {name}_data[{len(words)}];
ALIGNED const uint64_t {name}_data[{len(words)}] = {{
{rows}
}};
"""
