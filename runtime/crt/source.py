"""The C source of an exported model, NAME.c, which runs its parts in order."""

from collections.abc import Sequence

import vtakit
from vtakit.compiler.codegen.llvm.signature import c_names
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.compile import Layer
from vtakit.compiler.graph.memory import ALIGN
from vtakit.hw.isa.regs import pack_config
from vtakit.runtime.cpu.engine import processor
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.crt.c_text import c_string, comment
from vtakit.runtime.crt.header import argument_names, init_parameters, parameters, run_parameters
from vtakit.runtime.crt.layout import WORD_BYTES, Device, Launch, Layout
from vtakit.runtime.target import Image

_MACROS = {"x86_64": "__x86_64__", "aarch64": "__aarch64__", "riscv64": "__riscv"}  # predefined by GCC and Clang
_MOST_NAMES = 6  # of layers that a comment lists


def source(image: Image, layout: Layout) -> str:
    """Return the text of NAME.c."""
    name = image.name
    return f"""\
/* The parts of the model {name}, in order; see {name}.h. Made by vtakit {vtakit.__version__}. */
#include "{name}.h"

{_machine_check(image, layout)}
extern const uint64_t {name}_data[{len(layout.data) // WORD_BYTES}]; /* parameters, programs and weights */

{_prototypes(image)}{_tensors(f"{name}_inputs", image.inputs)}
{_tensors(f"{name}_outputs", image.outputs)}
{_device_tables(name, layout.device) if layout.device else ""}{_init(image, layout)}
{_run(image, layout)}
{_close(image, layout)}"""


def _machine_check(image: Image, layout: Layout) -> str:
    """Return preprocessor lines that reject machines other than the one of the export."""
    arch = processor(image.target).arch
    macro = _MACROS.get(arch) or ("__arm__" if arch.startswith(("arm", "thumb")) else "")
    check = f"""\
#if (defined(__GNUC__) || defined(__clang__)) && !defined({macro})
#error "the parts on the processor are machine code for {arch}: export the model for this machine"
#endif
""" if macro and image.parts_of(CpuPart) else ""
    return f"""\
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "weights and programs are little-endian, and this machine is not"
#endif
#if {max(layout.host.size, len(layout.data))}u > SIZE_MAX
#error "the model needs more memory than this machine addresses"
#endif
{check}"""


def _prototypes(image: Image) -> str:
    """Return declarations of the functions in the object files."""
    lines = []
    for part in image.parts_of(CpuPart):
        inputs, outputs = [image.values[at] for at in part.reads], [image.values[at] for at in part.writes]
        names = c_names([*(f"in{at}" for at in range(len(inputs))), *(f"out{at}" for at in range(len(outputs)))])
        listed = ", ".join([*parameters(names, inputs, outputs), "const void *params", "void *arena"])
        lines.append(f"int32_t {part.name}({listed});\n")
    return "".join([*lines, "\n"]) if lines else ""


def _tensors(table: str, ports: Sequence[Port]) -> str:
    """Return a table of inputs or outputs, with a row of nulls if there are none: C has no empty arrays."""
    shapes, rows = "", ""
    for at, port in enumerate(ports):
        shape = f"{table}_{at}" if port.shape else "NULL"
        if port.shape:
            shapes += f"static const uint64_t {shape}[] = {{{', '.join(map(str, port.shape))}}};\n"
        rows += f"    {{{c_string(port.name)}, {c_string(str(port.dtype))}, {len(port.shape)}, {shape}, {port.bytes}}},\n"
    rows = rows or "    {NULL, NULL, 0, NULL, 0},\n"
    return f"{shapes}const struct vtakit_tensor {table}[{max(len(ports), 1)}] = {{\n{rows}}};\n"


def _device_tables(name: str, device: Device) -> str:
    """Return the tables of uploads, of the requirements on the device, and of launches."""
    uploads = "".join(f"    {{{each.to}u, {each.source}u, {each.size}u}},\n" for each in device.uploads)
    launches = "".join(f"    {{{each.insns}u, {len(each.part.program.insns)}u}},\n" for each in device.launches)
    major, minor = device.isa_version
    needs = f"{major}u, {minor}u, 0x{int(device.features):x}u, 0x{pack_config(device.config):x}u, {device.size}u"
    return f"""\
static const struct vtakit_upload {name}_uploads[] = {{
{uploads}}};

static const struct vtakit_needs {name}_needs = {{
    {needs}, {name}_uploads, sizeof {name}_uploads / sizeof *{name}_uploads,
}};

static const struct vtakit_launch {name}_launches[] = {{
{launches}}};

"""


def _init(image: Image, layout: Layout) -> str:
    name, on_device = image.name, layout.device is not None
    load = f"""\
    if (vtakit_load(device, &model->error, &{name}_needs, (const unsigned char *){name}_data, &model->address)) {{
        return model->error.status;
    }}
    model->device = device;
""" if on_device else ""
    sentence = f"{name}_init needs {'a device and ' if on_device else ''}a workspace that is aligned to {ALIGN} bytes"
    return f"""\
int {name}_init({init_parameters(image, layout)})
{{
    static const struct {name} closed;

    if (!model) {{
        return VTAKIT_MISUSE;
    }}
    *model = closed;
    if ({'!device || ' if on_device else ''}!workspace || (uintptr_t)workspace % {ALIGN}u) {{
        return vtakit_fail(&model->error, VTAKIT_MISUSE, {c_string(sentence)}, 0, 0, 0);
    }}
{load}    model->workspace = workspace;
    return VTAKIT_OK;
}}
"""


def _run(image: Image, layout: Layout) -> str:
    name, names = image.name, argument_names(image)
    values = [*names, *(f"(void *)(work + {layout.host.between[at]})" for at in range(len(names), len(image.values)))]
    launches = iter(enumerate(layout.device.launches if layout.device else ()))
    steps = "".join(
        _call(part, layout, values) if isinstance(part, CpuPart) else _launched(*next(launches), image, values)
        for part in image.parts
    )
    sentence = f"{name}_run needs a model that is open, and an array for each input and output"
    native = f"""\
    const unsigned char *const data = (const unsigned char *){name}_data;
    int32_t status;
""" if image.parts_of(CpuPart) else ""
    return f"""\
int {name}_run({', '.join([f'struct {name} *model', *run_parameters(image)])})
{{
    struct vtakit_error *error;
    unsigned char *work;
{native}
    if (!model) {{
        return VTAKIT_MISUSE;
    }}
    error = &model->error;
    work = model->workspace;
    if (!work{''.join(f' || !{each}' for each in names)}) {{
        return vtakit_fail(error, VTAKIT_MISUSE, {c_string(sentence)}, 0, 0, 0);
    }}
    (void)vtakit_fail(error, VTAKIT_OK, "", 0, 0, 0);
{steps}    return VTAKIT_OK;
}}
"""


def _call(part: CpuPart, layout: Layout, values: Sequence[str]) -> str:
    """Return statements that run a part on the processor."""
    arguments = [values[at] for at in (*part.reads, *part.writes)]
    arguments += [f"data + {layout.params[part]}", f"work + {layout.host.arenas[part]}"]
    listed = "".join(f"            {c_string(text)},\n" for text in part.messages)
    table = f"        static const char *const messages[] = {{\n{listed}        }};\n\n" if listed else ""
    messages = "messages, sizeof messages / sizeof *messages" if listed else "NULL, 0"
    return f"""
    /* On the processor{_names(part.layers)}. */
    status = {part.name}({', '.join(arguments)});
    if (status) {{
{table}        return vtakit_cpu_failed(error, status, {messages});
    }}
"""


def _launched(number: int, launch: Launch, image: Image, values: Sequence[str]) -> str:
    """Return statements that copy inputs to the accelerator, launch, wait, and copy outputs back."""
    part = launch.part

    def copies(word: str, names: tuple[str, ...], numbers: tuple[int, ...]) -> list[str]:
        return [f"vtakit_{word}(model->device, error, model->address + {launch.addresses[name]}u, {values[at]}, "
                f"{image.values[at].bytes})" for name, at in zip(names, numbers, strict=True)]

    run = (f"vtakit_run(model->device, error, &{image.name}_needs, model->address, &{image.name}_launches[{number}], {number}, "
           f"&model->cycles[{number}])")
    steps = [*copies("send", part.inputs, part.reads), run, *copies("receive", part.outputs, part.writes)]
    joined = " ||\n        ".join(steps)
    return f"""
    /* Launch {number}{_names(part.layers)}. */
    if ({joined}) {{
        return error->status;
    }}
"""


def _names(layers: Sequence[Layer]) -> str:
    """Return names of layers for a comment: all, or the first and last ones."""
    names = [comment(layer.names[0]) for layer in layers if layer.names]
    if len(names) > _MOST_NAMES:
        names = [*names[:_MOST_NAMES // 2], "...", *names[-_MOST_NAMES // 2:]]
    return f": {', '.join(names)}" if names else ""


def _close(image: Image, layout: Layout) -> str:
    unload = f"""\
    if (model && model->workspace) {{
        vtakit_unload(model->device, model->address, {image.name}_needs.memory_bytes);
    }}
""" if layout.device else ""
    return f"""\
void {image.name}_close(struct {image.name} *model)
{{
{unload}    if (model) {{
        model->workspace = NULL;
    }}
}}
"""
