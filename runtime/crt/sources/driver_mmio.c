/* The driver interface over memory-mapped registers; see driver_mmio.h. */
#if defined(__linux__) && !defined(VTAKIT_BARE_METAL) && !defined(_GNU_SOURCE)
#define _GNU_SOURCE
#endif
#include "driver_mmio.h"

#include <string.h>

#ifdef VTAKIT_PORT
#include VTAKIT_PORT
#endif

#ifndef VTAKIT_BARRIER
#if defined(__aarch64__) || (defined(__ARM_ARCH) && __ARM_ARCH >= 7)
#define VTAKIT_BARRIER() __asm__ volatile("dsb sy" ::: "memory")
#else
#define VTAKIT_BARRIER() __sync_synchronize()
#endif
#endif

#ifdef VTAKIT_LINUX
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { OFFSET, SIZE, DIRECTION, FOR_CPU, FOR_DEVICE };
enum { BOTH_WAYS = 0, TO_DEVICE = 1, FROM_DEVICE = 2 };
static const char *const NAMES[] = {"sync_offset", "sync_size", "sync_direction", "sync_for_cpu", "sync_for_device"};

static int set(const struct vtakit_mmio *mmio, int which, uint64_t value)
{
    char text[24];
    const int length = snprintf(text, sizeof text, "%" PRIu64, value);
    const ssize_t done = pwrite(mmio->attributes[which], text, (size_t)length, 0);

    return done == length ? 0 : done < 0 ? errno : EIO;
}

/* Have the kernel write back or drop cache lines. */
static int sync_lines(const struct vtakit_mmio *mmio, uint64_t offset, size_t bytes, int direction, int act)
{
    int code;

    if (mmio->attributes[act] < 0) {
        return 0;
    }
    code = set(mmio, OFFSET, offset);
    code = code ? code : set(mmio, SIZE, bytes);
    code = code ? code : set(mmio, DIRECTION, (uint64_t)direction);
    return code ? code : set(mmio, act, 1);
}
#elif !defined(VTAKIT_PAUSE_US)
#define SPINS_PER_US 200u /* of a processor without a clock that this file knows: at most some GHz */
#endif

#ifndef VTAKIT_CACHE_CLEAN
#define VTAKIT_CACHE_CLEAN(pointer, bytes) ((void)0)
#endif
#ifndef VTAKIT_CACHE_INVALIDATE
#define VTAKIT_CACHE_INVALIDATE(pointer, bytes) ((void)0)
#endif

static int read_register(void *context, uint32_t offset, uint32_t *value)
{
    const struct vtakit_mmio *const mmio = context;

    *value = mmio->registers[offset / 4];
    VTAKIT_BARRIER();
    return 0;
}

static int write_register(void *context, uint32_t offset, uint32_t value)
{
    const struct vtakit_mmio *const mmio = context;

    VTAKIT_BARRIER();
    mmio->registers[offset / 4] = value;
    return 0;
}

static size_t lines(size_t bytes)
{
    return (bytes + VTAKIT_LINE_BYTES - 1) / VTAKIT_LINE_BYTES * VTAKIT_LINE_BYTES;
}

static int read_memory(void *context, uint64_t address, void *data, size_t bytes)
{
    struct vtakit_mmio *const mmio = context;
    unsigned char *const from = mmio->memory + (address - mmio->memory_address);
#ifdef VTAKIT_LINUX
    const int code = sync_lines(mmio, address - mmio->memory_address, lines(bytes), FROM_DEVICE, FOR_CPU);

    if (code) {
        return code;
    }
#endif
    (void)lines;
    VTAKIT_CACHE_INVALIDATE(from, lines(bytes));
    VTAKIT_BARRIER();
    memcpy(data, from, bytes);
    return 0;
}

static int write_memory(void *context, uint64_t address, const void *data, size_t bytes)
{
    struct vtakit_mmio *const mmio = context;
    unsigned char *const to = mmio->memory + (address - mmio->memory_address);

    memcpy(to, data, bytes);
    VTAKIT_CACHE_CLEAN(to, lines(bytes));
    VTAKIT_BARRIER();
#ifdef VTAKIT_LINUX
    return sync_lines(mmio, address - mmio->memory_address, lines(bytes), TO_DEVICE, FOR_DEVICE);
#else
    return 0;
#endif
}

static int pause_for(void *context, uint32_t microseconds)
{
    (void)context;
#if defined(VTAKIT_PAUSE_US)
    VTAKIT_PAUSE_US(microseconds);
#elif defined(VTAKIT_LINUX)
    {
        struct timespec time;

        time.tv_sec = 0;
        time.tv_nsec = (long)microseconds * 1000;
        (void)nanosleep(&time, NULL); /* a signal makes it shorter: the limit is then reached sooner */
    }
#else
    {
        volatile uint32_t spins = microseconds * SPINS_PER_US;

        while (spins) {
            spins = spins - 1;
        }
    }
#endif
    return 0;
}

void vtakit_mmio_driver(struct vtakit_mmio *mmio, struct vtakit_driver *driver)
{
#ifdef VTAKIT_LINUX
    size_t n;

    if (!mmio->register_bytes) { /* filled in by hand */
        for (n = 0; n < sizeof mmio->attributes / sizeof *mmio->attributes; n++) {
            mmio->attributes[n] = -1;
        }
    }
#endif
    VTAKIT_CACHE_CLEAN(mmio->memory, (size_t)mmio->memory_bytes); /* a dirty line could go over what the accelerator writes */
    VTAKIT_BARRIER();
    driver->context = mmio;
    driver->memory_address = mmio->memory_address;
    driver->memory_bytes = mmio->memory_bytes;
    driver->read_register = read_register;
    driver->write_register = write_register;
    driver->read_memory = read_memory;
    driver->write_memory = write_memory;
    driver->pause = pause_for;
}

#ifdef VTAKIT_LINUX
static int failed(struct vtakit_mmio *mmio, const char *act, const char *path, const char *name)
{
    const int code = errno ? errno : EIO;

    (void)snprintf(mmio->problem, sizeof mmio->problem, "cannot %s %.140s%s%s: %.60s", act, path, *name ? "/" : "", name,
                   strerror(code));
    vtakit_mmio_close(mmio);
    return code;
}

/* Open an attribute of u-dma-buf; -1 and an errno if that fails. */
static int opened(const char *folder, const char *name, int flags)
{
    char path[512];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);

    if (length < 0 || (size_t)length >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return open(path, flags | O_CLOEXEC);
}

/* The number that an attribute reads as: decimal, or hexadecimal after 0x. */
static int attribute(const char *folder, const char *name, uint64_t *value)
{
    char text[32] = {0}, *end = text;
    const int file = opened(folder, name, O_RDONLY);
    ssize_t length;

    if (file < 0) {
        return -1;
    }
    length = read(file, text, sizeof text - 1);
    (void)close(file);
    errno = 0;
    *value = strtoull(text, &end, 0);
    if (length > 0 && end != text && !errno) {
        return 0;
    }
    errno = EINVAL;
    return -1;
}

static void *mapped(const char *path, size_t bytes)
{
    const int file = open(path, O_RDWR | O_CLOEXEC);
    void *found;
    int code;

    if (file < 0) {
        return MAP_FAILED;
    }
    found = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    code = errno;
    (void)close(file);
    errno = code;
    return found;
}

int vtakit_mmio_open(
    struct vtakit_mmio *mmio, const char *uio, const char *memory, const char *attributes, struct vtakit_driver *driver)
{
    static const struct vtakit_mmio closed;
    const char *const slash = strrchr(memory, '/');
    char folder[256];
    uint64_t coherent = 0;
    void *found;
    size_t n;

    *mmio = closed;
    for (n = 0; n < sizeof mmio->attributes / sizeof *mmio->attributes; n++) {
        mmio->attributes[n] = -1;
    }
    (void)snprintf(folder, sizeof folder, "%s%s", attributes ? attributes : "/sys/class/u-dma-buf/",
                   attributes ? "" : slash ? slash + 1 : memory);
    errno = 0;
    if (attribute(folder, "phys_addr", &mmio->memory_address)) {
        return failed(mmio, "read", folder, "phys_addr");
    }
    if (attribute(folder, "size", &mmio->memory_bytes) || mmio->memory_bytes > SIZE_MAX) {
        return failed(mmio, "read", folder, "size");
    }
    if (attribute(folder, "dma_coherent", &coherent)) {
        coherent = 0; /* older versions have no such attribute */
    }
    for (n = 0; !coherent && n < sizeof mmio->attributes / sizeof *mmio->attributes; n++) {
        mmio->attributes[n] = opened(folder, NAMES[n], O_WRONLY);
        if (mmio->attributes[n] < 0) {
            return failed(mmio, "open", folder, NAMES[n]);
        }
    }
    mmio->register_bytes = (size_t)sysconf(_SC_PAGESIZE);
    found = mapped(uio, mmio->register_bytes);
    if (found == MAP_FAILED) {
        return failed(mmio, "map the registers", uio, "");
    }
    mmio->registers = found;
    found = mapped(memory, (size_t)mmio->memory_bytes);
    if (found == MAP_FAILED) {
        return failed(mmio, "map the memory", memory, "");
    }
    mmio->memory = found;
    errno = sync_lines(mmio, 0, (size_t)mmio->memory_bytes, BOTH_WAYS, FOR_DEVICE);
    if (errno) {
        return failed(mmio, "clean the caches by", folder, NAMES[FOR_DEVICE]);
    }
    vtakit_mmio_driver(mmio, driver);
    return 0;
}

void vtakit_mmio_close(struct vtakit_mmio *mmio)
{
    size_t n;

    for (n = 0; n < sizeof mmio->attributes / sizeof *mmio->attributes; n++) {
        if (mmio->attributes[n] >= 0) {
            (void)close(mmio->attributes[n]);
        }
        mmio->attributes[n] = -1;
    }
    if (mmio->memory) {
        (void)munmap(mmio->memory, (size_t)mmio->memory_bytes);
    }
    if (mmio->registers) {
        (void)munmap((void *)(uintptr_t)mmio->registers, mmio->register_bytes);
    }
    mmio->memory = NULL;
    mmio->registers = NULL;
}
#endif
