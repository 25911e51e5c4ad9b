// Random traffic for an SDRAM controller beside a checking chip (sdram.h), as a C library.
//
// Reads and writes are in flight at once. A read never overlaps a write that has not been answered, nor a write a read under way, since
// AXI orders neither; so each beat read has one right value. At the end the whole memory is compared.

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "Vboard.h"
#include "Vboard___024root.h"
#include "recorded_pins.h"
#include "sdram.h"
#include "verilated.h"

#define IN(name) outside__DOT__next_##name

namespace {

constexpr int kBytes = BUS_BYTES;
constexpr uint64_t kPage = 4096;

class Random {
  public:
    explicit Random(uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15ull + 1} { for (int i = 0; i < 8; i++) next(); }
    uint64_t next() { return state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17; }
    uint64_t below(uint64_t n) { return (next() >> 16) % n; }
    bool percent(uint64_t chance) { return below(100) < chance; }

  private:
    uint64_t state_;
};

struct Burst {
    uint64_t address;
    int beats, sent;
    std::vector<uint8_t> data, strobes;
};

}  // namespace

extern "C" {

enum pattern { kUniform, kRows, kSequential, kStreams, kReplay };

struct replayed { uint64_t address; uint32_t beats, writes; };

struct bench_settings {
    struct sdram_chip chip;
    uint8_t* memory;
    uint8_t* wanted;     // the same size; both are filled here
    uint64_t size, seed, pattern, requests, write_percent, stall, pause, rests, max_cycles;
    const struct replayed* trace;
    uint64_t* record;     // for the pins of each edge, or null: `recorded`
    uint64_t record_most; // edges that it holds
};

struct bench_result {
    uint64_t cycles, first_cycle, read_beats, write_beats, activates, reads, writes, refreshes;
    char error[320];
};

void bench_run(const bench_settings* s, bench_result* result) {
    VerilatedContext context;
    Vboard top{&context};
    auto& pins = *top.rootp;
    Sdram chip{s->chip, s->memory};
    Random random{s->seed};
    for (uint64_t i = 0; i < s->size; i += 8) {
        const uint64_t word = random.next();
        std::memcpy(s->memory + i, &word, 8);
    }
    std::memcpy(s->wanted, s->memory, s->size);
    std::deque<Burst> reads, writes;           // under way: offered, or taken and not answered
    size_t reads_taken = 0, writes_taken = 0;  // addresses taken, from the front of each
    size_t data_at = 0;                        // the burst whose data are sent, in `writes`
    uint64_t made = 0, rest = 0, stream_at[4] = {};
    for (auto& at : stream_at) at = random.below(s->size / kPage) * kPage;
    bool ar_valid = false, aw_valid = false, w_valid = false;
    std::string error;
    auto told = [&](const char* what, uint64_t address, uint64_t got, uint64_t want) {
        char text[256];
        std::snprintf(text, sizeof text, "%s at address 0x%llx: got 0x%llx, want 0x%llx", what, (unsigned long long)address,
                      (unsigned long long)got, (unsigned long long)want);
        if (error.empty()) error = text;
    };
    auto overlaps = [](const std::deque<Burst>& bursts, const Burst& with) {
        for (const Burst& b : bursts)
            if (b.address < with.address + with.beats * kBytes && with.address < b.address + b.beats * kBytes) return true;
        return false;
    };
    // Whether a request was made; it may overlap what is under way, and then is drawn anew later.
    auto draw = [&]() {
        Burst burst{};
        bool writing = random.percent(s->write_percent);
        int stream = 0;
        if (s->pattern == kReplay) {
            const replayed& next = s->trace[made];
            burst.address = next.address, burst.beats = next.beats, writing = next.writes;
        } else if (s->pattern == kSequential) {
            burst.beats = BURST_BEATS, burst.address = stream_at[0];
        } else if (s->pattern == kStreams) {
            stream = random.below(4);
            writing = stream == 3;
            burst.beats = BURST_BEATS, burst.address = stream_at[stream];
        } else {
            burst.beats = random.percent(40) ? BURST_BEATS : 1 + random.below(BURST_BEATS);
            const uint64_t far = s->pattern == kRows ? std::min<uint64_t>(s->size, 64 * 1024) : s->size;
            burst.address = random.below(far / kBytes) * kBytes;
            if (random.percent(30)) burst.address &= ~uint64_t(kPage - 1);
            if (burst.address % kPage + burst.beats * kBytes > kPage) burst.beats = (kPage - burst.address % kPage) / kBytes;
            if (burst.address + burst.beats * kBytes > s->size) return false;
        }
        auto& mine = writing ? writes : reads;
        if (mine.size() >= 12 || overlaps(reads, burst) || overlaps(writes, burst)) return false;
        if (s->pattern == kSequential) stream_at[0] = (stream_at[0] + burst.beats * kBytes) % s->size;
        if (s->pattern == kStreams) stream_at[stream] = (stream_at[stream] + burst.beats * kBytes) % s->size;
        if (writing) {
            burst.data.resize(burst.beats * kBytes), burst.strobes.resize(burst.beats * kBytes);
            for (auto& each : burst.data) each = random.next() >> 24;
            const int kind = random.below(3);
            for (auto& each : burst.strobes) each = kind == 0 || (kind == 1 ? random.percent(50) : random.percent(5));
            for (int i = 0; i < burst.beats * kBytes; i++)
                if (burst.strobes[i]) s->wanted[burst.address + i] = burst.data[i];
        }
        mine.push_back(std::move(burst)), made++;
        return true;
    };
    auto edge = [&]() {
        top.clk = 0, top.eval(), top.clk = 1, top.eval();
    };
    pins.IN(rst) = 1;
    for (int i = 0; i < 3; i++) edge();
    pins.IN(rst) = 0;
    edge();
    *result = {};
    uint64_t cycle = 0;
    for (; cycle < s->max_cycles && error.empty(); cycle++) {
        // The end of a cycle: what is transferred.
        if (ar_valid && pins.ar_ready) ar_valid = false, reads_taken++;
        if (aw_valid && pins.aw_ready) aw_valid = false, writes_taken++;
        if (w_valid && pins.w_ready) {
            w_valid = false, result->write_beats++;
            Burst& burst = writes[data_at];
            if (++burst.sent == burst.beats) data_at++;
        }
        if (pins.r_valid && pins.IN(r_ready)) {
            result->read_beats++;
            if (!reads_taken) { told("a beat that nobody asked for", 0, 0, 0); break; }
            Burst& burst = reads.front();
            const uint64_t at = burst.address + uint64_t(burst.sent) * kBytes;
            const uint8_t* got = reinterpret_cast<const uint8_t*>(&pins.r_data);
            for (int i = 0; i < kBytes; i++)
                if (got[i] != s->wanted[at + i]) { told("read of a byte", at + i, got[i], s->wanted[at + i]); break; }
            const bool last = ++burst.sent == burst.beats;
            if (last != bool(pins.r_last)) told("RLAST", at, pins.r_last, last);
            if (last) reads.pop_front(), reads_taken--;
        }
        if (pins.b_valid && pins.IN(b_ready)) {
            if (!writes_taken || !data_at) { told("an answer that nobody asked for", 0, 0, 0); break; }
            writes.pop_front(), writes_taken--, data_at--;
        }
        Sdram::Pins at{bool(pins.cke), bool(pins.cs_n), bool(pins.ras_n), bool(pins.cas_n), bool(pins.we_n), pins.ba, pins.a,
                       pins.dqm, pins.dq_o, bool(pins.dq_oe)};
        chip.clock(at);
        if (cycle < s->record_most) s->record[cycle] = recorded(at);
        if (!chip.error().empty()) { error = chip.error(); break; }
        if (made == s->requests && reads.empty() && writes.empty()) break;
        // The next cycle.
        uint32_t word;
        chip.drives(word);
        pins.IN(dq_i) = word;
        if (pins.ready) {
            if (!result->first_cycle) result->first_cycle = cycle;
            if (s->rests && !rest && random.below(2000) < s->rests) rest = random.below(3000);  // nothing is asked for
            if (rest) rest--;
            for (int tries = rest ? 2 : 0; tries < 2 && made < s->requests && !random.percent(s->pause); tries++) draw();
        }
        if (!ar_valid && reads.size() > reads_taken && !random.percent(s->stall)) {
            const Burst& burst = reads[reads_taken];
            ar_valid = true, pins.IN(ar_addr) = burst.address, pins.IN(ar_len) = burst.beats - 1;
        }
        if (!aw_valid && writes.size() > writes_taken && !random.percent(s->stall)) {
            const Burst& burst = writes[writes_taken];
            aw_valid = true, pins.IN(aw_addr) = burst.address, pins.IN(aw_len) = burst.beats - 1;
        }
        if (!w_valid && data_at < writes.size() && !random.percent(s->stall)) {
            const Burst& burst = writes[data_at];
            w_valid = true, pins.IN(w_last) = burst.sent + 1 == burst.beats;
            std::memcpy(&pins.IN(w_data), &burst.data[burst.sent * kBytes], kBytes);
            uint64_t strobes = 0;
            for (int i = 0; i < kBytes; i++) strobes |= uint64_t(burst.strobes[burst.sent * kBytes + i]) << i;
            pins.IN(w_strb) = strobes;
        }
        pins.IN(ar_valid) = ar_valid, pins.IN(aw_valid) = aw_valid, pins.IN(w_valid) = w_valid;
        pins.IN(r_ready) = !random.percent(s->stall), pins.IN(b_ready) = !random.percent(s->stall);
        edge();
    }
    if (error.empty() && (made != s->requests || !reads.empty() || !writes.empty())) error = "requests were not answered in time";
    for (uint64_t i = 0; error.empty() && i < s->size; i++)
        if (s->memory[i] != s->wanted[i]) told("memory holds a wrong byte", i, s->memory[i], s->wanted[i]);
    result->cycles = cycle;
    result->activates = chip.activates, result->reads = chip.reads, result->writes = chip.writes, result->refreshes = chip.refreshes;
    std::snprintf(result->error, sizeof result->error, "%s", error.c_str());
    top.final();
}

}  // extern "C"
