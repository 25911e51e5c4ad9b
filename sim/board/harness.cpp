// A board around the Verilated content of its FPGA: clock, reset, an SDRAM chip that checks its commands (sdram.h), and a host.
//
// The host stands at the pins of a serial line, 8N1, or of USB (usb_host.h). Python decides what it says; here are the bits.
//
// The model's only inputs are clocks (sim/rtl/wrapper.py): what stands at the pins in a cycle is put into variables before the edge
// that begins it. Where the memory has a clock of its own (MEMORY_CLOCK), edges of both come in the order of their times, and the
// memory's is first where they meet. USB (USB) has two clocks in step, 12 and 48 MHz; its edges are behind the memory's.

#include "harness.h"

#include <cstdint>
#include <cstring>
#include <deque>
#include <string>

#include "Vboard.h"
#include "Vboard___024root.h"
#include "sdram.h"
#include "verilated.h"
void Vboard___024root___eval_nba(Vboard___024root* root);  // Verilator's: what happens at the edges that are marked as met

#if defined(MEMORY_CLOCK) || defined(USB)
#define MANY_CLOCKS
#endif
#define IN(name) outside__DOT__next_##name

namespace {

constexpr int kResetCycles = 4;

// A serial line as the host sees it: bits of `divisor` clocks, a start bit, eight bits, lowest first, a stop bit.
class Serial {
  public:
    explicit Serial(int divisor) : divisor_{divisor} {}

    std::deque<uint8_t> to_board, from_board;
    bool garbled = false;  // a byte of the board had no stop bit

    // The level of the board's input in the next clock.
    bool drive() {
        if (!sending_ && !to_board.empty()) bits_ = to_board.front() << 1 | 0x200, to_board.pop_front(), sending_ = 10 * divisor_;
        if (!sending_) return true;
        const int bit = (10 * divisor_ - sending_--) / divisor_;
        return bits_ >> bit & 1;
    }

    // The level of the board's output in a clock.
    void sample(bool level) {
        if (!receiving_) {
            if (!level) receiving_ = 1, byte_ = 0;
            return;
        }
        const int at = receiving_++;
        if (at % divisor_ != divisor_ / 2) return;
        const int bit = at / divisor_;
        if (bit == 0 && level) receiving_ = 0;  // a spike
        if (bit >= 1 && bit <= 8) byte_ |= level << (bit - 1);
        if (bit < 9) return;
        if (level) from_board.push_back(byte_);
        else garbled = true;
        receiving_ = 0;
    }

  private:
    const int divisor_;
    int sending_ = 0, receiving_ = 0;
    uint32_t bits_ = 0;
    uint8_t byte_ = 0;
};

}  // namespace

#ifdef USB
using Line = UsbHost;
#define LINE s.usb
#else
using Line = Serial;
#define LINE int(s.divisor)
#endif

struct board_model {
    explicit board_model(const board_settings& settings)
        : s{settings}, chip{s.chip, s.memory}, line{LINE}, top{&context}, pins{*top.rootp} {
        top.clk = 0, top.eval();
        reset(1);
        for (int i = 0; i < kResetCycles; i++) edge();
        while (!all_reset()) edge();
        reset(0);
        drive();
        edge();
    }

    void reset(bool level) {
        pins.IN(rst) = level;
#ifdef MEMORY_CLOCK
        pins.IN(memory_rst) = level;
#endif
#ifdef USB
        pins.IN(usb_rst) = pins.IN(usb_io_rst) = level;
#endif
    }

    // One cycle; false where the chip found an error.
    bool step() {
#ifndef MEMORY_CLOCK
        if (!chip_clock()) return false;
#endif
#ifndef USB
        line.sample(pins.tx);
#endif
        cycle++;
        drive();
        return edge();
    }

    // One clock of the chip, up to its next edge; false where it found an error.
    bool chip_clock() {
        const Sdram::Pins at{bool(pins.cke), bool(pins.cs_n), bool(pins.ras_n), bool(pins.cas_n), bool(pins.we_n), pins.ba, pins.a,
                             pins.dqm, pins.dq_o, bool(pins.dq_oe)};
        chip.clock(at);
        if (!chip.error().empty()) return false;
        uint32_t word;
        chip.drives(word);
        pins.IN(dq_i) = word;
        return true;
    }

#ifdef USB
    void drive() {}
    // Every domain has had edges in reset; 12 MHz is the slowest.
    bool all_reset() const { return usb_ticks > 4 * kResetCycles; }
#else
    void drive() { pins.IN(rx) = line.drive(); }
    bool all_reset() const { return true; }
#endif

#ifdef MANY_CLOCKS
    // The next edge of the board's clock, behind those of others that come before it; false where the chip or the host found an error.
    bool edge() {
        now += s.period;
#ifdef MEMORY_CLOCK
        for (; memory_at <= now; memory_at += s.chip.period) {
            if (chip_runs && !chip_clock()) return false;
            chip_runs = !pins.IN(memory_rst);
            top.clk = 0, top.memory_clk = 1, top.eval();
            top.memory_clk = 0, top.eval();
        }
#endif
#ifdef USB
        for (; usb_ticks * 62500 / 3 <= now; usb_ticks++) {
            const auto level = line.tick({bool(pins.d_p_o), bool(pins.d_n_o), bool(pins.drive), bool(pins.pull_up)});
            pins.IN(d_p_i) = level.plus, pins.IN(d_n_i) = level.minus;
            top.clk = 0;
            if (top.usb_io_clk) top.usb_io_clk = top.usb_clk = 0, top.eval();
            top.usb_io_clk = 1, top.usb_clk = usb_ticks % 4 == 0, top.eval();
            if (!line.error().empty()) return false;
        }
#endif
        // Nothing happens at a falling edge, so a clock falls with the rise of another one where it can.
#ifdef USB
        top.usb_io_clk = top.usb_clk = 0;
#endif
        if (top.clk) top.clk = 0, top.eval();
        top.clk = 1, top.eval();
        return true;
    }

    uint64_t now = 0, memory_at = 0, usb_ticks = 0;  // of the edges, in picoseconds, and those of 48 MHz that have been
    bool chip_runs = false;                          // the memory has had an edge without reset
#else
    bool edge() {
        pins.__VnbaTriggered[0] = 1;
        Vboard___024root___eval_nba(&pins);
        return true;
    }
#endif

    const board_settings s;
    Sdram chip;
    Line line;
    VerilatedContext context;
    Vboard top;
    Vboard___024root& pins;
    uint64_t cycle = 0;
};

extern "C" {

board_model* board_open(const board_settings* settings) { return new board_model{*settings}; }

// Simulates so many cycles; 0 where the chip has found an error.
int board_advance(board_model* model, uint64_t cycles) {
    Verilated::threadContextp(&model->context);
    for (; cycles; cycles--)
        if (!model->step()) return 0;
    return 1;
}

void board_send(board_model* model, const uint8_t* bytes, uint64_t count) {
    model->line.to_board.insert(model->line.to_board.end(), bytes, bytes + count);
}

// Bytes that have come, at most so many. While none have, simulates at most `cycles`. -1 where the chip has found an error, -2 where
// the line was garbled.
int64_t board_receive(board_model* model, uint8_t* bytes, uint64_t most, uint64_t cycles) {
    Verilated::threadContextp(&model->context);
    auto& come = model->line.from_board;
    for (; cycles && come.empty(); cycles--)
        if (!model->step()) return -1;
#ifndef USB
    if (model->line.garbled) return -2;
#endif
    uint64_t count = 0;
    for (; count < most && !come.empty(); come.pop_front()) bytes[count++] = come.front();
    return count;
}
void board_counts(const board_model* model, uint64_t* counts) {
    const Sdram& chip = model->chip;
    counts[0] = model->cycle, counts[1] = chip.activates, counts[2] = chip.reads, counts[3] = chip.writes, counts[4] = chip.refreshes;
}

// What the chip found, or the host on USB; empty if nothing.
const char* board_error(const board_model* model) {
#ifdef USB
    if (model->chip.error().empty()) return model->line.error().c_str();
#endif
    return model->chip.error().c_str();
}

void board_close(board_model* model) {
    Verilated::threadContextp(&model->context);
    model->top.final();
    delete model;
}

}  // extern "C"
