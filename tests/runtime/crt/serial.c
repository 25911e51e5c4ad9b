/* A request is a letter, an address and a count or value, little-endian; the answer is a code of 8 bits, and data if it is 0. */
#include "serial.h"

#include <stdio.h>
#include <string.h>

static int request(char letter, uint64_t address, uint32_t value, const void *data, size_t bytes)
{
    unsigned char words[13];
    unsigned n;
    int code;

    words[0] = (unsigned char)letter;
    for (n = 0; n < 8; n++) {
        words[1 + n] = (unsigned char)(address >> 8 * n & 0xff);
    }
    for (n = 0; n < 4; n++) {
        words[9 + n] = (unsigned char)(value >> 8 * n & 0xff);
    }
    if (fwrite(words, 1, sizeof words, stdout) != sizeof words || fwrite(data, 1, bytes, stdout) != bytes || fflush(stdout)) {
        return 1000;
    }
    code = getchar();
    return code == EOF ? 1000 : code < 128 ? code : code - 256;
}

static int read_register(void *context, uint32_t offset, uint32_t *value)
{
    unsigned char words[4] = {0};
    const int code = request('r', offset, 0, "", 0);

    (void)context;
    if (!code && fread(words, 1, sizeof words, stdin) != sizeof words) {
        return 1000;
    }
    *value = words[0] | (uint32_t)words[1] << 8 | (uint32_t)words[2] << 16 | (uint32_t)words[3] << 24;
    return code;
}

static int write_register(void *context, uint32_t offset, uint32_t value)
{
    (void)context;
    return request('w', offset, value, "", 0);
}

static int read_memory(void *context, uint64_t address, void *data, size_t bytes)
{
    const int code = request('R', address, (uint32_t)bytes, "", 0);

    (void)context;
    return code ? code : fread(data, 1, bytes, stdin) == bytes ? 0 : 1000;
}

static int write_memory(void *context, uint64_t address, const void *data, size_t bytes)
{
    (void)context;
    return request('W', address, (uint32_t)bytes, data, bytes);
}

static int pause_for(void *context, uint32_t microseconds)
{
    (void)context;
    return request('p', 0, microseconds, "", 0);
}

void serial_driver(struct vtakit_driver *driver, uint64_t memory_address, uint64_t memory_bytes)
{
    driver->context = NULL;
    driver->memory_address = memory_address;
    driver->memory_bytes = memory_bytes;
    driver->read_register = read_register;
    driver->write_register = write_register;
    driver->read_memory = read_memory;
    driver->write_memory = write_memory;
    driver->pause = pause_for;
}
