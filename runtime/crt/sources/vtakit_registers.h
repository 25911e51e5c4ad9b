/* Registers of the accelerator. Rendered from vtakit's hw/isa/regs.py: do not edit. */
#ifndef VTAKIT_REGISTERS_H
#define VTAKIT_REGISTERS_H

#define VTAKIT_REGISTER_BYTES 4u
#define VTAKIT_IDENTITY 0x56544131u

/* Byte offsets. A register of two words has its low half first; reading that latches the high half. */
#define VTAKIT_REG_IDENTITY 0x000u
#define VTAKIT_REG_VERSION 0x004u
#define VTAKIT_REG_FEATURES 0x008u
#define VTAKIT_REG_CONFIG 0x00cu
#define VTAKIT_REG_BUS 0x014u
#define VTAKIT_REG_CONTROL 0x018u
#define VTAKIT_REG_STATUS 0x01cu
#define VTAKIT_REG_ERROR 0x020u
#define VTAKIT_REG_ERROR_INSN 0x024u
#define VTAKIT_REG_INSN_ADDR 0x028u
#define VTAKIT_REG_INSN_COUNT 0x030u
#define VTAKIT_REG_BASE_UOP 0x034u
#define VTAKIT_REG_BASE_WGT 0x03cu
#define VTAKIT_REG_BASE_INP 0x044u
#define VTAKIT_REG_BASE_ACC 0x04cu
#define VTAKIT_REG_BASE_OUT 0x054u
#define VTAKIT_REG_BASE_ACC_8BIT 0x05cu
#define VTAKIT_REG_WINDOW_LOW 0x064u
#define VTAKIT_REG_WINDOW_HIGH 0x06cu
#define VTAKIT_REG_CYCLES 0x074u
#define VTAKIT_REG_LOAD_BUSY 0x07cu
#define VTAKIT_REG_LOAD_WAIT_PREV 0x084u
#define VTAKIT_REG_LOAD_WAIT_NEXT 0x08cu
#define VTAKIT_REG_LOAD_WAIT_MEMORY 0x094u
#define VTAKIT_REG_LOAD_IDLE 0x09cu
#define VTAKIT_REG_COMPUTE_BUSY 0x0a4u
#define VTAKIT_REG_COMPUTE_WAIT_PREV 0x0acu
#define VTAKIT_REG_COMPUTE_WAIT_NEXT 0x0b4u
#define VTAKIT_REG_COMPUTE_WAIT_MEMORY 0x0bcu
#define VTAKIT_REG_COMPUTE_IDLE 0x0c4u
#define VTAKIT_REG_STORE_BUSY 0x0ccu
#define VTAKIT_REG_STORE_WAIT_PREV 0x0d4u
#define VTAKIT_REG_STORE_WAIT_NEXT 0x0dcu
#define VTAKIT_REG_STORE_WAIT_MEMORY 0x0e4u
#define VTAKIT_REG_STORE_IDLE 0x0ecu
#define VTAKIT_REG_IRQ_ENABLE 0x0f4u
#define VTAKIT_REG_IRQ_PENDING 0x0f8u
#define VTAKIT_REG_TIMEOUT 0x0fcu
#define VTAKIT_REG_ATTRIBUTES 0x100u

/* Fields. */
#define VTAKIT_VERSION_MINOR 0x0000ffffu
#define VTAKIT_VERSION_MINOR_SHIFT 0u
#define VTAKIT_VERSION_MAJOR 0xffff0000u
#define VTAKIT_VERSION_MAJOR_SHIFT 16u
#define VTAKIT_FEATURES_ALU_MUL 0x00000001u
#define VTAKIT_FEATURES_ACC_8BIT 0x00000002u
#define VTAKIT_FEATURES_REQUANT 0x00000004u
#define VTAKIT_FEATURES_OVERWRITE 0x00000008u
#define VTAKIT_FEATURES_PAD_VALUE 0x00000010u
#define VTAKIT_FEATURES_LOOKUP 0x00000020u
#define VTAKIT_FEATURES_DWCONV 0x00000040u
#define VTAKIT_FEATURES_POOL 0x00000080u
#define VTAKIT_BUS_LOG_DATA_BYTES 0x000000ffu
#define VTAKIT_BUS_LOG_DATA_BYTES_SHIFT 0u
#define VTAKIT_BUS_OUTSTANDING 0x0000ff00u
#define VTAKIT_BUS_OUTSTANDING_SHIFT 8u
#define VTAKIT_BUS_ADDRESS_BITS 0x00ff0000u
#define VTAKIT_BUS_ADDRESS_BITS_SHIFT 16u
#define VTAKIT_BUS_NO_CAUSES 0x01000000u
#define VTAKIT_CONTROL_START 0x00000001u
#define VTAKIT_CONTROL_RESET 0x00000002u
#define VTAKIT_CONTROL_CLEAR_COUNTERS 0x00000004u
#define VTAKIT_CONTROL_ACKNOWLEDGE 0x00000008u
#define VTAKIT_STATUS_BUSY 0x00000001u
#define VTAKIT_STATUS_DONE 0x00000002u
#define VTAKIT_STATUS_ERROR 0x00000004u
#define VTAKIT_ERROR_FAULT 0x000000ffu
#define VTAKIT_ERROR_FAULT_SHIFT 0u
#define VTAKIT_ERROR_STAGE 0x0000ff00u
#define VTAKIT_ERROR_STAGE_SHIFT 8u
#define VTAKIT_ATTRIBUTES_CACHE 0x0000000fu
#define VTAKIT_ATTRIBUTES_CACHE_SHIFT 0u
#define VTAKIT_ATTRIBUTES_PROT 0x00000070u
#define VTAKIT_ATTRIBUTES_PROT_SHIFT 4u
#define VTAKIT_ATTRIBUTES_QOS 0x00000780u
#define VTAKIT_ATTRIBUTES_QOS_SHIFT 7u

/* Base registers of all memory types, each of two words. */
#define VTAKIT_BASE_REGISTERS {0x034u, 0x03cu, 0x044u, 0x04cu, 0x054u, 0x05cu}

/* X(name, shift, width) for each of the configuration's log2 values. */
#define VTAKIT_CONFIG_FIELDS(X) \
    X("LOG_INP_WIDTH", 0u, 6u) \
    X("LOG_WGT_WIDTH", 6u, 6u) \
    X("LOG_ACC_WIDTH", 12u, 6u) \
    X("LOG_BATCH", 18u, 6u) \
    X("LOG_BLOCK", 24u, 6u) \
    X("LOG_UOP_BUFF_SIZE", 30u, 6u) \
    X("LOG_INP_BUFF_SIZE", 36u, 6u) \
    X("LOG_WGT_BUFF_SIZE", 42u, 6u) \
    X("LOG_ACC_BUFF_SIZE", 48u, 6u)

/* X(name) for each feature bit, from bit 0 up. */
#define VTAKIT_FEATURES(X) \
    X("ALU_MUL") \
    X("ACC_8BIT") \
    X("REQUANT") \
    X("OVERWRITE") \
    X("PAD_VALUE") \
    X("LOOKUP") \
    X("DWCONV") \
    X("POOL")

/* X(code, name, what the program did) for each fault of the hardware. */
#define VTAKIT_FAULTS(X) \
    X(1u, "UNKNOWN_OPCODE", "the opcode is none of the instruction set's") \
    X(2u, "UNKNOWN_MEMORY_TYPE", "the memory type is unknown, not for this opcode, or absent from this configuration") \
    X(3u, "UNKNOWN_ALU_OPCODE", "the ALU opcode is none of the instruction set's") \
    X(4u, "RESERVED_BITS", "bits that belong to no field are set") \
    X(5u, "ILLEGAL_FLAG", "a dependence flag points to a neighbour that the stage does not have") \
    X(6u, "STORE_PAD", "a STORE has pads") \
    X(7u, "SRAM_RANGE", "an index lies outside its scratchpad") \
    X(8u, "DRAM_RANGE", "an address lies outside the DRAM window") \
    X(9u, "UOP_RANGE", "the micro-op range ends outside the UOP scratchpad") \
    X(10u, "FINISH_NOT_LAST", "instructions follow FINISH") \
    X(11u, "NO_FINISH", "the program does not end with FINISH") \
    X(12u, "TOKEN_OVERFLOW", "more tokens than a queue holds can wait in it") \
    X(13u, "TOKENS_LEFT", "tokens are left when the program has ended") \
    X(14u, "DEADLOCK", "the program waits for a token that nothing gives") \
    X(15u, "BUS_READ", "the memory answered a read with an error") \
    X(16u, "BUS_WRITE", "the memory answered a write with an error") \
    X(17u, "BUS_FETCH", "the memory answered the fetch of an instruction with an error") \
    X(18u, "BUS_TIMEOUT", "the memory took no transfer for as many cycles as the register timeout says")

/* Of a fetch, which no stage does: the field stage means nothing. */
#define VTAKIT_FAULT_BUS_FETCH 17u

/* X(code, name) for each stage. */
#define VTAKIT_STAGES(X) \
    X(0u, "load") \
    X(1u, "compute") \
    X(2u, "store")

/* X(name, offset) for each counter, of two words. */
#define VTAKIT_COUNTERS(X) \
    X("cycles", 0x074u) \
    X("load_busy", 0x07cu) \
    X("load_wait_prev", 0x084u) \
    X("load_wait_next", 0x08cu) \
    X("load_wait_memory", 0x094u) \
    X("load_idle", 0x09cu) \
    X("compute_busy", 0x0a4u) \
    X("compute_wait_prev", 0x0acu) \
    X("compute_wait_next", 0x0b4u) \
    X("compute_wait_memory", 0x0bcu) \
    X("compute_idle", 0x0c4u) \
    X("store_busy", 0x0ccu) \
    X("store_wait_prev", 0x0d4u) \
    X("store_wait_next", 0x0dcu) \
    X("store_wait_memory", 0x0e4u) \
    X("store_idle", 0x0ecu)

enum vtakit_counter {
    VTAKIT_COUNTER_CYCLES,
    VTAKIT_COUNTER_LOAD_BUSY,
    VTAKIT_COUNTER_LOAD_WAIT_PREV,
    VTAKIT_COUNTER_LOAD_WAIT_NEXT,
    VTAKIT_COUNTER_LOAD_WAIT_MEMORY,
    VTAKIT_COUNTER_LOAD_IDLE,
    VTAKIT_COUNTER_COMPUTE_BUSY,
    VTAKIT_COUNTER_COMPUTE_WAIT_PREV,
    VTAKIT_COUNTER_COMPUTE_WAIT_NEXT,
    VTAKIT_COUNTER_COMPUTE_WAIT_MEMORY,
    VTAKIT_COUNTER_COMPUTE_IDLE,
    VTAKIT_COUNTER_STORE_BUSY,
    VTAKIT_COUNTER_STORE_WAIT_PREV,
    VTAKIT_COUNTER_STORE_WAIT_NEXT,
    VTAKIT_COUNTER_STORE_WAIT_MEMORY,
    VTAKIT_COUNTER_STORE_IDLE,
    VTAKIT_COUNTER_COUNT
};

#endif
