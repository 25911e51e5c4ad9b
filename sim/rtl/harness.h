/* The C interface of a Verilated accelerator: a shared library that harness.cpp and Verilator make. C99 and C++.
 *
 * `vta_open` resets the accelerator beside its memory; the host works off one list of register accesses after another while
 * `vta_advance` simulates. One thread at a time may use a model.
 */
#ifndef VTAKIT_RTL_H
#define VTAKIT_RTL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum vta_ending { VTA_RUNNING, VTA_ENDED, VTA_TIMEOUT, VTA_NO_WAVE, VTA_PAGE_CROSSED, VTA_WRONG_LAST, VTA_UNSTABLE, VTA_WRONG_BURST };
enum vta_op_kind { VTA_WRITE, VTA_READ, VTA_POLL, VTA_WAIT }; /* poll: read until no bit of `value` is set; wait: `value` cycles */

struct vta_op {
    uint32_t kind, address, value, response; /* value: written, waited for, or what was read; response: AXI's, 0 is OKAY */
    uint32_t limit;                          /* of a poll: reads at most; 0 for as many as it takes */
};

struct vta_event {
    uint64_t cycle;
    uint32_t index; /* of an instruction; of a cause, which */
    uint16_t stage, kind;
};

/* A DRAM and its controller, in clocks of the memory: `controller` of vtakit.hw.dram.Dram. */
struct vta_dram {
    int64_t kind, clock;                      /* kind: 0 where there is none; clock: hundredths of a clock in a cycle of the core */
    int64_t burst_log2, row_log2, banks_log2; /* bytes of a column command and of a row; banks */
    int64_t rows, trcd, trp, tras, trc, trrd, tfaw, trfc, trefi, tcmd;
    int64_t column, read_write, write_read, read_precharge, write_precharge, read_data, write_data;
    int64_t closes, ahead, batch; /* closes: a row closes behind each burst */
};

struct vta_settings {
    uint8_t *dram;
    uint64_t dram_size;
    struct vta_op *ops; /* the first list */
    uint64_t op_count;
    uint64_t latency, outstanding, bandwidth, stall, seed, read_error, write_error, max_cycles, trace;
    struct vta_dram dram_chip;
    const char *wave; /* path of the waveform file, or null */
};

struct vta_model;

struct vta_model *vta_open(const struct vta_settings *settings);
uint64_t vta_advance(struct vta_model *model, uint64_t cycles); /* until the list is done, or so many cycles; an enum vta_ending */
void vta_give(struct vta_model *model, struct vta_op *ops, uint64_t count);
void vta_forget(struct vta_model *model);
void vta_report(struct vta_model *model, uint8_t *acc, uint64_t acc_size, uint64_t *counts);
uint64_t vta_events(struct vta_model *model, const struct vta_event **events);
int vta_close(struct vta_model *model);

#ifdef __cplusplus
}
#endif
#endif
