"""Memory that a compiled model takes of a machine."""

from dataclasses import dataclass

from vtakit.runtime.target import Image


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes of this machine's memory that a compiled model takes. Those of an accelerator are not among them.

    weights_bytes : parameters and constants, packed as the code reads them; there is no other copy
    code_bytes    : machine code
    arena_bytes   : for what lies between layers and what they work in, for each run that is under way
    live_bytes    : the most of the arena that is needed at one time
    graph_bytes   : the graph that the model was compiled from, where it is in memory; a large one is in a file
    inputs_bytes, outputs_bytes : arrays that the caller gives and gets
    """

    weights_bytes: int
    code_bytes: int
    arena_bytes: int
    live_bytes: int
    graph_bytes: int
    inputs_bytes: int
    outputs_bytes: int


def memory_of(image: Image) -> Memory:
    """Return the memory of a compiled model."""
    return Memory(
        weights_bytes=sum(part.weights_bytes for part in image.parts),
        code_bytes=sum(part.code_bytes for part in image.parts),
        arena_bytes=image.arena_bytes, live_bytes=image.live_bytes,
        graph_bytes=0 if image.source is None else image.source.blob.memory_bytes,
        inputs_bytes=sum(port.bytes for port in image.inputs), outputs_bytes=sum(port.bytes for port in image.outputs),
    )
