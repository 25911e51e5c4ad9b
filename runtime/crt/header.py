"""The C header of an exported model, NAME.h, and the argument names of NAME_run."""

from collections.abc import Sequence

import vtakit
from vtakit.compiler.codegen.llvm.signature import c_names, c_type
from vtakit.compiler.codegen.llvm.text.reserved import is_taken
from vtakit.compiler.codegen.places import Port
from vtakit.compiler.graph.memory import ALIGN
from vtakit.runtime.cpu.engine import processor
from vtakit.runtime.cpu.part import CpuPart
from vtakit.runtime.crt.c_text import comment
from vtakit.runtime.crt.layout import Layout
from vtakit.runtime.target import Image

_LOCALS = ("model", "device", "workspace", "error", "work", "data", "status", "messages")  # of the functions of NAME.c
_GLOBALS = ("init", "run", "close", "inputs", "outputs", "data", "needs", "uploads", "launches")  # each behind NAME_
_FEATURES_A_LINE = 12


def header(image: Image, layout: Layout) -> str:
    """Return the text of NAME.h."""
    name, big, device = image.name, image.name.upper(), layout.device
    launches, device_bytes = (len(device.launches), device.size) if device else (0, 0)
    cycles = f"    uint64_t cycles[{big}_LAUNCHES]; /* of each launch of the last run */\n" if device else ""
    private = "    struct vtakit_device *device;\n    uint64_t address;\n" if device else ""
    upload = " Its programs and weights are uploaded, once." if device else ""
    opened = " * `device` was opened by vtakit_open.\n" if device else ""
    return f"""\
/* Model {name}, exported by vtakit {vtakit.__version__}.
 *
{_about(image, layout)}
 *
 * One thread at a time may use a model and its device. Each struct {name} is a model of its own with its own workspace; all
 * share the constants. There is no global state. {_allocation(image)}
 */
#ifndef VTAKIT_MODEL_{big}_H
#define VTAKIT_MODEL_{big}_H

#include "{'vtakit_vta.h' if device else 'vtakit_error.h'}"

#define {big}_INPUTS {len(image.inputs)}
#define {big}_OUTPUTS {len(image.outputs)}
#define {big}_LAUNCHES {launches}
#define {big}_WORKSPACE_BYTES {layout.host.size}u /* of the processor's memory, aligned to {ALIGN} bytes */
#define {big}_DEVICE_BYTES {device_bytes}u /* of the accelerator's memory, aligned to 4096 bytes */

#ifdef __cplusplus
extern "C" {{
#endif

extern const struct vtakit_tensor {name}_inputs[{max(len(image.inputs), 1)}];
extern const struct vtakit_tensor {name}_outputs[{max(len(image.outputs), 1)}];

struct {name} {{
    struct vtakit_error error; /* what went wrong last; vtakit_describe makes a sentence of it */
{cycles}    /* Private. */
{private}    unsigned char *workspace;
}};

/* Open the model.{upload}
{opened} * `workspace` is {big}_WORKSPACE_BYTES bytes, aligned to {ALIGN}, reserved for the model until it is closed.
 * Returns VTAKIT_OK, or another status with the details in model->error. */
int {name}_init({init_parameters(image, layout)});

/* Run the model.
 *
{_port_lines(image)}
 *
 * Outputs must not overlap each other or inputs. Returns VTAKIT_OK, or another status with the details in model->error; the
 * outputs are then undefined, and the model may be run again. */
int {name}_run({', '.join([f'struct {name} *model', *run_parameters(image)])});

/* Release the workspace{' and the memory on the device, which stays open' if device else ''}. */
void {name}_close(struct {name} *model);

#ifdef __cplusplus
}}
#endif
#endif
"""


def _about(image: Image, layout: Layout) -> str:
    """Return comment lines: the processor and the accelerator that the model is compiled for."""
    lines = []
    if image.parts_of(CpuPart):
        features = [each[1:] for each in processor(image.target).features if each.startswith("+")]
        lines.append(f" * The parts on the processor are machine code for {comment(str(processor(image.target)))}"
                     f"{', and use:' if features else '.'}")
        lines += [f" *     {' '.join(features[at:at + _FEATURES_A_LINE])}" for at in range(0, len(features), _FEATURES_A_LINE)]
        if any(part.parallel for part in image.parts_of(CpuPart)):
            lines.append(" * They run on several threads, and need an OpenMP runtime (-fopenmp).")
    if layout.device:
        lines.append(f" * Launches: {len(layout.device.launches)}, on an accelerator of the configuration")
        lines += [f" *     {key} {value}" for key, value in layout.device.config.to_dict().items()]
    return "\n".join(lines)


def _allocation(image: Image) -> str:
    """Return a sentence: whether the machine code allocates memory."""
    allocates = any("malloc" in part.outside for part in image.parts_of(CpuPart))
    return "The machine code calls malloc and free." if allocates else "No memory is allocated."


def _port_lines(image: Image) -> str:
    """Return comment lines: one for each argument of NAME_run."""
    kinds = ["input"] * len(image.inputs) + ["output"] * len(image.outputs)
    ports = zip(argument_names(image), kinds, (*image.inputs, *image.outputs), strict=True)
    return "\n".join(f" * {name}: {kind} {comment(port.name)}, {port}" for name, kind, port in ports)


def argument_names(image: Image) -> list[str]:
    """Return the argument names of NAME_run for inputs and outputs: legal in C, and no identifiers or macros that are in use."""
    taken = [*_LOCALS, *(f"{image.name}_{word}" for word in _GLOBALS), *(part.name for part in image.parts_of(CpuPart))]
    names = [f"arg_{name}" if _has_a_meaning(name, image) else name
             for name in c_names(port.name for port in (*image.inputs, *image.outputs))]
    return c_names([*taken, *names])[len(taken):]


def _has_a_meaning(name: str, image: Image) -> bool:
    """Return true if the export or a C header may define the name; names in capitals may be macros."""
    own = name.lower().startswith(("vtakit_", f"{image.name.lower()}_"))
    return own or is_taken(name) or (name.isupper() and len(name) > 1)


def init_parameters(image: Image, layout: Layout) -> str:
    """Return the C parameters of NAME_init."""
    return f"struct {image.name} *model, {'struct vtakit_device *device, ' if layout.device else ''}void *workspace"


def run_parameters(image: Image) -> list[str]:
    """Return the C parameters of NAME_run after the model: inputs, then outputs."""
    return parameters(argument_names(image), image.inputs, image.outputs)


def parameters(names: Sequence[str], inputs: Sequence[Port], outputs: Sequence[Port]) -> list[str]:
    """Return C parameters: pointers to the elements of the arrays, const for inputs."""
    consts = ["const "] * len(inputs) + [""] * len(outputs)
    return [
        f"{const}{c_type(port.dtype)} *{name}" for const, port, name in zip(consts, (*inputs, *outputs), names, strict=True)
    ]
