/* The driver interface over memory-mapped registers: bare pointers, or on Linux UIO and u-dma-buf.
 *
 * Bare metal, or anything else that has pointers: fill in the four fields, then
 *
 *     struct vtakit_mmio mmio = {0};
 *     mmio.registers = (volatile uint32_t *)0x43c00000;   // mapped as device memory
 *     mmio.memory = (unsigned char *)0x10000000;          // mapped as normal memory
 *     mmio.memory_address = 0x10000000;                   // the same as the accelerator addresses it
 *     mmio.memory_bytes = 64u << 20;
 *     vtakit_mmio_driver(&mmio, &driver);
 *
 * and compile driver_mmio.c with -DVTAKIT_PORT='"port.h"', a header of yours that defines what the board needs of
 *
 *     VTAKIT_CACHE_CLEAN(pointer, bytes)        write cache lines back before the accelerator reads   (Xil_DCacheFlushRange)
 *     VTAKIT_CACHE_INVALIDATE(pointer, bytes)   drop cache lines before the processor reads           (Xil_DCacheInvalidateRange)
 *     VTAKIT_PAUSE_US(microseconds)             let time pass                                         (usleep)
 *     VTAKIT_BARRIER()                          order accesses to memory before those to registers; the default is a full barrier
 *
 * Without cache macros the memory must be uncached, or coherent with the accelerator's port. vtakit_mmio_driver cleans all of the
 * memory once, so it is called with no program running, and nothing else writes there afterwards.
 *
 * Linux: vtakit_mmio_open maps /dev/uio0 and /dev/udmabuf0 and keeps caches coherent through the attributes of u-dma-buf.
 */
#ifndef VTAKIT_DRIVER_MMIO_H
#define VTAKIT_DRIVER_MMIO_H

#include "vtakit_driver.h"

#if defined(__linux__) && !defined(VTAKIT_BARE_METAL)
#define VTAKIT_LINUX 1
#endif

#ifdef __cplusplus
extern "C" {
#endif

struct vtakit_mmio {
    volatile uint32_t *registers; /* one page */
    unsigned char *memory;        /* as the processor sees it; begins at a multiple of VTAKIT_LINE_BYTES */
    uint64_t memory_address;      /* as the accelerator sees it */
    uint64_t memory_bytes;
#ifdef VTAKIT_LINUX
    size_t register_bytes; /* that are mapped */
    int attributes[5];     /* open files of u-dma-buf's cache control; -1 if its memory is coherent */
    char problem[256];     /* why vtakit_mmio_open failed, one sentence */
#endif
};

/* Clean the caches of the memory, and fill in the driver that uses `mmio`, which must stay where it is. */
void vtakit_mmio_driver(struct vtakit_mmio *mmio, struct vtakit_driver *driver);

#ifdef VTAKIT_LINUX
/* Map an accelerator's registers and memory.
 *
 * uio        its registers, such as "/dev/uio0", which begin with the page
 * memory     its memory, such as "/dev/udmabuf0"
 * attributes folder of u-dma-buf's attributes; NULL for "/sys/class/u-dma-buf/" and the name of `memory`
 *
 * Returns 0, or an errno with the sentence in mmio->problem. */
int vtakit_mmio_open(
    struct vtakit_mmio *mmio, const char *uio, const char *memory, const char *attributes, struct vtakit_driver *driver);
void vtakit_mmio_close(struct vtakit_mmio *mmio);
#endif

#ifdef __cplusplus
}
#endif
#endif
