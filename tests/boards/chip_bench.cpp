// The checking chip (sdram.h) alone, under recorded pins, as a C library.

#include <cstdio>

#include "recorded_pins.h"
#include "sdram.h"

extern "C" {

// One power-up: `words` gets what the chip drives at each edge, -1 where it drives nothing. `error` has 320 places.
void chip_run(const sdram_chip* settings, uint8_t* memory, const uint64_t* pins, uint64_t edges, int32_t* words, char* error) {
    Sdram chip{*settings, memory};
    for (uint64_t n = 0; n < edges; n++) {
        uint32_t word;
        words[n] = chip.drives(word) ? int32_t(word & 0xffff) : -1;
        chip.clock(pins_of(pins[n]));
    }
    std::snprintf(error, 320, "%s", chip.error().c_str());
}

}  // extern "C"
