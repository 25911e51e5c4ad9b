"""Faults of a program or its memory, as data: one code for simulators, static checker and the hardware's error register."""

from enum import IntEnum


class Fault(IntEnum):
    """A fault; its value is the code in the error register, `doc` the end of a sentence that says what happened."""

    doc: str

    def __new__(cls, code: int, doc: str) -> "Fault":
        fault = int.__new__(cls, code)
        fault._value_ = code
        fault.doc = doc
        return fault

    UNKNOWN_OPCODE = 1, "the opcode is none of the instruction set's"
    UNKNOWN_MEMORY_TYPE = 2, "the memory type is unknown, not for this opcode, or absent from this configuration"
    UNKNOWN_ALU_OPCODE = 3, "the ALU opcode is none of the instruction set's"
    RESERVED_BITS = 4, "bits that belong to no field are set"
    ILLEGAL_FLAG = 5, "a dependence flag points to a neighbour that the stage does not have"
    STORE_PAD = 6, "a STORE has pads"
    SRAM_RANGE = 7, "an index lies outside its scratchpad"
    DRAM_RANGE = 8, "an address lies outside the DRAM window"
    UOP_RANGE = 9, "the micro-op range ends outside the UOP scratchpad"
    FINISH_NOT_LAST = 10, "instructions follow FINISH"
    NO_FINISH = 11, "the program does not end with FINISH"
    TOKEN_OVERFLOW = 12, "more tokens than a queue holds can wait in it"
    TOKENS_LEFT = 13, "tokens are left when the program has ended"
    DEADLOCK = 14, "the program waits for a token that nothing gives"
    BUS_READ = 15, "the memory answered a read with an error"
    BUS_WRITE = 16, "the memory answered a write with an error"
    BUS_FETCH = 17, "the memory answered the fetch of an instruction with an error"
    BUS_TIMEOUT = 18, "the memory took no transfer for as many cycles as the register timeout says"

    # From here on only the static checker can tell; hardware has no code for them.
    RACE = 32, "two stages touch one element, at least one writes, and no token orders them"
    CODE_WRITTEN = 33, "the program writes its own instructions, or loads micro-ops that are not given with it"
    VALUE_LOST = 34, "a value in scratch memory was overwritten, or never stored, before it is read"
    UNPUBLISHED = 35, "a program in the published instruction set uses what not every implementation of it has"
