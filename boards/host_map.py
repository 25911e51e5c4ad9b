"""Addresses of the host's registers on a board: page 0 has the core's, page 1 the board's. Nothing here needs Amaranth."""

from vtakit.hw.isa.regs import ADDRESS_BITS, REGISTER_BYTES

HOST_ADDRESS_BITS = ADDRESS_BITS + 1
BOARD_PAGE = 1 << ADDRESS_BITS
BOARD_IDENTITY = int.from_bytes(b"BRD1", "big")
BOARD_VERSION = (1, 0)

# The board's registers, which a host only reads, in the order of their addresses.
BOARD_DOC = {
    "board_identity": f"0x{BOARD_IDENTITY:08x}, the letters BRD1",
    "board_version": "version of this map: minor in the low half, major in the high one",
    "clock_khz": "frequency of the clock of core, memory and link in kHz",
    "memory_kib": "size of the memory in KiB",
    "selftest": "state of the self-test, bits of `SELFTEST`",
    "selftest_address": "byte address of the first wrong beat",
    "selftest_want": "low word that should have been read there",
    "selftest_got": "low word that was read there",
    "selftest_errors": "wrong beats",
    "selftest_core": "of the core after the GEMM: status in the low half, error in the high one",
}
BOARD_REGISTERS = {name: BOARD_PAGE + REGISTER_BYTES * n for n, name in enumerate(BOARD_DOC)}
SELFTEST = {name: 1 << n for n, name in enumerate(("running", "memory_tested", "memory_good", "gemm_tested", "gemm_good"))}
