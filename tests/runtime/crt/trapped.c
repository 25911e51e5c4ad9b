/* The RTL behind mapped registers: each access to their page traps and is made on the RTL, whose DRAM is the mapped memory.
 *
 * An access faults, because nobody may touch the page. The handler reads the register into the page and lets the instruction run by
 * itself; behind it, the processor traps once more, what a write has put there goes to the RTL, and the page is closed again. This
 * is for x86-64, whose page faults say whether they were writes and whose trap flag stops after an instruction.
 *
 * driver_mmio.c is compiled with pwrite as recorded_pwrite, which logs what it tells u-dma-buf's attributes.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "driver_mmio.h"
#include "split.h"
#include "vtakit_rtl.h"

enum { PAGE = 4096, WRITES = 2, TRAP_FLAG = 0x100, CYCLES_AN_ACCESS = 200, REFUSED = 70, BROKEN = 71 };

static struct vtakit_mmio mmio;
static struct vta_model *rtl;
static uint64_t (*advance)(struct vta_model *, uint64_t);
static void (*give)(struct vta_model *, struct vta_op *, uint64_t);
static uint32_t offset;
static int writing;

ssize_t recorded_pwrite(int file, const void *data, size_t bytes, off_t at);

ssize_t recorded_pwrite(int file, const void *data, size_t bytes, off_t at)
{
    char link[40], path[256];
    ssize_t length;

    (void)snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    length = readlink(link, path, sizeof path - 1);
    path[length > 0 ? length : 0] = 0;
    (void)fprintf(stdout, "%s %.*s\n", strrchr(path, '/') + 1, (int)bytes, (const char *)data);
    return at ? -1 : (ssize_t)bytes;
}

static uint32_t access_rtl(uint32_t kind, uint32_t value)
{
    struct vta_op ops[2];

    memset(ops, 0, sizeof ops);
    ops[0].kind = VTA_WAIT;
    ops[0].value = CYCLES_AN_ACCESS;
    ops[1].kind = kind;
    ops[1].address = offset;
    ops[1].value = value;
    give(rtl, ops, 2);
    while (advance(rtl, 1000) == VTA_RUNNING) {
    }
    if (ops[1].response) {
        _exit(REFUSED);
    }
    return ops[1].value;
}

static void protect(int access)
{
    if (mprotect((void *)(uintptr_t)mmio.registers, PAGE, access)) {
        _exit(BROKEN);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *const machine = context;
    const uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)mmio.registers;

    (void)number;
    if (at >= PAGE) {
        _exit(BROKEN);
    }
    offset = (uint32_t)at;
    writing = (machine->uc_mcontext.gregs[REG_ERR] & WRITES) != 0;
    protect(PROT_READ | PROT_WRITE);
    if (!writing) {
        mmio.registers[offset / 4] = access_rtl(VTA_READ, 0);
    }
    machine->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    ucontext_t *const machine = context;

    (void)number;
    (void)info;
    if (writing) {
        (void)access_rtl(VTA_WRITE, mmio.registers[offset / 4]);
    }
    protect(PROT_NONE);
    machine->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *))
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(number, &action, NULL)) {
        _exit(BROKEN);
    }
}

static void symbol(void *library, const char *name, void *function, size_t bytes)
{
    void *const found = dlsym(library, name);

    memcpy(function, &found, bytes);
    if (!found) {
        _exit(BROKEN);
    }
}

/* Put the RTL behind the page. Its DRAM begins so far before the mapped memory that addresses are those of `phys_addr`. */
static void connect_rtl(const char *path, uint64_t read_error)
{
    void *const library = dlopen(path, RTLD_NOW);
    struct vta_model *(*open)(const struct vta_settings *);
    struct vta_settings settings;

    if (!library) {
        _exit(BROKEN);
    }
    symbol(library, "vta_open", &open, sizeof open);
    symbol(library, "vta_advance", &advance, sizeof advance);
    symbol(library, "vta_give", &give, sizeof give);
    memset(&settings, 0, sizeof settings);
    settings.dram = (uint8_t *)((uintptr_t)mmio.memory - (uintptr_t)mmio.memory_address);
    settings.dram_size = mmio.memory_address + mmio.memory_bytes;
    settings.latency = 40;
    settings.outstanding = 16;
    settings.bandwidth = 100;
    settings.read_error = read_error;
    settings.write_error = UINT64_MAX;
    settings.max_cycles = UINT64_MAX;
    rtl = open(&settings);
    handle(SIGSEGV, on_fault);
    handle(SIGTRAP, on_step);
    protect(PROT_NONE);
}

static int told(const struct vtakit_error *error)
{
    char text[VTAKIT_DESCRIPTION_BYTES];

    (void)fprintf(stderr, "%s\n", vtakit_describe(error, text, sizeof text));
    return 1;
}

/* trapped UIO MEMORY ATTRIBUTES RTL READ_ERROR TIMEOUT_US INPUT OUTPUT; without RTL if that is "". */
int main(int count, char **words)
{
    static union {
        char bytes[SPLIT_WORKSPACE_BYTES + 63];
        double aligned;
    } space;
    static float x[2 * 3 * 7 * 8], y[2 * 4 + 2 * 7 * 4 * 4];
    struct vtakit_driver driver;
    struct vtakit_device device;
    struct split model;
    FILE *file;

    if (count != 9 || !(file = fopen(words[7], "rb")) || fread(x, 1, sizeof x, file) != sizeof x || fclose(file)) {
        return BROKEN;
    }
    if (vtakit_mmio_open(&mmio, words[1], words[2], words[3], &driver)) {
        (void)fprintf(stderr, "%s\n", mmio.problem);
        return 1;
    }
    if (*words[4]) {
        connect_rtl(words[4], strtoull(words[5], NULL, 0));
    }
    if (vtakit_open(&device, &driver)) {
        return told(&device.error);
    }
    device.timeout_us = strtoull(words[6], NULL, 0);
    if (split_init(&model, &device, (void *)(((uintptr_t)space.bytes + 63) / 64 * 64)) || split_run(&model, x, y, y + 8)) {
        return told(&model.error);
    }
    (void)fprintf(stderr, "%llu %llu\n", (unsigned long long)model.cycles[0], (unsigned long long)model.cycles[1]);
    split_close(&model);
    vtakit_mmio_close(&mmio);
    file = fopen(words[8], "wb");
    return !file || fwrite(y, 1, sizeof y, file) != sizeof y || fclose(file);
}
