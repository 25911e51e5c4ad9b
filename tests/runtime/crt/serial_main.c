/* Two models on one device behind a serial line: the first runs twice, the second once, and each failure is told by a sentence. */
#include <stdio.h>
#include <stdlib.h>

#include "serial.h"
#include "split.h"

static union {
    char bytes[SPLIT_WORKSPACE_BYTES + 63];
    double aligned;
} spaces[2];
static float x[2 * 3 * 7 * 8], y0[2 * 4], y1[2 * 7 * 4 * 4];

static void *aligned(void *at)
{
    return (void *)(((uintptr_t)at + 63) / 64 * 64);
}

static int told(const char *who, const struct vtakit_error *error)
{
    char text[VTAKIT_DESCRIPTION_BYTES];

    if (error->status) {
        (void)fprintf(stderr, "%s: %d: %s\n", who, error->status, vtakit_describe(error, text, sizeof text));
    }
    return error->status;
}

int main(int count, char **words)
{
    struct vtakit_driver driver;
    static struct vtakit_device device;
    struct split models[2];
    FILE *file;
    int n, runs;

    if (count != 4 || !(file = fopen(words[1], "rb")) || fread(x, 1, sizeof x, file) != sizeof x || fclose(file)) {
        return 9;
    }
    if (vtakit_reset(NULL) != VTAKIT_MISUSE || vtakit_reset(&device) != VTAKIT_MISUSE) {
        return 6;
    }
    serial_driver(&driver, strtoull(words[2], NULL, 0), strtoull(words[3], NULL, 0));
    (void)vtakit_open(&device, &driver);
    if (told("open", &device.error)) {
        return 1;
    }
    device.timeout_us = 100000;
    for (n = 0; n < 2; n++) {
        (void)split_init(&models[n], &device, aligned(spaces[n].bytes));
        if (told("init", &models[n].error)) {
            return 1;
        }
    }
    for (runs = 0; runs < 3; runs++) {
        (void)split_run(&models[runs == 1], x, y0, y1);
        if (told("run", &models[runs == 1].error) == VTAKIT_LOST) {
            const uint64_t before = device.free_address;

            (void)vtakit_reset(&device);
            (void)told("reset", &device.error);
            if (device.free_address != before) {
                return 7;
            }
        }
    }
    file = fopen("outputs", "wb");
    if (!file || fwrite(y0, 1, sizeof y0, file) != sizeof y0 || fwrite(y1, 1, sizeof y1, file) != sizeof y1 || fclose(file)) {
        return 9;
    }
    split_close(&models[1]);
    split_close(&models[0]);
    (void)split_run(&models[0], x, y0, y1);
    (void)told("closed", &models[0].error);
    (void)split_init(&models[0], &device, (char *)aligned(spaces[0].bytes) + 1);
    (void)told("unaligned", &models[0].error);
    return device.free_address == driver.memory_address ? 0 : 8;
}
