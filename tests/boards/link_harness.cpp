// The Verilated link beside a memory and registers that wait at random. Registers are those of `FakeBus` in link_support.py.
#include <cstdint>
#include <cstring>
#include <deque>

#include "Vlink.h"
#include "verilated.h"

namespace {

enum { ADDER = 0x10, POPPED = 0x14, OKAY = 0, SLVERR = 2, BEATS = 16, BYTES = 8, LATENCY = 5 };

struct Settings {
    uint8_t *memory;
    uint64_t size;
    uint32_t stall;  // percent of the cycles
    uint32_t seed;
    uint32_t pace;  // cycles for each byte that comes in, at most
    uint32_t board[16];  // registers from 0x1000 on
    uint32_t sum, pops;
};

struct Bench {
    Settings *settings;
    VerilatedContext context;
    Vlink model{&context};
    std::deque<uint8_t> in, out;
    uint32_t random;
    uint64_t quiet = 0, cycles = 0;
    uint32_t gap = 0;
    // Reads and writes under way: beats that are left, and where the next one is.
    uint32_t reads = 0, read_at = 0, writes = 0, write_at = 0;
    bool write_good = true, answer = false, register_write = false, register_answer = false, register_read = false;
    uint32_t register_value = 0, register_response = 0;
    const char *broken = nullptr;

    explicit Bench(Settings *given) : settings(given), random(given->seed * 2654435761u + 1) {
        model.rst = 1;
        for (int n = 0; n < 4; n++) edge();
        model.rst = 0;
        edge();
    }

    uint32_t draw() {
        random ^= random << 13;
        random ^= random >> 17;
        return random ^= random << 5;
    }

    bool ready() { return draw() % 100 >= settings->stall; }

    void edge() {
        model.clk = 1;
        model.eval();
        model.clk = 0;
        model.eval();
        cycles++;
    }

    void check(bool good, const char *what) {
        if (!good && !broken) broken = what;
    }

    void burst(uint32_t address, uint32_t length) {
        check(address % BYTES == 0, "a burst is not aligned");
        check(length < BEATS, "a burst is too long");
        check(address / (BYTES * BEATS) == (address + length * BYTES) / (BYTES * BEATS), "a burst crosses a multiple of its size");
    }

    void cycle() {
        // What this side offers in this cycle.
        if (gap) gap--;
        model.rx_valid = !in.empty() && !gap;
        model.rx_payload = model.rx_valid ? in.front() : draw() & 255;
        model.tx_ready = ready();
        model.ar_ready = !reads && ready();
        model.aw_ready = !writes && !answer && ready();
        bool gives = reads && ready();
        model.r_valid = gives;
        model.r_data = draw() | (uint64_t)draw() << 32;
        model.r_resp = OKAY;
        if (gives && (uint64_t)read_at + BYTES <= settings->size) memcpy(&model.r_data, settings->memory + read_at, BYTES);
        else if (gives) model.r_resp = SLVERR;
        model.r_last = reads == 1;
        model.w_ready = writes && ready();
        model.b_valid = answer && ready();
        model.b_resp = write_good ? OKAY : SLVERR;
        bool free = !register_write && !register_answer && !register_read;
        model.reg_aw_ready = free && ready();
        model.reg_w_ready = register_write && ready();
        model.reg_b_valid = register_answer && ready();
        model.reg_b_resp = register_response;
        model.reg_ar_ready = free && !model.reg_aw_valid && ready();
        model.reg_r_valid = register_read && ready();
        model.reg_r_data = register_value;
        model.reg_r_resp = register_response;
        model.eval();
        // What has moved.
        bool moved = false;
        if (model.rx_valid) {
            in.pop_front();
            gap = draw() % settings->pace;
            moved = true;
        }
        if (model.tx_valid && model.tx_ready) {
            out.push_back(model.tx_payload);
            moved = true;
        }
        if (gives) {
            check(model.r_ready, "the memory waits for the link to take what it reads");
            reads--;
            read_at += BYTES;
            moved = true;
        }
        if (model.ar_valid && model.ar_ready) {
            burst(model.ar_addr, model.ar_len);
            reads = model.ar_len + 1;
            read_at = model.ar_addr;
            moved = true;
        }
        if (model.b_valid && model.b_ready) answer = false, moved = true;
        if (model.w_ready) {
            check(model.w_valid, "the memory waits for the link to give what it writes");
            check(model.w_last == (writes == 1), "WLAST is wrong");
            if ((uint64_t)write_at + BYTES > settings->size) write_good = false;
            else
                for (int lane = 0; lane < BYTES; lane++)
                    if (model.w_strb >> lane & 1) settings->memory[write_at + lane] = model.w_data >> 8 * lane & 255;
            write_at += BYTES;
            if (!--writes) answer = true;
            moved = true;
        }
        if (model.aw_valid && model.aw_ready) {
            burst(model.aw_addr, model.aw_len);
            writes = model.aw_len + 1;
            write_at = model.aw_addr;
            write_good = true;
            moved = true;
        }
        registers(moved);
        quiet = moved ? 0 : quiet + 1;
        edge();
    }

    void registers(bool &moved) {
        if (model.reg_b_valid && model.reg_b_ready) register_answer = false, moved = true;
        if (model.reg_r_valid && model.reg_r_ready) register_read = false, moved = true;
        if (model.reg_w_ready && model.reg_w_valid) {
            register_write = false;
            register_answer = true;
            register_response = write_at_register == ADDER ? OKAY : SLVERR;
            if (write_at_register == ADDER) settings->sum += model.reg_w_data;
            moved = true;
        }
        if (model.reg_aw_valid && model.reg_aw_ready) {
            register_write = true;
            write_at_register = model.reg_aw_addr;
            moved = true;
        }
        if (model.reg_ar_valid && model.reg_ar_ready) {
            uint32_t at = model.reg_ar_addr;
            bool ours = at >= 0x1000 && at < 0x1000 + sizeof settings->board;
            register_read = true;
            register_response = at == ADDER || at == POPPED || ours ? OKAY : SLVERR;
            register_value = at == ADDER ? settings->sum : at == POPPED ? ++settings->pops : ours ? settings->board[(at - 0x1000) / 4] : 0;
            moved = true;
        }
    }

    uint32_t write_at_register = 0;
};

}  // namespace

extern "C" {

void *link_open(Settings *settings) { return new Bench(settings); }

// Gives the link bytes and runs it until nothing has moved for `quiet` cycles; returns how many bytes came, at most `most`.
uint64_t link_feed(void *handle, const uint8_t *data, uint64_t size, uint8_t *back, uint64_t most, uint64_t quiet) {
    Bench &bench = *static_cast<Bench *>(handle);
    bench.in.insert(bench.in.end(), data, data + size);
    bench.quiet = 0;
    while (bench.quiet < quiet || !bench.in.empty()) bench.cycle();
    uint64_t count = 0;
    while (count < most && !bench.out.empty()) back[count++] = bench.out.front(), bench.out.pop_front();
    return count;
}

uint64_t link_cycles(void *handle) { return static_cast<Bench *>(handle)->cycles; }

const char *link_broken(void *handle) { return static_cast<Bench *>(handle)->broken; }

void link_close(void *handle) { delete static_cast<Bench *>(handle); }
}
