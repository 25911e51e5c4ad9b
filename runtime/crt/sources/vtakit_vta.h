/* Exported models on an accelerator: opening a device, errors and their sentences, counters.
 *
 * C99, no memory allocation, no global state. A device and the models on it are for one thread at a time; different devices, and
 * models without launches, are independent of each other.
 */
#ifndef VTAKIT_VTA_H
#define VTAKIT_VTA_H

#include <stddef.h>
#include <stdint.h>

#include "vtakit_driver.h"
#include "vtakit_error.h"
#include "vtakit_registers.h"

#define VTAKIT_TIMEOUT_US 10000000u /* of a launch, unless device.timeout_us is changed */
#define VTAKIT_RESET_US 1000000u    /* in which a reset must be done: it waits for the bursts in flight */

#ifdef __cplusplus
extern "C" {
#endif

struct vtakit_device {
    struct vtakit_driver driver;
    uint64_t timeout_us; /* of a launch; may be changed between runs */
    struct vtakit_error error;
    /* Read only. */
    uint32_t version_major, version_minor, features;
    uint64_t config;
    uint64_t free_address; /* first byte that no model uses: models that are closed in another order than the reverse leave gaps */
    int identified, lost;
};

/* Find out what the accelerator is, and reset it. The driver is copied, its context is not. Models on the device must be closed
 * before: the accelerator's memory is handed out anew.
 * Returns VTAKIT_OK or another status, with the details in device->error. */
int vtakit_open(struct vtakit_device *device, const struct vtakit_driver *driver);

/* Reset a device that vtakit_open has found: stop what runs, and use the device again after VTAKIT_LOST. Its models stay open, as long
 * as its memory keeps what is in it: after a loss of power, close and open all. Refused if it is another accelerator than before.
 * Returns VTAKIT_OK or another status, with the details in device->error. */
int vtakit_reset(struct vtakit_device *device);

/* Counters of the launches of the last run, in order of enum vtakit_counter: cycles, and what each stage's cycles went to (0 on a
 * device without these counters). */
int vtakit_counters(struct vtakit_device *device, uint64_t counters[VTAKIT_COUNTER_COUNT]);

/* Name of a counter, "" for a number that is none. */
const char *vtakit_counter_name(size_t counter);

/* Below: what exported models call. */

/* Bytes that a model uploads once: from byte `from` of its data to byte `to` of its memory on the device. */
struct vtakit_upload {
    uint64_t to, from, bytes;
};

struct vtakit_needs {
    uint32_t version_major, version_minor, features;
    uint64_t config;
    uint64_t memory_bytes;
    const struct vtakit_upload *uploads;
    size_t upload_count;
};

struct vtakit_launch {
    uint64_t insns; /* byte of the model's memory at which the program begins */
    uint32_t insn_count;
};

int vtakit_load(
    struct vtakit_device *device, struct vtakit_error *error, const struct vtakit_needs *needs, const unsigned char *data,
    uint64_t *address);
void vtakit_unload(struct vtakit_device *device, uint64_t address, uint64_t bytes);
int vtakit_send(struct vtakit_device *device, struct vtakit_error *error, uint64_t address, const void *data, size_t bytes);
int vtakit_receive(struct vtakit_device *device, struct vtakit_error *error, uint64_t address, void *data, size_t bytes);
/* Start launch `number` of a model whose memory begins at `address`, and wait; number 0 clears the counters before. */
int vtakit_run(
    struct vtakit_device *device, struct vtakit_error *error, const struct vtakit_needs *needs, uint64_t address,
    const struct vtakit_launch *launch, uint32_t number, uint64_t *cycles);

#ifdef __cplusplus
}
#endif
#endif
