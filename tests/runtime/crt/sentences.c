/* Print the bytes of the longest sentence with its final 0, of all that do not come from a model. */
#include <stdio.h>
#include <string.h>

#include "vtakit_error.h"
#include "vtakit_registers.h"

static size_t most;

static void tell(int status, const char *what, uint64_t got, uint64_t want)
{
    struct vtakit_error error;
    char text[2000];

    (void)vtakit_fail(&error, status, what, got, want, UINT64_MAX);
    (void)vtakit_describe(&error, text, sizeof text);
    if (strlen(text) + 1 > most) {
        most = strlen(text) + 1;
    }
}

int main(void)
{
    static const char *const whats[] = {WHATS};
    int status;
    uint64_t code, other = 0; /* than all ones, in each field of the configuration, with as many digits */
    size_t n;

#define VTAKIT_X(name, shift, width) other |= (((uint64_t)1 << (width)) - 2) << (shift);
    VTAKIT_CONFIG_FIELDS(VTAKIT_X)
#undef VTAKIT_X
    for (status = VTAKIT_OK; status <= VTAKIT_MISUSE + 1; status++) {
        for (n = 0; n < sizeof whats / sizeof *whats; n++) {
            tell(status, whats[n], (uint64_t)1 << 63, UINT64_MAX >> 1);
            tell(status, whats[n], 0, UINT64_MAX);
            tell(status, whats[n], UINT64_MAX, other);
        }
        for (code = 0; code <= (VTAKIT_ERROR_FAULT | VTAKIT_ERROR_STAGE); code++) {
            tell(status, "", code, UINT64_MAX);
        }
    }
    (void)printf("%lu of %lu\n", (unsigned long)most, (unsigned long)VTAKIT_DESCRIPTION_BYTES);
    return most > VTAKIT_DESCRIPTION_BYTES;
}
