/* Errors and their sentences; see vtakit_error.h. No stdio: this also runs where there is none. */
#include "vtakit_error.h"

#include "vtakit_registers.h"

int vtakit_fail(struct vtakit_error *error, int status, const char *what, uint64_t got, uint64_t want, uint64_t at)
{
    error->status = status;
    error->what = what;
    error->got = got;
    error->want = want;
    error->at = at;
    return status;
}

int vtakit_cpu_failed(struct vtakit_error *error, int32_t status, const char *const *messages, size_t count)
{
    const char *what = "it ended with a status that the model does not have";

    if (status == -1) {
        what = "memory ran out";
    } else if (status > 0 && (uint64_t)status <= count) {
        what = messages[status - 1];
    }
    return vtakit_fail(error, VTAKIT_CPU_FAILED, what, (uint64_t)(int64_t)status, 0, 0);
}

struct text {
    char *at, *end; /* the next byte, and the one that the final 0 may take at the latest */
};

static void add(struct text *to, const char *words)
{
    while (*words && to->at < to->end) {
        *to->at++ = *words++;
    }
}

static void number(struct text *to, uint64_t value, unsigned base, unsigned least)
{
    char digits[24];
    unsigned count = 0;

    do {
        digits[count++] = "0123456789abcdef"[value % base];
        value /= base;
    } while (value || count < least);
    while (count && to->at < to->end) {
        *to->at++ = digits[--count];
    }
}

static void decimal(struct text *to, uint64_t value)
{
    number(to, value, 10, 1);
}

static void hexadecimal(struct text *to, uint64_t value, unsigned least)
{
    add(to, "0x");
    number(to, value, 16, least);
}

static void integer(struct text *to, uint64_t value)
{
    if (value >> 63) {
        add(to, "-");
        value = 0 - value;
    }
    decimal(to, value);
}

static void version(struct text *to, uint64_t value)
{
    decimal(to, value >> 32);
    add(to, ".");
    decimal(to, value & 0xffffffffu);
}

static void driver_failed(struct text *to, const struct vtakit_error *e)
{
    add(to, "the driver's ");
    add(to, e->what);
    add(to, " failed with code ");
    integer(to, e->got);
    add(to, " at ");
    hexadecimal(to, e->at, 3);
}

static void config(struct text *to, const struct vtakit_error *e)
{
    static const struct {
        const char *name;
        unsigned shift, width;
    } fields[] = {
#define VTAKIT_X(name, shift, width) {name, shift, width},
        VTAKIT_CONFIG_FIELDS(VTAKIT_X)
#undef VTAKIT_X
    };
    const char *before = "the accelerator has another configuration than the model was compiled for: ";
    size_t n;

    for (n = 0; n < sizeof fields / sizeof *fields; n++) {
        const uint64_t mask = ((uint64_t)1 << fields[n].width) - 1;
        const uint64_t got = e->got >> fields[n].shift & mask, want = e->want >> fields[n].shift & mask;

        if (got != want) {
            add(to, before);
            add(to, fields[n].name);
            add(to, " is ");
            decimal(to, got);
            add(to, ", not ");
            decimal(to, want);
            before = ", ";
        }
    }
    add(to, "; export the model for its configuration (--config), or load the model's bitstream");
}

static void feature(struct text *to, const struct vtakit_error *e)
{
    static const char *const names[] = {
#define VTAKIT_X(name) name,
        VTAKIT_FEATURES(VTAKIT_X)
#undef VTAKIT_X
    };
    const char *before = "the accelerator lacks ";
    size_t n;

    for (n = 0; n < sizeof names / sizeof *names; n++) {
        if ((e->want & ~e->got) >> n & 1) {
            add(to, before);
            add(to, names[n]);
            before = ", ";
        }
    }
    add(to, ", which the model needs: load a bitstream that has it");
}

static void memory(struct text *to, const struct vtakit_error *e)
{
    add(to, "the model needs ");
    decimal(to, e->want);
    add(to, " bytes of the accelerator's memory, and ");
    decimal(to, e->got);
    add(to, " are free from ");
    hexadecimal(to, e->at, 1);
    add(to, " on: give the driver more (memory_bytes), or close a model that was opened later");
}

static void stopped(struct text *to, const struct vtakit_error *e)
{
    static const struct {
        unsigned code;
        const char *name, *doc;
    } faults[] = {
#define VTAKIT_X(code, name, doc) {code, name, doc},
        VTAKIT_FAULTS(VTAKIT_X)
#undef VTAKIT_X
    };
    static const struct {
        unsigned code;
        const char *name;
    } stages[] = {
#define VTAKIT_X(code, name) {code, name},
        VTAKIT_STAGES(VTAKIT_X)
#undef VTAKIT_X
    };
    const uint64_t code = (e->got & VTAKIT_ERROR_FAULT) >> VTAKIT_ERROR_FAULT_SHIFT;
    const uint64_t stage = (e->got & VTAKIT_ERROR_STAGE) >> VTAKIT_ERROR_STAGE_SHIFT;
    size_t n;

    add(to, "the accelerator stopped launch ");
    decimal(to, e->at);
    add(to, " at instruction ");
    decimal(to, e->want);
    for (n = 0; n < sizeof stages / sizeof *stages; n++) {
        if (stages[n].code == stage && code != VTAKIT_FAULT_BUS_FETCH) {
            add(to, " of the ");
            add(to, stages[n].name);
            add(to, " stage");
        }
    }
    for (n = 0; n < sizeof faults / sizeof *faults; n++) {
        if (faults[n].code == code) {
            add(to, ": ");
            add(to, faults[n].doc);
            add(to, " [");
            add(to, faults[n].name);
            add(to, "]");
            return;
        }
    }
    add(to, ", with fault ");
    decimal(to, code);
    add(to, ", which this export does not know");
}

char *vtakit_describe(const struct vtakit_error *error, char *text, size_t bytes)
{
    struct text to;

    if (!bytes) {
        return text;
    }
    to.at = text;
    to.end = text + bytes - 1;
    switch (error->status) {
    case VTAKIT_OK:
        add(&to, "no error");
        break;
    case VTAKIT_DRIVER_FAILED:
        driver_failed(&to, error);
        break;
    case VTAKIT_NO_ACCELERATOR:
        add(&to, "there is no VTA accelerator: the register identity reads ");
        hexadecimal(&to, error->got, 8);
        add(&to, ", not ");
        hexadecimal(&to, error->want, 8);
        add(&to, "; check the address of its registers, and that its bitstream is loaded");
        break;
    case VTAKIT_OTHER_VERSION:
        add(&to, "the accelerator has ISA version ");
        version(&to, error->got);
        add(&to, ", and the model needs ");
        version(&to, error->want);
        break;
    case VTAKIT_OTHER_CONFIG:
        config(&to, error);
        break;
    case VTAKIT_NO_FEATURE:
        feature(&to, error);
        break;
    case VTAKIT_NO_MEMORY:
        memory(&to, error);
        break;
    case VTAKIT_TIMED_OUT:
        add(&to, "launch ");
        decimal(&to, error->at);
        add(&to, " has not ended within ");
        decimal(&to, error->got);
        add(&to, " microseconds and was stopped: device.timeout_us says how long it may take");
        break;
    case VTAKIT_STOPPED:
        stopped(&to, error);
        break;
    case VTAKIT_LOST:
        add(&to, "the accelerator cannot be used: ");
        add(&to, error->what);
        add(&to, "; call vtakit_reset, and if that fails load the bitstream anew and call it again");
        break;
    case VTAKIT_CPU_FAILED:
        add(&to, "a part of the model on the processor failed: ");
        add(&to, error->what);
        break;
    case VTAKIT_MISUSE:
        add(&to, error->what);
        break;
    default:
        add(&to, "an error that this version does not know, ");
        integer(&to, (uint64_t)(int64_t)error->status);
        break;
    }
    *to.at = 0;
    return text;
}
