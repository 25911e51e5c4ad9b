/* A page of registers that another process has: each access to it traps, and is made there, over a socket.
 *
 * An access faults, because nobody may touch the page. The handler puts what the other process reads into the page and lets the
 * instruction run by itself; behind it, the processor traps once more, what a write has put there goes to the other process, and the
 * page is closed again. This is for x86-64, whose page faults say whether they were writes and whose trap flag stops after an
 * instruction. Faults elsewhere go to the handlers that were there before.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum { WRITES = 2, TRAP_FLAG = 0x100, READ = 0, WRITE = 1, REFUSED = 1, BROKEN = 71, NOISE = 0xa5 };

struct message {
    uint32_t kind, offset, value; /* of an answer: refused or not, the same, what was read */
};

static struct sigaction before_fault, before_step;
static unsigned char *page;
static size_t size;
static int line;
static uint32_t offset;
static int writing;
static volatile uint32_t wrong; /* accesses that were refused, or not of one aligned word */

static void move(void *data, size_t bytes, int out)
{
    unsigned char *at = data;

    while (bytes) {
        const ssize_t done = out ? write(line, at, bytes) : read(line, at, bytes);
        if (done <= 0) {
            _exit(BROKEN);
        }
        at += done;
        bytes -= (size_t)done;
    }
}

static uint32_t ask(uint32_t kind, uint32_t value)
{
    struct message message;

    message.kind = kind;
    message.offset = offset;
    message.value = value;
    move(&message, sizeof message, 1);
    move(&message, sizeof message, 0);
    wrong += message.kind == REFUSED;
    return message.value;
}

static void protect(int access)
{
    if (mprotect(page, size, access)) {
        _exit(BROKEN);
    }
}

static void on_fault(int number, siginfo_t *info, void *context)
{
    ucontext_t *const machine = context;
    const uintptr_t at = (uintptr_t)info->si_addr - (uintptr_t)page;

    if (at >= size) {
        (void)sigaction(number, &before_fault, NULL); /* the instruction faults again */
        return;
    }
    offset = (uint32_t)at;
    writing = (machine->uc_mcontext.gregs[REG_ERR] & WRITES) != 0;
    protect(PROT_READ | PROT_WRITE);
    memset(page, NOISE, size);
    wrong += at % sizeof(uint32_t) != 0;
    if (!writing && at % sizeof(uint32_t) == 0) {
        const uint32_t value = ask(READ, 0);
        memcpy(page + at, &value, sizeof value);
    }
    machine->uc_mcontext.gregs[REG_EFL] |= TRAP_FLAG;
}

static void on_step(int number, siginfo_t *info, void *context)
{
    ucontext_t *const machine = context;

    (void)info;
    if (!page || !(machine->uc_mcontext.gregs[REG_EFL] & TRAP_FLAG)) {
        (void)sigaction(number, &before_step, NULL);
        return;
    }
    if (writing) {
        uint32_t value;
        size_t n;

        memcpy(&value, page + offset, sizeof value);
        memset(page + offset, NOISE, sizeof value);
        for (n = 0; n < size; n++) {
            if (page[n] != NOISE) {
                wrong++; /* it wrote more than the word */
                break;
            }
        }
        (void)ask(WRITE, value);
    }
    protect(PROT_NONE);
    machine->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
}

static void handle(int number, void (*handler)(int, siginfo_t *, void *), struct sigaction *before)
{
    struct sigaction action;

    memset(&action, 0, sizeof action);
    action.sa_sigaction = handler;
    action.sa_flags = SA_SIGINFO;
    if (sigaction(number, &action, before)) {
        _exit(BROKEN);
    }
}

void trap_page(void *where, size_t bytes, int to)
{
    page = where;
    size = bytes;
    line = to;
    wrong = 0;
    handle(SIGSEGV, on_fault, &before_fault);
    handle(SIGTRAP, on_step, &before_step);
    protect(PROT_NONE);
}

/* Returns the number of accesses that were wrong. */
uint32_t free_page(void)
{
    protect(PROT_READ | PROT_WRITE);
    (void)sigaction(SIGSEGV, &before_fault, NULL);
    (void)sigaction(SIGTRAP, &before_step, NULL);
    page = NULL;
    return wrong;
}
