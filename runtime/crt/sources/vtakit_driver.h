/* The driver interface: how exported models reach an accelerator.
 *
 * Fill in `struct vtakit_driver` for your board: where the accelerator's memory is, and five functions. driver_mmio.h has them for
 * memory-mapped registers (Linux with UIO and u-dma-buf, or bare metal), driver_sim.h for the RTL in Verilator.
 *
 * Each function returns 0, or a number of its own that the error's sentence repeats, such as an errno. Each must return within a
 * bounded time: a lost link is an error, not a wait. All are called from the thread that calls vtakit_open or a model's functions.
 */
#ifndef VTAKIT_DRIVER_H
#define VTAKIT_DRIVER_H

#include <stddef.h>
#include <stdint.h>

#define VTAKIT_LINE_BYTES 64u /* granularity of buffers in the accelerator's memory */

#ifdef __cplusplus
extern "C" {
#endif

struct vtakit_driver {
    void *context; /* passed to each function: the state of your driver */

    /* The memory that models may use, as the accelerator addresses it (a physical address on a Zynq), and its size. Nothing else
     * may use it while a device is open. The accelerator's DRAM window is set to each model's part of it.
     * Where the processor caches it, the driver cleans all of it before vtakit_open: a line that is dirty from earlier use could be
     * evicted over what the accelerator writes. driver_mmio.c does so. */
    uint64_t memory_address;
    uint64_t memory_bytes;

    /* Read or write the 32-bit register at byte `offset`, a multiple of 4 below 4096.
     * Accesses reach the accelerator one by one, in order, and once each: not cached, merged or repeated.
     * A write comes after all that write_memory has written. An access that the accelerator refuses is an error. */
    int (*read_register)(void *context, uint32_t offset, uint32_t *value);
    int (*write_register)(void *context, uint32_t offset, uint32_t value);

    /* Copy `bytes` bytes, at least 1, from or to the accelerator's memory. `address` is the accelerator's, a multiple of
     * VTAKIT_LINE_BYTES, and all bytes lie in the memory above; `data` may have any alignment.
     * Up to the next multiple of VTAKIT_LINE_BYTES the bytes behind the end belong to the same buffer and to nobody: whole cache
     * lines of up to that size may be cleaned or invalidated, and whole words written.
     * No program runs meanwhile. When write_memory returns, the accelerator sees the data (clean the cache); read_memory gives
     * what the accelerator wrote (invalidate the cache first). */
    int (*read_memory)(void *context, uint64_t address, void *data, size_t bytes);
    int (*write_memory)(void *context, uint64_t address, const void *data, size_t bytes);

    /* Let about `microseconds` pass, 1 to 1000; called between two reads of the status register while a program runs.
     * Time limits are counted in what is asked for here: returning early makes them shorter. */
    int (*pause)(void *context, uint32_t microseconds);
};

#ifdef __cplusplus
}
#endif
#endif
