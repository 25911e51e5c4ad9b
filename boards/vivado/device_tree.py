"""The overlay of a Zynq's device tree: bitstream, fabric clock, registers as UIO, and memory as u-dma-buf."""

from vtakit.boards.vivado.targets import Family

DMA_NAME = "udmabuf0"
UIO_NAME = "vta"  # of the node, and so the name that UIO shows
_REGISTER_BYTES = 4096
_LEVEL_HIGH = 4


def overlay(family: Family, *, mhz: float, dma_bytes: int, coherent: bool) -> str:
    """Return the source of the overlay, for `dtc -@`.

    The labels `fpga_full`, of the interrupt controller and of the clock are those of AMD's and the kernel's device trees.
    """
    zeros = "0x0 " * (family.cells - 1)
    dma = [
        'compatible = "ikwzm,u-dma-buf";', f'device-name = "{DMA_NAME}";', f"size = <0x{dma_bytes:x}>;",
        *(["dma-coherent;"] if coherent else []),
    ]
    clock = [
        'compatible = "xlnx,fclk";', "#clock-cells = <0>;", f"clocks = <&{family.clock}>;",
        f"assigned-clocks = <&{family.clock}>;", f"assigned-clock-rates = <{round(mhz * 1e6)}>;",
    ]
    uio = [
        'compatible = "generic-uio";', f"reg = <{zeros}0x{family.registers:x} {zeros}0x{_REGISTER_BYTES:x}>;",
        f"interrupt-parent = <&{family.gic}>;", f"interrupts = <0 {family.irq} {_LEVEL_HIGH}>;",
        *(["dma-coherent;"] if coherent else []),
    ]
    region = [
        'firmware-name = "vta.bit.bin";', f"#address-cells = <{family.cells}>;", f"#size-cells = <{family.cells}>;",
        *_node("vta-clock", clock), *_node(f"{UIO_NAME}@{family.registers:x}", uio),
    ]
    lines = [
        "/* Overlay of the accelerator's device tree. Written by `vtakit vivado`; dtc -@ -I dts -O dtb -o vta.dtbo vta.dts */",
        "/dts-v1/;", "/plugin/;", "",
        *_node("/", [
            *_node("fragment@0", ["target = <&fpga_full>;", *_node("__overlay__", region)]),
            *_node("fragment@1", ['target-path = "/";', *_node("__overlay__", _node(DMA_NAME, dma))]),
        ]),
    ]
    return "\n".join(lines) + "\n"


def _node(name: str, content: list[str]) -> list[str]:
    return [f"{name} {{", *(f"\t{line}" for line in content), "};"]
