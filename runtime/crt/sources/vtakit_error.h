/* Errors of exported models and their sentences; inputs and outputs as data. */
#ifndef VTAKIT_ERROR_H
#define VTAKIT_ERROR_H

#include <stddef.h>
#include <stdint.h>

#define VTAKIT_DESCRIPTION_BYTES 512u /* a buffer of this size holds every sentence; names and conditions of a model may be cut */

#ifdef __cplusplus
extern "C" {
#endif

enum vtakit_status {
    VTAKIT_OK = 0,
    VTAKIT_DRIVER_FAILED,  /* a function of the driver returned another value than 0 */
    VTAKIT_NO_ACCELERATOR, /* the identity register has another value */
    VTAKIT_OTHER_VERSION,  /* the accelerator has an instruction set that the model is not for */
    VTAKIT_OTHER_CONFIG,   /* the accelerator has another configuration than the model was compiled for */
    VTAKIT_NO_FEATURE,     /* the accelerator lacks an ability that the model needs */
    VTAKIT_NO_MEMORY,      /* the model does not fit in the accelerator's memory */
    VTAKIT_TIMED_OUT,      /* a launch has not ended in time; it was stopped */
    VTAKIT_STOPPED,        /* the accelerator stopped a launch: a program fault, or an error on its bus */
    VTAKIT_LOST,           /* the accelerator does not answer a reset: call vtakit_reset */
    VTAKIT_CPU_FAILED,     /* a part on the processor failed: a condition of the model, or memory ran out */
    VTAKIT_MISUSE          /* a null pointer, a workspace that is not aligned, a model that is not open */
};

/* What went wrong last; vtakit_describe makes a sentence of it. `what` is a string constant. */
struct vtakit_error {
    int status; /* enum vtakit_status */
    const char *what;
    uint64_t got, want, at;
};

/* An input or output of a model. Arrays are in row-major order, in the processor's byte order, aligned as C wants their type. */
struct vtakit_tensor {
    const char *name;
    const char *dtype; /* as NumPy names it; bfloat16 and float16 are their bits as uint16_t, bool is uint8_t */
    size_t rank;
    const uint64_t *shape; /* NULL if the rank is 0 */
    size_t bytes;
};

/* Write one sentence about an error as a string of at most `bytes` bytes with its final 0; returns `text`. */
char *vtakit_describe(const struct vtakit_error *error, char *text, size_t bytes);

/* Below: what exported models call. */

int vtakit_fail(struct vtakit_error *error, int status, const char *what, uint64_t got, uint64_t want, uint64_t at);
int vtakit_cpu_failed(struct vtakit_error *error, int32_t status, const char *const *messages, size_t count);

#ifdef __cplusplus
}
#endif
#endif
