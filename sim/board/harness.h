// The C interface of a simulated board: `vtakit.sim.board.library`.
#ifndef VTAKIT_BOARD_H
#define VTAKIT_BOARD_H

#include <stdint.h>

#include "sdram.h"

struct board_settings {
    struct sdram_chip chip;
    uint8_t *memory;  /* all of the chip's */
    uint64_t divisor; /* of a serial line: clocks a bit */
};

struct board_model;

#endif
