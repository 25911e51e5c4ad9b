/* The accelerator behind its registers: what it is, its memory, launches. See vtakit_vta.h. */
#include "vtakit_vta.h"

#define PAGE_BYTES 4096u /* models begin at a multiple: bursts end at pages, so cycles do not depend on where a model lies */
#define MOST_PAUSE_US 1000u

static int driver_failed(struct vtakit_error *error, const char *function, int code, uint64_t at)
{
    return vtakit_fail(error, VTAKIT_DRIVER_FAILED, function, (uint64_t)(int64_t)code, 0, at);
}

static int get(struct vtakit_device *device, struct vtakit_error *error, uint32_t offset, uint32_t *value)
{
    const int code = device->driver.read_register(device->driver.context, offset, value);

    return code ? driver_failed(error, "read_register", code, offset) : VTAKIT_OK;
}

static int put(struct vtakit_device *device, struct vtakit_error *error, uint32_t offset, uint32_t value)
{
    const int code = device->driver.write_register(device->driver.context, offset, value);

    return code ? driver_failed(error, "write_register", code, offset) : VTAKIT_OK;
}

/* Reading the low half of a counter latches its high half. */
static int get64(struct vtakit_device *device, struct vtakit_error *error, uint32_t offset, uint64_t *value)
{
    uint32_t low = 0, high = 0;
    int status = get(device, error, offset, &low);

    if (!status) {
        status = get(device, error, offset + VTAKIT_REGISTER_BYTES, &high);
    }
    *value = (uint64_t)high << 32 | low;
    return status;
}

static int put64(struct vtakit_device *device, struct vtakit_error *error, uint32_t offset, uint64_t value)
{
    const int status = put(device, error, offset, (uint32_t)(value & 0xffffffffu));

    return status ? status : put(device, error, offset + VTAKIT_REGISTER_BYTES, (uint32_t)(value >> 32));
}

/* Poll until no program runs; *busy says whether one still does after `limit_us`. Pauses are at most an eighth of what has passed. */
static int wait_idle(struct vtakit_device *device, struct vtakit_error *error, uint64_t limit_us, int *busy)
{
    uint64_t passed = 0;

    for (;;) {
        uint32_t state = 0, next;
        int code;

        if (get(device, error, VTAKIT_REG_STATUS, &state)) {
            return error->status;
        }
        *busy = (state & VTAKIT_STATUS_BUSY) != 0;
        if (!*busy || passed >= limit_us) {
            return VTAKIT_OK;
        }
        next = passed / 8 < MOST_PAUSE_US ? (uint32_t)(passed / 8) + 1 : MOST_PAUSE_US;
        next = next < limit_us - passed ? next : (uint32_t)(limit_us - passed);
        code = device->driver.pause(device->driver.context, next);
        if (code) {
            return driver_failed(error, "pause", code, 0);
        }
        passed += next;
    }
}

/* Stop what runs. A device that does not answer is lost until a reset succeeds. */
static int reset(struct vtakit_device *device, struct vtakit_error *error)
{
    int busy = 1;

    device->lost = 1;
    if (put(device, error, VTAKIT_REG_CONTROL, VTAKIT_CONTROL_RESET) || wait_idle(device, error, VTAKIT_RESET_US, &busy)) {
        return error->status;
    }
    if (busy) {
        return vtakit_fail(error, VTAKIT_LOST, "it does not answer a reset", VTAKIT_RESET_US, 0, 0);
    }
    device->lost = 0;
    return VTAKIT_OK;
}

/* After a failure: reset, so that the next launch finds an accelerator that is in order. The first error says more. */
static int stopped(struct vtakit_device *device, const struct vtakit_error *error)
{
    struct vtakit_error second;

    (void)reset(device, &second);
    return error->status;
}

static int identify(struct vtakit_device *device)
{
    struct vtakit_error *const error = &device->error;
    uint32_t identity = 0, version = 0, bus = 0, bits;

    if (get(device, error, VTAKIT_REG_IDENTITY, &identity)) {
        return error->status;
    }
    if (identity != VTAKIT_IDENTITY) {
        return vtakit_fail(error, VTAKIT_NO_ACCELERATOR, "", identity, VTAKIT_IDENTITY, VTAKIT_REG_IDENTITY);
    }
    if (get(device, error, VTAKIT_REG_VERSION, &version) || get(device, error, VTAKIT_REG_FEATURES, &device->features) ||
        get64(device, error, VTAKIT_REG_CONFIG, &device->config) || get(device, error, VTAKIT_REG_BUS, &bus)) {
        return error->status;
    }
    device->version_major = (version & VTAKIT_VERSION_MAJOR) >> VTAKIT_VERSION_MAJOR_SHIFT;
    device->version_minor = (version & VTAKIT_VERSION_MINOR) >> VTAKIT_VERSION_MINOR_SHIFT;
    bits = (bus & VTAKIT_BUS_ADDRESS_BITS) >> VTAKIT_BUS_ADDRESS_BITS_SHIFT;
    if (bits < 64 && (device->driver.memory_address + device->driver.memory_bytes) >> bits > 0 &&
        device->driver.memory_address + device->driver.memory_bytes != (uint64_t)1 << bits) {
        return vtakit_fail(error, VTAKIT_MISUSE, "memory_address and memory_bytes reach beyond the accelerator's addresses: the "
                           "field address_bits of its register bus says how many bits they have", bits, 0, 0);
    }
    return VTAKIT_OK;
}

int vtakit_open(struct vtakit_device *device, const struct vtakit_driver *driver)
{
    static const struct vtakit_device closed;

    if (!device) {
        return VTAKIT_MISUSE;
    }
    *device = closed;
    if (!driver || !driver->read_register || !driver->write_register || !driver->read_memory || !driver->write_memory ||
        !driver->pause) {
        return vtakit_fail(&device->error, VTAKIT_MISUSE, "vtakit_open needs a driver with all five functions", 0, 0, 0);
    }
    if (driver->memory_bytes > UINT64_MAX - 2 * PAGE_BYTES ||
        driver->memory_address > UINT64_MAX - 2 * PAGE_BYTES - driver->memory_bytes) {
        return vtakit_fail(&device->error, VTAKIT_MISUSE, "memory_address + memory_bytes overflows", 0, 0, 0);
    }
    device->driver = *driver;
    device->timeout_us = VTAKIT_TIMEOUT_US;
    device->free_address = driver->memory_address;
    device->lost = 1;
    if (identify(device)) {
        return device->error.status;
    }
    device->identified = 1;
    return reset(device, &device->error);
}

/* Refuse a device that cannot run the model. */
static int check(const struct vtakit_device *device, struct vtakit_error *error, const struct vtakit_needs *needs)
{
    if (device->version_major != needs->version_major || device->version_minor < needs->version_minor) {
        return vtakit_fail(error, VTAKIT_OTHER_VERSION, "", (uint64_t)device->version_major << 32 | device->version_minor,
                           (uint64_t)needs->version_major << 32 | needs->version_minor, 0);
    }
    if (device->config != needs->config) {
        return vtakit_fail(error, VTAKIT_OTHER_CONFIG, "", device->config, needs->config, 0);
    }
    if (needs->features & ~device->features) {
        return vtakit_fail(error, VTAKIT_NO_FEATURE, "", device->features, needs->features, 0);
    }
    return VTAKIT_OK;
}

int vtakit_reset(struct vtakit_device *device)
{
    struct vtakit_device found;
    struct vtakit_needs same = {0};

    if (!device) {
        return VTAKIT_MISUSE;
    }
    if (!device->identified) {
        return vtakit_fail(&device->error, VTAKIT_MISUSE, "vtakit_reset needs a device that vtakit_open has found", 0, 0, 0);
    }
    same.version_major = device->version_major;
    same.version_minor = device->version_minor;
    same.features = device->features;
    same.config = device->config;
    found = *device;
    device->lost = 1;
    if (identify(&found)) {
        device->error = found.error;
        return found.error.status;
    }
    if (check(&found, &device->error, &same)) {
        return device->error.status;
    }
    return reset(device, &device->error);
}

/* The first page behind so many bytes. */
static uint64_t behind(uint64_t address, uint64_t bytes)
{
    return (address + bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
}

int vtakit_load(
    struct vtakit_device *device, struct vtakit_error *error, const struct vtakit_needs *needs, const unsigned char *data,
    uint64_t *address)
{
    const uint64_t end = device->driver.memory_address + device->driver.memory_bytes;
    const uint64_t base = behind(device->free_address, 0);
    size_t n;

    if (device->lost) {
        return vtakit_fail(error, VTAKIT_LOST, "it is not open, or did not answer a reset", 0, 0, 0);
    }
    if (check(device, error, needs)) {
        return error->status;
    }
    if (base > end || needs->memory_bytes > end - base) {
        return vtakit_fail(error, VTAKIT_NO_MEMORY, "", base > end ? 0 : end - base, needs->memory_bytes, base);
    }
    for (n = 0; n < needs->upload_count; n++) {
        const struct vtakit_upload *const part = &needs->uploads[n];

        if (vtakit_send(device, error, base + part->to, data + part->from, (size_t)part->bytes)) {
            return error->status;
        }
    }
    device->free_address = behind(base, needs->memory_bytes);
    *address = base;
    return VTAKIT_OK;
}

void vtakit_unload(struct vtakit_device *device, uint64_t address, uint64_t bytes)
{
    if (device->free_address == behind(address, bytes)) {
        device->free_address = address;
    }
}

int vtakit_send(struct vtakit_device *device, struct vtakit_error *error, uint64_t address, const void *data, size_t bytes)
{
    const int code = bytes ? device->driver.write_memory(device->driver.context, address, data, bytes) : 0;

    return code ? driver_failed(error, "write_memory", code, address) : VTAKIT_OK;
}

int vtakit_receive(struct vtakit_device *device, struct vtakit_error *error, uint64_t address, void *data, size_t bytes)
{
    const int code = bytes ? device->driver.read_memory(device->driver.context, address, data, bytes) : 0;

    return code ? driver_failed(error, "read_memory", code, address) : VTAKIT_OK;
}

/* Why the accelerator stopped a launch. */
static int fault(struct vtakit_device *device, struct vtakit_error *error, uint32_t number)
{
    uint32_t code = 0, insn = 0;

    if (get(device, error, VTAKIT_REG_ERROR, &code) || get(device, error, VTAKIT_REG_ERROR_INSN, &insn)) {
        return error->status;
    }
    return vtakit_fail(error, VTAKIT_STOPPED, "", code, insn, number);
}

static int start(
    struct vtakit_device *device, struct vtakit_error *error, const struct vtakit_needs *needs, uint64_t address,
    const struct vtakit_launch *launch, uint32_t number)
{
    static const uint32_t bases[] = VTAKIT_BASE_REGISTERS;
    size_t n;

    for (n = 0; n < sizeof bases / sizeof *bases; n++) {
        if (put64(device, error, bases[n], address)) {
            return error->status;
        }
    }
    if (put64(device, error, VTAKIT_REG_INSN_ADDR, address + launch->insns) ||
        put(device, error, VTAKIT_REG_INSN_COUNT, launch->insn_count) ||
        put64(device, error, VTAKIT_REG_WINDOW_LOW, address) ||
        put64(device, error, VTAKIT_REG_WINDOW_HIGH, address + needs->memory_bytes) ||
        (!number && put(device, error, VTAKIT_REG_CONTROL, VTAKIT_CONTROL_CLEAR_COUNTERS))) {
        return error->status;
    }
    return put(device, error, VTAKIT_REG_CONTROL, VTAKIT_CONTROL_START);
}

int vtakit_run(
    struct vtakit_device *device, struct vtakit_error *error, const struct vtakit_needs *needs, uint64_t address,
    const struct vtakit_launch *launch, uint32_t number, uint64_t *cycles)
{
    uint32_t state = 0;
    uint64_t before = 0, after = 0;
    int busy = 1;

    if (device->lost) {
        return vtakit_fail(error, VTAKIT_LOST, "it did not answer a reset", 0, 0, 0);
    }
    if (number && get64(device, error, VTAKIT_REG_CYCLES, &before)) {
        return error->status;
    }
    if (start(device, error, needs, address, launch, number) || wait_idle(device, error, device->timeout_us, &busy)) {
        return stopped(device, error);
    }
    if (busy) {
        if (!get(device, error, VTAKIT_REG_STATUS, &state) && (state & VTAKIT_STATUS_ERROR)) {
            (void)fault(device, error, number); /* a memory that does not answer */
            return stopped(device, error);
        }
        (void)vtakit_fail(error, VTAKIT_TIMED_OUT, "", device->timeout_us, 0, number);
        return stopped(device, error);
    }
    if (get(device, error, VTAKIT_REG_STATUS, &state) || get64(device, error, VTAKIT_REG_CYCLES, &after)) {
        return stopped(device, error);
    }
    *cycles = after - before;
    if (state & VTAKIT_STATUS_ERROR) {
        return fault(device, error, number);
    }
    if (!(state & VTAKIT_STATUS_DONE)) {
        (void)vtakit_fail(error, VTAKIT_LOST, "it neither finished a program nor found a fault", state, 0, 0);
        return stopped(device, error);
    }
    return VTAKIT_OK;
}

int vtakit_counters(struct vtakit_device *device, uint64_t counters[VTAKIT_COUNTER_COUNT])
{
    static const uint32_t offsets[] = {
#define VTAKIT_X(name, offset) offset,
        VTAKIT_COUNTERS(VTAKIT_X)
#undef VTAKIT_X
    };
    size_t n;

    if (device->lost) {
        return vtakit_fail(&device->error, VTAKIT_LOST, "it is not open, or did not answer a reset", 0, 0, 0);
    }
    for (n = 0; n < VTAKIT_COUNTER_COUNT; n++) {
        if (get64(device, &device->error, offsets[n], &counters[n])) {
            return device->error.status;
        }
    }
    return VTAKIT_OK;
}

const char *vtakit_counter_name(size_t counter)
{
    static const char *const names[] = {
#define VTAKIT_X(name, offset) name,
        VTAKIT_COUNTERS(VTAKIT_X)
#undef VTAKIT_X
    };

    return counter < sizeof names / sizeof *names ? names[counter] : "";
}
