// The pins of an SDRAM at an edge of its clock as one number: `chip_trace.py` has the same fields.
#ifndef VTAKIT_RECORDED_PINS_H
#define VTAKIT_RECORDED_PINS_H

#include <cstdint>

#include "sdram.h"

inline uint64_t recorded(const Sdram::Pins& p) {
    return uint64_t(p.cke) | uint64_t(p.cs_n) << 1 | uint64_t(p.ras_n) << 2 | uint64_t(p.cas_n) << 3 | uint64_t(p.we_n) << 4 |
           uint64_t(p.ba & 3) << 5 | uint64_t(p.a & 0x1fff) << 7 | uint64_t(p.dqm & 3) << 20 | uint64_t(p.driven) << 22 |
           uint64_t(p.dq & 0xffff) << 23;
}

inline Sdram::Pins pins_of(uint64_t n) {
    return {bool(n & 1), bool(n >> 1 & 1), bool(n >> 2 & 1), bool(n >> 3 & 1), bool(n >> 4 & 1), uint32_t(n >> 5 & 3),
            uint32_t(n >> 7 & 0x1fff), uint32_t(n >> 20 & 3), uint32_t(n >> 23 & 0xffff), bool(n >> 22 & 1)};
}

#endif
