// The C interface of a simulated board: `vtakit.sim.board.library`.
#ifndef VTAKIT_BOARD_H
#define VTAKIT_BOARD_H

#include <stdint.h>

#include "sdram.h"
#include "usb_host.h"

struct board_settings {
    struct sdram_chip chip;
    uint8_t *memory;  /* all of the chip's */
    uint64_t divisor; /* of a serial line: clocks a bit */
    uint64_t period;  /* of the clock of all but the memory, in picoseconds; the memory's is that of its chip */
    struct usb_settings usb; /* of a link over USB: faults on its way */
};

struct board_model;

#endif
