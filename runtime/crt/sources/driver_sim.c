/* The driver interface over the accelerator's RTL in Verilator; see driver_sim.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "driver_sim.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SLICE_CYCLES 10000u
#define ACCESS_SLICES 2000u /* that a register access may take; with channels that stall most of the time one takes thousands of cycles */
#define FOR_EVER ((uint64_t)1 << 62) /* cycles: waits have bounds of their own */

enum { CODE_HUNG = -1, CODE_PROTOCOL = -2, CODE_REFUSED = -3 }; /* what the five functions return */

/* Have the simulated host make one access, or wait. After one that does not end there are no more: the model still works on it. */
static int work(struct vtakit_sim *sim, uint32_t kind, uint32_t offset, uint32_t value)
{
    unsigned n;

    if (sim->ended) {
        return sim->ended;
    }
    memset(&sim->op, 0, sizeof sim->op);
    sim->op.kind = kind;
    sim->op.address = offset;
    sim->op.value = value;
    sim->give(sim->model, &sim->op, 1);
    for (n = 0; n < ACCESS_SLICES; n++) {
        const uint64_t ending = sim->advance(sim->model, SLICE_CYCLES);

        if (ending == VTA_ENDED) {
            return sim->op.response ? CODE_REFUSED : 0;
        }
        if (ending != VTA_RUNNING) {
            return sim->ended = CODE_PROTOCOL;
        }
    }
    return sim->ended = CODE_HUNG;
}

static int read_register(void *context, uint32_t offset, uint32_t *value)
{
    struct vtakit_sim *const sim = context;
    const int code = work(sim, VTA_READ, offset, 0);

    *value = sim->op.value;
    return code;
}

static int write_register(void *context, uint32_t offset, uint32_t value)
{
    return work(context, VTA_WRITE, offset, value);
}

static int read_memory(void *context, uint64_t address, void *data, size_t bytes)
{
    const struct vtakit_sim *const sim = context;

    memcpy(data, sim->dram + address, bytes);
    return 0;
}

static int write_memory(void *context, uint64_t address, const void *data, size_t bytes)
{
    const struct vtakit_sim *const sim = context;

    memcpy(sim->dram + address, data, bytes);
    return 0;
}

/* The host is through with a wait at once; the cycles pass before its next access. */
static int pause_for(void *context, uint32_t microseconds)
{
    struct vtakit_sim *const sim = context;

    return work(sim, VTA_WAIT, 0, microseconds * sim->megahertz);
}

void vtakit_sim_defaults(struct vtakit_sim_options *options)
{
    memset(options, 0, sizeof *options);
    options->memory_bytes = (uint64_t)64 << 20;
    options->latency = 40;
    options->outstanding = 16;
    options->bandwidth = 100;
    options->read_error = UINT64_MAX;
    options->write_error = UINT64_MAX;
    options->megahertz = 100;
}

static int failed(struct vtakit_sim *sim, const char *what, const char *why)
{
    (void)snprintf(sim->problem, sizeof sim->problem, "%.80s: %.160s", what, why);
    vtakit_sim_close(sim);
    return -1;
}

/* A function of the library. ISO C has no conversion from an object pointer; POSIX says that the bytes are those of a function's. */
static int found(struct vtakit_sim *sim, const char *name, void *function, size_t bytes)
{
    void *const symbol = dlsym(sim->library, name);

    memcpy(function, &symbol, bytes);
    return symbol != NULL;
}

int vtakit_sim_open(
    struct vtakit_sim *sim, const char *library, const struct vtakit_sim_options *options, struct vtakit_driver *driver)
{
    static const struct vtakit_sim closed;
    struct vta_model *(*open)(const struct vta_settings *) = NULL;
    struct vta_settings settings;

    *sim = closed;
    if (options->memory_address % VTAKIT_LINE_BYTES || options->memory_address > options->memory_bytes ||
        options->memory_bytes > SIZE_MAX || !options->megahertz || options->megahertz > 1000) {
        return failed(sim, "cannot simulate", "memory_address is a multiple of 64 within the memory, megahertz 1 to 1000");
    }
    sim->library = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    if (!sim->library) {
        return failed(sim, "cannot load the RTL", dlerror());
    }
    if (!found(sim, "vta_open", &open, sizeof open) || !found(sim, "vta_advance", &sim->advance, sizeof sim->advance) ||
        !found(sim, "vta_give", &sim->give, sizeof sim->give) || !found(sim, "vta_close", &sim->close, sizeof sim->close)) {
        return failed(sim, "cannot use the RTL", "it is no library that vtakit export --rtl writes");
    }
    sim->dram = calloc(1, (size_t)options->memory_bytes);
    if (!sim->dram) {
        return failed(sim, "cannot simulate", "this machine has too little memory for memory_bytes");
    }
    memset(&settings, 0, sizeof settings);
    settings.dram = sim->dram;
    settings.dram_size = options->memory_bytes;
    settings.latency = options->latency;
    settings.outstanding = options->outstanding;
    settings.bandwidth = options->bandwidth;
    settings.stall = options->stall;
    settings.seed = options->seed;
    settings.read_error = options->read_error;
    settings.write_error = options->write_error;
    settings.max_cycles = FOR_EVER;
    sim->megahertz = options->megahertz;
    sim->model = open(&settings);
    driver->context = sim;
    driver->memory_address = options->memory_address;
    driver->memory_bytes = options->memory_bytes - options->memory_address;
    driver->read_register = read_register;
    driver->write_register = write_register;
    driver->read_memory = read_memory;
    driver->write_memory = write_memory;
    driver->pause = pause_for;
    return 0;
}

void vtakit_sim_close(struct vtakit_sim *sim)
{
    if (sim->model) {
        (void)sim->close(sim->model);
    }
    free(sim->dram);
    if (sim->library) {
        (void)dlclose(sim->library);
    }
    sim->model = NULL;
    sim->dram = NULL;
    sim->library = NULL;
}
