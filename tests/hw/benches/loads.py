"""What the benches of load_port and load_writer share: random LOADs of every memory type, and scratchpads for their writes."""

from board import load_targets

from vtakit.hw.isa.codec import encode
from vtakit.hw.isa.insns import Feature, MemType
from vtakit.hw.params import PAGE_BYTES
from vtakit.sim.bench.models import loaded_elements

MEMORY = 1 << 16
GUARD = 0xAA


def without_noise(item):
    """A write of pads has no data: what its payload holds there changes with the beats that wait behind it."""
    return item | {"data": 0} if item["pad"] else item


class Scratchpads:
    """Byte images of the scratchpads, GUARD where nothing was written, and the order of the writes."""

    def __init__(self, p):
        self.params, self.targets = p, load_targets(p)
        self.images = [bytearray([GUARD]) * (t.element_bytes * t.depth) for t in self.targets]
        self.wanted = [bytearray(image) for image in self.images]
        self.writes = 0

    def write(self, number, item):
        """One transfer of the stream `write<number>`."""
        to, bus = self.targets[number], self.params.bus_bytes
        size, at = to.element_bytes, item["index"] * to.element_bytes
        assert item["index"] + item["count"] <= to.depth
        self.writes += 1
        data = item["data"].to_bytes(bus, "little")
        if item["pad"]:
            value = byte_of(self.params.cfg, item["value"]) if to.kind is MemType.INP else bytes(1)
            self.images[number][at : at + size * item["count"]] = value * (size * item["count"])
        elif size > bus:
            assert item["count"] == 1
            assert item["last"] == (item["beat"] == size // bus - 1)
            at += bus * item["beat"]
            self.images[number][at : at + bus] = data
        else:
            assert 1 <= item["count"] <= to.lanes
            self.images[number][at : at + size * item["count"]] = data[: size * item["count"]]

    def load(self, number, fields, dram, base):
        """What a LOAD should write."""
        size = self.targets[number].element_bytes
        pad = byte_of(self.params.cfg, fields.get("pad_value", 0))
        for index, value in loaded_elements(fields | {"pad_byte": pad[0]}, size, dram, base):
            self.wanted[number][index * size : (index + 1) * size] = value

    def check(self):
        """Every element, and no byte beside them."""
        for to, got, want in zip(self.targets, self.images, self.wanted, strict=True):
            if got != want:
                byte = next(n for n in range(len(got)) if got[n] != want[n])
                raise AssertionError(f"{to.kind.name} element {byte // to.element_bytes} byte {byte % to.element_bytes}: "
                                     f"got 0x{got[byte]:02x}, want 0x{want[byte]:02x}")


def byte_of(cfg, value):
    """A byte of as many values as it holds."""
    bits = min(cfg.inp_bits, 8)
    return bytes([sum((value % (1 << bits)) << at for at in range(0, 8, bits))])


def word_of(p, to, f):
    """The instruction."""
    return encode(p.cfg, "pad_load" if "pad_value" in f else "load", memory_type=to.kind, **f)


def elements(f):
    """Scratchpad elements that a LOAD writes."""
    return (f["y_pad_0"] + f["y_size"] + f["y_pad_1"]) * (f["x_pad_0"] + f["x_size"] + f["x_pad_1"])


def random_load(p, pick, targets, small):
    """(target, base, fields) of a LOAD that fits its scratchpad and DRAM, often around a page's end."""
    number = pick.randrange(len(targets))
    to = targets[number]
    base = 64 * pick.randrange(8)
    f = {name: pick.choice((0, 0, 1, 2, 3, 15)) for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1")}
    f |= {"x_size": pick.randint(1, 3 if small else 12), "y_size": pick.choice((0, 1, 1, 2, 3))}
    if not f["y_pad_0"] + f["y_pad_1"]:
        f["y_size"] = max(1, f["y_size"])
    while (count := elements(f)) > to.depth:
        name = max(f, key=lambda n: f[n])
        f[name] = max(f[name] // 2, int(name in ("x_size", "y_size")))
    f["sram_base"] = pick.choice((0, to.depth - count, pick.randint(0, to.depth - count)))
    f["x_stride"] = pick.choice((f["x_size"], 0, f["x_size"] + pick.randint(1, 40), 1))
    room = MEMORY // 2 - base
    edge = PAGE_BYTES * pick.randint(1, 4) - base
    first = pick.choice((edge - to.element_bytes, edge, edge - f["x_size"] * to.element_bytes // 2, pick.randrange(room)))
    f["dram_base"] = max(0, first // to.element_bytes)
    if to.kind is MemType.INP and Feature.PAD_VALUE in p.features and pick.randrange(2):
        f["pad_value"] = pick.choice((-128, 127, pick.randint(-128, 127)))
    return number, base, f
