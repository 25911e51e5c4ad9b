/* The driver interface over the accelerator's RTL in Verilator: a shared library that `vtakit export --rtl` writes. */
#ifndef VTAKIT_DRIVER_SIM_H
#define VTAKIT_DRIVER_SIM_H

#include "vtakit_driver.h"
#include "vtakit_rtl.h"

#ifdef __cplusplus
extern "C" {
#endif

struct vtakit_sim_options {
    uint64_t memory_address; /* where the memory that models may use begins, a multiple of VTAKIT_LINE_BYTES */
    uint64_t memory_bytes;   /* of DRAM, from address 0 on */
    uint64_t latency;        /* cycles from a read's address to its first beat */
    uint64_t outstanding;    /* bursts that the memory accepts at once, of each direction */
    uint64_t bandwidth;      /* percent of a beat a cycle */
    uint64_t stall, seed;    /* percent of the cycles in which a channel refuses or withholds a transfer, and the seed of which */
    uint64_t read_error, write_error; /* a byte of DRAM: accesses that touch it are answered with an error */
    uint32_t megahertz;               /* cycles in a microsecond, for pauses */
};

struct vtakit_sim {
    void *library;
    struct vta_model *model;
    unsigned char *dram;
    uint32_t megahertz;
    struct vta_op op; /* the access that the simulated host works on */
    int ended;        /* why there are no more accesses: what the functions return; or 0 */
    uint64_t (*advance)(struct vta_model *, uint64_t);
    void (*give)(struct vta_model *, struct vta_op *, uint64_t);
    int (*close)(struct vta_model *);
    char problem[256]; /* why vtakit_sim_open failed, one sentence */
};

/* The reference system of vtakit's documentation: 64 MiB, 40 cycles of latency, 16 bursts, 100 MHz. */
void vtakit_sim_defaults(struct vtakit_sim_options *options);

/* Load the RTL from a shared library and reset it. Returns 0, or another value with the sentence in sim->problem.
 * `sim` must stay where it is until vtakit_sim_close. */
int vtakit_sim_open(
    struct vtakit_sim *sim, const char *library, const struct vtakit_sim_options *options, struct vtakit_driver *driver);
void vtakit_sim_close(struct vtakit_sim *sim);

#ifdef __cplusplus
}
#endif
#endif
