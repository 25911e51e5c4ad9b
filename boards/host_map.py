"""Addresses of the host's registers on a board: page 0 has the core's, page 1 the board's."""

HOST_ADDRESS_BITS = 13
BOARD_IDENTITY = int.from_bytes(b"BRD1", "big")
_BOARD_PAGE = 0x1000
BOARD_REGISTERS = {name: _BOARD_PAGE + 4 * n for n, name in enumerate((
    "board_identity", "board_version", "clock_khz", "memory_kib", "selftest", "selftest_address", "selftest_want", "selftest_got",
    "selftest_errors", "selftest_core",
))}
# Bits of the register selftest.
SELFTEST = {name: 1 << n for n, name in enumerate(("running", "memory_tested", "memory_good", "gemm_tested", "gemm_good"))}
