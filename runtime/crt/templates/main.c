/* An example: run the model on files. Made for @name@ by vtakit export; change it as you like. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "@name@.h"

#if @NAME@_LAUNCHES
#ifdef __linux__
#include "driver_mmio.h"
#endif
#ifndef VTAKIT_NO_SIM
#include "driver_sim.h"
#endif
#endif

static const char usage[] =
    "usage: @name@ [OPTION]... INPUT... OUTPUT...\n"
    "\n"
    "Read each input from a file of raw numbers in C order, run the model, and write each output to such a file.\n"
    "\n"
#if @NAME@_LAUNCHES
#ifndef VTAKIT_NO_SIM
    "  --rtl FILE.so           run on the RTL in Verilator (vtakit export --rtl writes it)\n"
    "  --memory-bytes N        of its DRAM (default: 64 MiB, or what the model needs)\n"
    "  --memory-address N      where in it the model's memory begins (default: 0)\n"
    "  --read-error N          answer reads of this byte of DRAM with an error\n"
#endif
#ifdef __linux__
    "  --uio FILE              run on the accelerator whose registers these are, such as /dev/uio0, with\n"
    "  --dma FILE              its memory, such as /dev/udmabuf0\n"
    "  --attributes DIR        folder of u-dma-buf's attributes (default: that in /sys/class/u-dma-buf)\n"
#endif
    "  --timeout-us N          microseconds that a launch may take (default: 10000000)\n"
    "  --counters              print what the cycles of each stage went to\n"
#endif
    "  --repeat N              run N times (default: 1)\n"
    "  --help                  print this\n";

struct options {
    const char *rtl, *uio, *dma, *attributes;
    uint64_t memory_bytes, memory_address, read_error, timeout_us, repeat;
    int counters;
};

static int complain(const char *what, const char *which)
{
    (void)fprintf(stderr, "@name@: %s%s%s\n", what, *which ? ": " : "", which);
    return 1;
}

static int complain_of(const struct vtakit_error *error)
{
    char text[VTAKIT_DESCRIPTION_BYTES];

    return complain(vtakit_describe(error, text, sizeof text), "");
}

/* Read a number; 0 if the text is one. */
static int number(const char *text, uint64_t *value)
{
    char *end;

    *value = strtoull(text, &end, 0);
    return *end || end == text || *text == '-';
}

/* Read the options; returns the index of the first word behind them, or -1 after a complaint. */
static int parse(int count, char **words, struct options *options)
{
    const struct {
        const char *name;
        const char **text;
        uint64_t *value;
    } known[] = {
#if @NAME@_LAUNCHES
#ifndef VTAKIT_NO_SIM
        {"--rtl", &options->rtl, NULL},
        {"--memory-bytes", NULL, &options->memory_bytes},
        {"--memory-address", NULL, &options->memory_address},
        {"--read-error", NULL, &options->read_error},
#endif
#ifdef __linux__
        {"--uio", &options->uio, NULL},
        {"--dma", &options->dma, NULL},
        {"--attributes", &options->attributes, NULL},
#endif
        {"--timeout-us", NULL, &options->timeout_us},
#endif
        {"--repeat", NULL, &options->repeat},
    };
    int at = 1;

    while (at < count && words[at][0] == '-') {
        size_t n = 0;

        if (@NAME@_LAUNCHES && !strcmp(words[at], "--counters")) {
            options->counters = 1;
            at++;
            continue;
        }
        while (n < sizeof known / sizeof *known && strcmp(words[at], known[n].name)) {
            n++;
        }
        if (n == sizeof known / sizeof *known || at + 1 == count) {
            (void)complain(n == sizeof known / sizeof *known ? "unknown option" : "an option lacks its value", words[at]);
            return -1;
        }
        if (known[n].text) {
            *known[n].text = words[at + 1];
        } else if (number(words[at + 1], known[n].value)) {
            (void)complain("no number", words[at + 1]);
            return -1;
        }
        at += 2;
    }
    return at;
}

/* Read a whole file of a known size. */
static int read_file(const char *path, void *data, size_t bytes)
{
    FILE *const file = fopen(path, "rb");
    size_t got;
    int more;

    if (!file) {
        return complain("cannot open the input", path);
    }
    got = fread(data, 1, bytes, file);
    more = got == bytes && fgetc(file) != EOF;
    (void)fclose(file);
    if (got != bytes || more) {
        (void)fprintf(stderr, "@name@: the input %s has %s bytes than the %lu that the model reads\n", path,
                      more ? "more" : "fewer", (unsigned long)bytes);
    }
    return got != bytes || more;
}

static int write_file(const char *path, const void *data, size_t bytes)
{
    FILE *const file = fopen(path, "wb");
    int bad;

    if (!file) {
        return complain("cannot write the output", path);
    }
    bad = fwrite(data, 1, bytes, file) != bytes;
    bad |= fclose(file) != 0;
    return bad ? complain("cannot write the output", path) : 0;
}

/* Memory whose address is a multiple of 64; `*block` is what to free. */
static void *allocate(size_t bytes, void **block)
{
    *block = malloc(bytes + 63);
    return *block ? (void *)(((uintptr_t)*block + 63) / 64 * 64) : NULL;
}

static int run(struct @name@ *model, void **in, void **out, const struct options *options)
{
    uint64_t n;

    (void)in;
    for (n = 0; n < options->repeat; n++) {
        if (@name@_run(@CALL@)) {
            return complain_of(&model->error);
        }
    }
    return 0;
}

#if @NAME@_LAUNCHES
union drivers {
    char none;
#ifdef __linux__
    struct vtakit_mmio mmio;
#endif
#ifndef VTAKIT_NO_SIM
    struct vtakit_sim sim;
#endif
};

static int open_driver(union drivers *state, const struct options *options, struct vtakit_driver *driver)
{
    (void)state;
    (void)driver;
#ifndef VTAKIT_NO_SIM
    if (options->rtl && !options->uio) {
        struct vtakit_sim_options sim;

        vtakit_sim_defaults(&sim);
        if (sim.memory_bytes < options->memory_address + @NAME@_DEVICE_BYTES + 4096) {
            sim.memory_bytes = options->memory_address + @NAME@_DEVICE_BYTES + 4096;
        }
        sim.memory_bytes = options->memory_bytes ? options->memory_bytes : sim.memory_bytes;
        sim.memory_address = options->memory_address;
        sim.read_error = options->read_error;
        return vtakit_sim_open(&state->sim, options->rtl, &sim, driver) ? complain(state->sim.problem, "") : 0;
    }
#endif
#ifdef __linux__
    if (options->uio && options->dma && !options->rtl) {
        return vtakit_mmio_open(&state->mmio, options->uio, options->dma, options->attributes, driver)
            ? complain(state->mmio.problem, "") : 0;
    }
#endif
    return complain("give either --rtl, or --uio and --dma; --help says more", "");
}

static void close_driver(union drivers *state, const struct options *options)
{
    (void)state;
    (void)options;
#ifdef __linux__
    if (options->uio) {
        vtakit_mmio_close(&state->mmio);
    }
#endif
#ifndef VTAKIT_NO_SIM
    if (options->rtl) {
        vtakit_sim_close(&state->sim);
    }
#endif
}

static int print_counters(struct vtakit_device *device)
{
    uint64_t counters[VTAKIT_COUNTER_COUNT];
    size_t n;

    if (vtakit_counters(device, counters)) {
        return complain_of(&device->error);
    }
    for (n = 0; n < VTAKIT_COUNTER_COUNT; n++) {
        (void)fprintf(stderr, "%s: %llu\n", vtakit_counter_name(n), (unsigned long long)counters[n]);
    }
    return 0;
}

static int on_device(struct vtakit_device *device, void *workspace, void **in, void **out, const struct options *options)
{
    struct @name@ model;
    size_t n;
    int bad;

    if (@name@_init(&model, device, workspace)) {
        return complain_of(&model.error);
    }
    bad = run(&model, in, out, options);
    for (n = 0; !bad && n < @NAME@_LAUNCHES; n++) {
        (void)fprintf(stderr, "launch %lu: %llu cycles\n", (unsigned long)n, (unsigned long long)model.cycles[n]);
    }
    bad = bad || (options->counters && print_counters(device));
    @name@_close(&model);
    return bad;
}

static int run_model(void *workspace, void **in, void **out, const struct options *options)
{
    union drivers state;
    struct vtakit_driver driver;
    struct vtakit_device device;
    int bad;

    if (open_driver(&state, options, &driver)) {
        return 1;
    }
    if (vtakit_open(&device, &driver)) {
        bad = complain_of(&device.error);
    } else {
        device.timeout_us = options->timeout_us;
        bad = on_device(&device, workspace, in, out, options);
    }
    close_driver(&state, options);
    return bad;
}
#else
static int run_model(void *workspace, void **in, void **out, const struct options *options)
{
    struct @name@ model;

    return @name@_init(&model, workspace) ? complain_of(&model.error) : run(&model, in, out, options);
}
#endif

int main(int count, char **words)
{
    void *blocks[@NAME@_INPUTS + @NAME@_OUTPUTS + 1] = {NULL}, *arrays[@NAME@_INPUTS + @NAME@_OUTPUTS + 1];
    struct options options = {NULL, NULL, NULL, NULL, 0, 0, UINT64_MAX, 10000000, 1, 0};
    const size_t inputs = @NAME@_INPUTS, outputs = @NAME@_OUTPUTS;
    void *workspace;
    size_t n;
    int first, bad;

    if (count < 2 || !strcmp(words[1], "--help")) {
        (void)fputs(usage, count < 2 ? stderr : stdout);
        return count < 2 ? 2 : 0;
    }
    first = parse(count, words, &options);
    if (first < 0) {
        return 2;
    }
    if (count - first != @NAME@_INPUTS + @NAME@_OUTPUTS) {
        (void)fprintf(stderr, "@name@: the number of files is %d and must be %d, inputs before outputs; --help says more\n",
                      count - first, @NAME@_INPUTS + @NAME@_OUTPUTS);
        return 2;
    }
    workspace = allocate(@NAME@_WORKSPACE_BYTES, &blocks[inputs + outputs]);
    bad = workspace ? 0 : complain("too little memory", "");
    for (n = 0; !bad && n < inputs + outputs; n++) {
        const size_t bytes = n < inputs ? @name@_inputs[n].bytes : @name@_outputs[n - inputs].bytes;

        arrays[n] = allocate(bytes, &blocks[n]);
        bad = arrays[n] ? 0 : complain("too little memory", "");
        bad = bad || (n < inputs && read_file(words[first + (int)n], arrays[n], bytes));
    }
    bad = bad || run_model(workspace, arrays, arrays + inputs, &options);
    for (n = 0; !bad && n < outputs; n++) {
        bad = write_file(words[first + (int)(inputs + n)], arrays[inputs + n], @name@_outputs[n].bytes);
    }
    for (n = 0; n < sizeof blocks / sizeof *blocks; n++) {
        free(blocks[n]);
    }
    return bad;
}
