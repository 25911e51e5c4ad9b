// Included before every generated file and before Verilator's own.

#pragma once

#include "verilated.h"

// Verilator's sign extensions in a form of which compilers make one or two instructions instead of three to five. Operands hold
// nothing above their `lbits`, as Verilator guarantees, and shifts of signed values are arithmetic since C++20, so the values are
// the same.
#define VL_EXTENDS_II(obits, lbits, lhs)     \
    ((lbits) == 8    ? IData(int32_t(int8_t(lhs)))  \
     : (lbits) == 16 ? IData(int32_t(int16_t(lhs))) \
                     : IData(int32_t(IData(lhs) << (32 - (lbits))) >> (32 - (lbits))))
#define VL_MULS_III(lbits, lhs, rhs) (VL_EXTENDS_II(32, lbits, lhs) * VL_EXTENDS_II(32, lbits, rhs))

#ifdef WAVE_FST
// The writer of .fst files would end the process where a write has failed: it finds itself at no place in its file. This is the
// only use of that check; the harness sees that the file is not whole.
#include "fstcpp/fstcpp_assertion.h"
#undef FST_DCHECK_EQ
#define FST_DCHECK_EQ(a, b)
#endif
