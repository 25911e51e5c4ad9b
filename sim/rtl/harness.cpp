// The world around the Verilated accelerator: clock, reset, settings and an AXI4 memory, so that a run is one call.
//
// The memory answers reads in order, `latency` cycles after their address at the earliest and one beat a cycle, and accepts at most
// `outstanding` bursts of each direction. With `stall` percent every channel refuses or withholds a transfer in a cycle.

#include <cstdint>
#include <cstring>
#include <deque>

#include "Vvta.h"
#include "Vvta___024root.h"
#include "verilated.h"

namespace {

constexpr uint64_t kPage = 4096;

struct Burst {
    uint64_t address;
    int beats;
    uint64_t ready_cycle;  // the first beat is there from this cycle on
};

struct Random {
    uint64_t state;
    bool percent(uint32_t chance) {
        if (!chance) return false;
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        return (state >> 20) % 100 < chance;
    }
};

}  // namespace

extern "C" {

struct Settings {
    uint64_t insn_addr, insn_count, window_low, window_high, bases[6];
    uint64_t latency, outstanding, stall, seed, max_cycles;
};

enum Ending : uint64_t { kEnded, kTimeout, kPageCrossed, kDataWithoutAddress, kWrongLast, kOutsideMemory };

struct Report {
    uint64_t ending, cycles, done, fault, fault_index, fault_stage, causes[3][5], read_beats, write_beats;
};

void run(const Settings* s, uint8_t* dram, uint64_t size, uint8_t* acc, uint64_t acc_size, Report* report) {
    VerilatedContext context;
    Vvta top{&context};
    Random random{s->seed * 0x9e3779b97f4a7c15ull + 1};
    *report = Report{};

    top.clk = 0, top.rst = 1, top.eval();
    top.clk = 1, top.eval();
    top.clk = 0, top.rst = 0;
    top.insn_addr = s->insn_addr, top.insn_count = s->insn_count;
    top.window_low = s->window_low, top.window_high = s->window_high;
    top.base_uop = s->bases[0], top.base_wgt = s->bases[1], top.base_inp = s->bases[2];
    top.base_acc = s->bases[3], top.base_out = s->bases[4], top.base_acc_8bit = s->bases[5];
    top.start = 1;

    std::deque<Burst> reads, writes;
    std::deque<uint64_t> answers;  // cycle from which each write's answer is there
    int read_beat = 0, write_beat = 0;
    bool offers_read = false, offers_answer = false;
    uint64_t cycle = 0;
    for (; cycle < s->max_cycles && report->ending == kEnded; cycle++) {
        if (cycle > 1 && !top.busy) break;
        // Drive. What was offered and not taken stays, as AXI demands.
        top.arready = reads.size() < s->outstanding && !random.percent(s->stall);
        top.awready = writes.size() + answers.size() < s->outstanding && !random.percent(s->stall);
        top.wready = !random.percent(s->stall);
        offers_read = offers_read || (!reads.empty() && reads.front().ready_cycle <= cycle && !random.percent(s->stall));
        offers_answer = offers_answer || (!answers.empty() && answers.front() <= cycle && !random.percent(s->stall));
        top.rvalid = offers_read, top.bvalid = offers_answer;
        if (offers_read) {
            const uint64_t at = reads.front().address + uint64_t(read_beat) * BUS_BYTES;
            uint8_t beat[BUS_BYTES] = {};
            if (at < size) std::memcpy(beat, dram + at, size - at < BUS_BYTES ? size - at : BUS_BYTES);
            std::memcpy(&top.rdata, beat, BUS_BYTES);
            top.rlast = read_beat + 1 == reads.front().beats;
        }
        top.eval();

        // See what is transferred at this clock edge.
        report->causes[0][top.cause_load]++, report->causes[1][top.cause_compute]++, report->causes[2][top.cause_store]++;
        const bool ar = top.arvalid && top.arready, r = top.rvalid && top.rready;
        const bool aw = top.awvalid && top.awready, w = top.wvalid && top.wready, b = top.bvalid && top.bready;
        const Burst new_read{top.araddr, top.arlen + 1, cycle + s->latency};
        const Burst new_write{top.awaddr, top.awlen + 1, 0};
        const uint64_t strobes = top.wstrb;
        const bool last = top.wlast;
        uint8_t data[BUS_BYTES];
        std::memcpy(data, &top.wdata, BUS_BYTES);
        top.clk = 1, top.eval();
        top.clk = 0, top.start = 0;

        for (const auto& [taken, burst] : {std::pair{ar, new_read}, std::pair{aw, new_write}})
            if (taken && burst.address % kPage + uint64_t(burst.beats) * BUS_BYTES > kPage) report->ending = kPageCrossed;
        if (ar) reads.push_back(new_read);
        if (r) {
            report->read_beats++, offers_read = false;
            if (++read_beat == reads.front().beats) read_beat = 0, reads.pop_front();
        }
        if (aw) writes.push_back(new_write);
        if (w && writes.empty()) {
            report->ending = kDataWithoutAddress;
        } else if (w) {
            const uint64_t at = writes.front().address + uint64_t(write_beat) * BUS_BYTES;
            for (int i = 0; i < BUS_BYTES; i++) {
                if (!(strobes >> i & 1)) continue;
                if (at + i >= size) report->ending = kOutsideMemory;
                else dram[at + i] = data[i];
            }
            report->write_beats++, write_beat++;
            if (last != (write_beat == writes.front().beats)) report->ending = kWrongLast;
            if (last) write_beat = 0, writes.pop_front(), answers.push_back(cycle + s->latency);
        }
        if (b) offers_answer = false, answers.pop_front();
    }
    if (cycle == s->max_cycles && top.busy) report->ending = kTimeout;
    report->cycles = cycle;
    report->done = top.done, report->fault = top.fault;
    report->fault_index = top.fault_index, report->fault_stage = top.fault_stage;
    std::memcpy(acc, &top.rootp->ACC_MEMORY[0], acc_size);
    top.final();
}

}  // extern "C"
