"""Numbers of the emulator's operations and the columns of its program; each family is one range, which one function runs."""

(MOV, ADD, SUB, MUL, MUL_HIGH, MUL_WIDE, MAD, MAD_HIGH, MAD_WIDE, DIV, REM, SETP, AND, OR, XOR, SELP, MIN, MAX, NEG, ABS, NOT,
 CNOT,
 SAD, DOT4, DOT2, SLCT, SET, ADD_CARRY, SUB_CARRY, HALVES) = range(30)
(SHL, SHR, POPC, CLZ, BFIND, BREV, BFE, BFI, PRMT, SHF_LEFT, SHF_RIGHT, LOP3) = range(40, 52)
(PACK, UNPACK) = range(60, 62)
BITS_FIRST = SHL
INTEGER_END = 100

(F_ADD, F_SUB, F_MUL, F_FMA, F_SETP) = range(100, 105)  # of float32: the frequent ones
(N_ADD, N_SUB, N_MUL, N_FMA, N_DIV, N_MIN, N_MAX, N_NEG, N_ABS, N_SQRT, N_RCP, N_RSQRT, N_EX2, N_LG2, N_SIN, N_COS, N_TANH,
 N_SETP, N_COPYSIGN, N_TESTP, N_SET) = range(120, 141)  # of any format
(CVT_INT, CVT_TO_FLOAT, CVT_TO_INT, CVT_FLOAT, CVT_PACK, CVT_UNPACK) = range(160, 166)
FLOAT_END = 200

(LD, ST, ATOM, RED, LD_MATRIX, ST_MATRIX, CP_ASYNC, UNDEFINED) = range(200, 208)
MEMORY_END = 300

(SHFL, VOTE, MATCH, ACTIVE_MASK, REDUX, ELECT) = range(300, 306)
(MMA,) = range(320, 321)
WARP_END = 400

(BRA, BRX, EXIT, NOP, TRAP, BAR_SYNC, BAR_ARRIVE, BAR_WARP, CP_COMMIT, CP_WAIT, FENCE) = range(400, 411)
(MB_INIT, MB_INVAL, MB_ARRIVE, MB_EXPECT, MB_TEST, MB_ASYNC, TMA_LOAD, TMA_STORE, TMA_COMMIT, TMA_WAIT, WG_FENCE, WG_MMA,
 WG_COMMIT,
 WG_WAIT) = range(420, 434)

# Comparisons: whether less, equal, greater and unordered satisfy them, as bits.
LESS, EQUAL, GREATER, UNORDERED = 1, 2, 4, 8
COMPARISONS = {
    "eq": 2, "ne": 5, "lt": 1, "le": 3, "gt": 4, "ge": 6, "lo": 1, "ls": 3, "hi": 4, "hs": 6, "equ": 10, "neu": 13, "ltu": 9,
    "leu": 11, "gtu": 12, "geu": 14, "num": 7, "nan": 8,
}
COMBINE_NONE, COMBINE_AND, COMBINE_OR, COMBINE_XOR = range(4)

# Formats of floating point: the column KIND of N_ and CVT_ operations.
F32, F64, F16, BF16, TF32, E4M3, E5M2, F16X2, BF16X2, F32X2 = range(10)

# Roundings of conversions.
NEAREST, ZERO, DOWN, UP, AWAY = range(5)

# Flags of operations on floating point.
FLUSH, SATURATE, PROPAGATE_NAN, RELU, TO_INTEGRAL = 1, 2, 4, 8, 16

# Spaces of memory, and atomic operations.
GENERIC, GLOBAL, SHARED, LOCAL, PARAM, CONST = range(6)
A_ADD, A_MIN, A_MAX, A_AND, A_OR, A_XOR, A_EXCHANGE, A_CAS, A_INC, A_DEC = range(10)

# Columns of the program. D to E are registers' places: number times 32.
(OP, PRED, NEGATED, D, A, B, C, E, K, M, SIGNED, FLAGS, KIND, KIND2, IMM, LIST, COUNT, TARGET, RECONVERGE, USES, USE_COUNT, DEFS,
 DEF_COUNT,
 LINE, CLASS) = range(25)
COLUMNS = 25
CLASSES = ("integer", "float", "convert", "memory", "warp", "tensor", "control", "asynchronous")
LANES = 32
