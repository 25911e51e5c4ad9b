/* The five functions over a byte stream, as for a board behind a serial line: standard input and output. */
#ifndef SERIAL_H
#define SERIAL_H

#include "vtakit_driver.h"

void serial_driver(struct vtakit_driver *driver, uint64_t memory_address, uint64_t memory_bytes);

#endif
