// The world around the Verilated accelerator, so that a run is one call: clock, reset, a host that works off a list of register
// accesses and then perhaps further lists, and an AXI4 memory.
//
// The model's only input is the clock (wrapper.py): what stands at the pins in a cycle is put into variables before the edge that
// begins it, and the accelerator's answer in that cycle is read before the edge that ends it.
//
// The memory answers reads in order, `latency` cycles after their address at the earliest, moves at most `bandwidth` percent of a
// beat a cycle in each direction, and accepts at most `outstanding` bursts of each. With `stall` percent every channel, the
// registers' included, refuses or withholds a transfer in a cycle; some seeds then want all data of a burst before its address, or
// both offered before they take either. With a DRAM behind the port (dram.h), beats and answers come when that has moved their data,
// and `latency` is the time to its queue. It answers SLVERR to the beat or burst that holds byte `read_error` or `write_error`, and
// DECERR beyond its end. It also checks the protocol.
//
// With PINS_ONLY the model has pins alone, as one made of a netlist: there is no trace, the accumulator reads as zeros, and a DRAM goes
// on between programs as it stands.

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vvta.h"
#include "Vvta___024root.h"
#include "dram.h"
#include "harness.h"
#include "verilated.h"
void Vvta___024root___eval_nba(Vvta___024root* root);  // Verilator's: what happens at the edges that are marked as met

#if defined(WAVE_VCD)
#include <fcntl.h>
#include <unistd.h>

#include "verilated_vcd_c.h"
using Wave = VerilatedVcdC;
#elif defined(WAVE_FST)
#include <fstream>

#include "verilated_fst_c.h"
using Wave = VerilatedFstC;
#endif

// An input of the accelerator: what it will be from the next clock edge on.
#define IN(name) outside__DOT__next_##name

namespace {

using Pins = Vvta___024root;
using Ending = vta_ending;
using Op = vta_op;
using Event = vta_event;
using Settings = vta_settings;
using Model = vta_model;

constexpr uint64_t kPage = 4096;
constexpr uint8_t kSlvErr = 2, kDecErr = 3;
constexpr size_t kMostEarlyBeats = 256;  // write data that the memory takes before their address: the longest burst there is
constexpr int kStages = 3, kPollCycles = 32, kResetCycles = 4;
constexpr uint64_t kIndexMask = (1ull << INDEX_BITS) - 1;

enum Patience : uint64_t { kAny, kDataFirst, kBoth };  // what the memory waits for before it takes a write's address or data
enum EventKind : uint32_t { kCause, kStart, kRetire, kEnd };

class Random {
  public:
    explicit Random(uint64_t seed) : state_{seed * 0x9e3779b97f4a7c15ull + 1} {}
    bool percent(uint64_t chance) {
        if (!chance) return false;
        state_ ^= state_ << 13, state_ ^= state_ >> 7, state_ ^= state_ << 17;
        return (state_ >> 20) % 100 < chance;
    }

  private:
    uint64_t state_;
};

struct Burst {
    uint64_t address;
    int beats;
    uint64_t ready_cycle;  // the first beat is there from this cycle on
};

// Data of a write: AXI lets them come before their address.
struct Beat {
    uint64_t strobes;
    bool last;
    uint8_t data[BUS_BYTES];
};

// What a channel of the accelerator offers.
struct Offer {
    uint64_t valid, a, b;
    uint8_t data[BUS_BYTES];
};

// A limit of `percent` of a beat a cycle: within any n cycles, n * percent / 100 beats, rounded up.
class Rate {
  public:
    explicit Rate(uint64_t percent) : percent_{percent} {}
    // What is not used now is lost, but for the fraction of a beat that is left over.
    void tick() { credit_ = std::min<uint64_t>(credit_, 99) + percent_; }
    bool allows() const { return credit_ >= 100; }
    void take() { credit_ -= 100; }

  private:
    uint64_t percent_, credit_ = 0;
};

class Memory {
  public:
    Memory(const Settings& s, Random& random)
        : s_{s}, random_{random}, patience_{s.stall ? Patience(s.seed % 3) : kAny}, read_rate_{s.bandwidth},
          write_rate_{s.bandwidth}, dram_{s.dram_chip} {}

    // What was offered and not taken stays, as AXI demands.
    void drive(Pins& pins, uint64_t cycle) {
        read_rate_.tick(), write_rate_.tick();
#ifdef PINS_ONLY
        dram_.drive(cycle, true);
#else
        dram_.drive(cycle, pins.BUSY);
#endif
        pins.IN(m_axi_arready) = reads_.size() < s_.outstanding && !random_.percent(s_.stall);
        const bool may_aw = writes_.size() + answers_.size() < s_.outstanding && !random_.percent(s_.stall);
        const bool may_w = data_.size() < kMostEarlyBeats && write_rate_.allows() && !random_.percent(s_.stall);
        if (patience_ == kBoth) {  // a burst's address and its first beat in one cycle; what stands now still does in the next
            const bool stand = pins.m_axi_awvalid && !pins.IN(m_axi_awready) && pins.m_axi_wvalid && !pins.IN(m_axi_wready);
            const bool begins = writes_.empty() && stand && may_aw && may_w;
            pins.IN(m_axi_awready) = begins, pins.IN(m_axi_wready) = begins || (!writes_.empty() && may_w);
        } else {
            pins.IN(m_axi_awready) = may_aw && (patience_ == kAny || early_bursts_), pins.IN(m_axi_wready) = may_w;
        }
        const bool read_ready = dram_.exists() ? dram_.beats : !reads_.empty() && reads_.front().ready_cycle <= cycle;
        const bool answer_ready = dram_.exists() ? dram_.answers : !answers_.empty() && answers_.front().first <= cycle;
        if (!pins.IN(m_axi_rvalid) && read_ready && read_rate_.allows() && !random_.percent(s_.stall))
            offer_read(pins), dram_.beats--;
        if (!pins.IN(m_axi_bvalid) && answer_ready && !random_.percent(s_.stall))
            pins.IN(m_axi_bvalid) = 1, pins.IN(m_axi_bresp) = answers_.front().second, dram_.answers--;
    }

    // What is transferred at the end of a cycle; to be called before that edge, and before the next cycle's `drive`.
    Ending sample(Pins& pins, uint64_t cycle) {
        const bool aw = pins.m_axi_awvalid && pins.IN(m_axi_awready), ar = pins.m_axi_arvalid && pins.IN(m_axi_arready);
        Ending ending = held(pins);
        if (ar) {
            reads_.push_back({pins.m_axi_araddr, pins.m_axi_arlen + 1, cycle + s_.latency}), check(reads_.back(), ending);
            dram_.read(to_dram(reads_.back(), cycle));
        }
        if (aw) writes_.push_back({pins.m_axi_awaddr, pins.m_axi_awlen + 1, 0}), check(writes_.back(), ending);
        if (pins.m_axi_arvalid && (pins.m_axi_arburst != 1 || 1 << pins.m_axi_arsize != BUS_BYTES)) ending = VTA_WRONG_BURST;
        if (pins.m_axi_awvalid && (pins.m_axi_awburst != 1 || 1 << pins.m_axi_awsize != BUS_BYTES)) ending = VTA_WRONG_BURST;
        if (pins.IN(m_axi_rvalid) && pins.m_axi_rready) {
            pins.IN(m_axi_rvalid) = 0, read_beats++, read_rate_.take();
            if (++read_beat_ == reads_.front().beats) read_beat_ = 0, reads_.pop_front();
        }
        if (pins.m_axi_wvalid && pins.IN(m_axi_wready)) {
            write_beats++, write_rate_.take();
            Beat& beat = data_.emplace_back();
            beat.strobes = pins.m_axi_wstrb, beat.last = pins.m_axi_wlast;
            std::memcpy(beat.data, &pins.m_axi_wdata, BUS_BYTES);
            early_bursts_ += beat.last;
        }
        for (; !data_.empty() && !writes_.empty(); data_.pop_front())
            if (!write(data_.front(), cycle)) ending = VTA_WRONG_LAST;
        if (pins.IN(m_axi_bvalid) && pins.m_axi_bready) pins.IN(m_axi_bvalid) = 0, answers_.pop_front();
        return ending;
    }

    uint64_t read_beats = 0, write_beats = 0;

  private:
    void offer_read(Pins& pins) {
        const uint64_t at = reads_.front().address + uint64_t(read_beat_) * BUS_BYTES;
        if (at + BUS_BYTES <= s_.dram_size) {
            std::memcpy(&pins.IN(m_axi_rdata), s_.dram + at, BUS_BYTES);
        } else {
            std::memset(&pins.IN(m_axi_rdata), 0, BUS_BYTES);
            if (at < s_.dram_size) std::memcpy(&pins.IN(m_axi_rdata), s_.dram + at, s_.dram_size - at);
        }
        pins.IN(m_axi_rvalid) = 1;
        pins.IN(m_axi_rlast) = read_beat_ + 1 == reads_.front().beats;
        pins.IN(m_axi_rresp) = at >= s_.dram_size ? kDecErr : at <= s_.read_error && s_.read_error < at + BUS_BYTES ? kSlvErr : 0;
    }

    // Writes a beat of the oldest burst; false if WLAST is wrong.
    bool write(const Beat& beat, uint64_t cycle) {
        const uint64_t at = writes_.front().address + uint64_t(write_beat_) * BUS_BYTES;
        if (at <= s_.write_error && s_.write_error < at + BUS_BYTES) answer_ = kSlvErr;
        for (int i = 0; i < BUS_BYTES; i++) {
            if (!(beat.strobes >> i & 1)) continue;
            if (at + i >= s_.dram_size) answer_ = kDecErr;
            else s_.dram[at + i] = beat.data[i];
        }
        early_bursts_ -= beat.last;
        const bool last = ++write_beat_ == writes_.front().beats;
        if (last) {
            dram_.write(to_dram(writes_.front(), cycle));
            write_beat_ = 0, writes_.pop_front(), answers_.push_back({cycle + s_.latency, answer_}), answer_ = 0;
        }
        return beat.last == last;
    }

    DramBurst to_dram(const Burst& burst, uint64_t cycle) const {
        return {int64_t(burst.address), int64_t(burst.beats) * BUS_BYTES, cycle + s_.latency};
    }

    static void check(const Burst& burst, Ending& ending) {
        if (burst.address % kPage + uint64_t(burst.beats) * BUS_BYTES > kPage) ending = VTA_PAGE_CROSSED;
        if (burst.address % BUS_BYTES) ending = VTA_WRONG_BURST;
    }

    // An offer of the accelerator that was not taken must stand unchanged in the next cycle.
    Ending held(Pins& pins) {
        std::array<Offer, 3> now{};
        now[0] = {pins.m_axi_arvalid, pins.m_axi_araddr, pins.m_axi_arlen, {}};
        now[1] = {pins.m_axi_awvalid, pins.m_axi_awaddr, pins.m_axi_awlen, {}};
        now[2] = {pins.m_axi_wvalid, pins.m_axi_wstrb, pins.m_axi_wlast, {}};
        const bool taken[] = {bool(pins.IN(m_axi_arready)), bool(pins.IN(m_axi_awready)), bool(pins.IN(m_axi_wready))};
        Ending ending = VTA_RUNNING;
        for (int i = 0; i < 3; i++) {
            const bool stands = now[i].valid && !taken[i];
            if (stands && i == 2) std::memcpy(now[i].data, &pins.m_axi_wdata, BUS_BYTES);
            if (stood_[i]) {
                if (i == 2) std::memcpy(now[i].data, &pins.m_axi_wdata, BUS_BYTES);
                if (std::memcmp(&now[i], &offers_[i], sizeof(Offer))) ending = VTA_UNSTABLE;
            }
            stood_[i] = stands;
            if (stands) std::memcpy(&offers_[i], &now[i], sizeof(Offer));
        }
        return ending;
    }

    const Settings& s_;
    Random& random_;
    const Patience patience_;
    Rate read_rate_, write_rate_;
    Dram dram_;
    std::deque<Burst> reads_, writes_;
    std::deque<Beat> data_;      // those whose address has not been taken
    uint64_t early_bursts_ = 0;  // last beats among them
    std::deque<std::pair<uint64_t, uint8_t>> answers_;  // cycle from which each write's answer is there
    int read_beat_ = 0, write_beat_ = 0;
    uint8_t answer_ = 0;
    std::array<bool, 3> stood_{};
    std::array<Offer, 3> offers_{};
};

// Works off the list of register accesses, one at a time.
class Host {
  public:
    Host(const Settings& s, Random& random) : s_{s}, random_{random} {}

    bool finished() const { return at_ == s_.op_count; }

    // From now on what is the list in the settings; to be called once the one before is finished.
    void rewind() { at_ = 0; }

    void drive(Pins& pins) {
        pins.IN(s_axil_bready) = pins.IN(s_axil_rready) = !random_.percent(s_.stall);
        if (!begun_) begin();
        if (!begun_) return;
        // Each channel begins when it likes, so a write's address and its data come in either order, or together.
        const Op& op = s_.ops[at_];
        if (offers(0)) pins.IN(s_axil_awvalid) = 1, pins.IN(s_axil_awaddr) = op.address;
        if (offers(1)) pins.IN(s_axil_wvalid) = 1, pins.IN(s_axil_wdata) = op.value, pins.IN(s_axil_wstrb) = 15;
        if (offers(2)) pins.IN(s_axil_arvalid) = 1, pins.IN(s_axil_araddr) = op.address;
    }

    void sample(Pins& pins) {
        if (pins.s_axil_awready) pins.IN(s_axil_awvalid) = 0;
        if (pins.s_axil_wready) pins.IN(s_axil_wvalid) = 0;
        if (pins.s_axil_arready) pins.IN(s_axil_arvalid) = 0;
        if (pins.s_axil_bvalid && pins.IN(s_axil_bready)) {
            s_.ops[at_].response = pins.s_axil_bresp, begun_ = false, at_++;
        } else if (pins.s_axil_rvalid && pins.IN(s_axil_rready)) {
            Op& op = s_.ops[at_];
            op.response = pins.s_axil_rresp, begun_ = false;
            if (op.kind == VTA_POLL && (pins.s_axil_rdata & op.value) && op.limit != 1) {
                if (op.limit) op.limit--;
                pause_ = kPollCycles;
            } else {
                op.value = pins.s_axil_rdata, at_++;
            }
        }
    }

  private:
    // Goes to the next access, unless there is none or the host waits.
    void begin() {
        if (pause_) {
            pause_--;
        } else if (!finished()) {
            const Op& op = s_.ops[at_];
            if (op.kind == VTA_WAIT) {
                pause_ = op.value, at_++;
            } else {
                const bool writes = op.kind == VTA_WRITE;
                wants_ = {writes, writes, !writes}, begun_ = true;
            }
        }
    }

    // Whether a channel that the access needs is offered from this cycle on.
    bool offers(int channel) {
        if (!wants_[channel] || random_.percent(s_.stall)) return false;
        wants_[channel] = false;
        return true;
    }

    const Settings& s_;
    Random& random_;
    uint64_t at_ = 0;
    uint32_t pause_ = 0;
    bool begun_ = false;
    std::array<bool, 3> wants_{};  // AW, W, AR
};

#ifdef WAVE_VCD
// Verilator ends the process when it cannot write; this file keeps the first error and drops all behind it.
class WaveFile : public VerilatedVcdFile {
  public:
    int error = 0;

    bool open(const std::string& name) override {
        file_ = ::open(name.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0666);
        return !note(file_);
    }
    void close() override { note(::close(file_)); }
    ssize_t write(const char* data, ssize_t size) override {
        if (error) return size;
        const ssize_t done = ::write(file_, data, size);
        if (done < 0 && errno == EINTR) return 0;
        return note(done) ? size : done;
    }

  private:
    bool note(ssize_t result) {
        if (result < 0 && !error) error = errno;
        return result < 0;
    }

    int file_ = -1;
};
#elif defined(WAVE_FST)
// Whether all of an .fst file was written. Verilator's writer does not say; but it writes the header last, and after an error
// nothing. A header begins with a block's type, 0, and its length, eight bytes of which the last are not 0.
bool is_whole(const std::string& path) {
    char begin[9] = {};
    std::ifstream{path, std::ios::binary}.read(begin, sizeof begin);
    return begin[7] || begin[8];
}
#endif

}  // namespace

struct vta_model {
    explicit vta_model(const Settings& settings)
        : s{settings}, random{s.seed}, memory{s, random}, host{s, random}, top{&context}, pins{*top.rootp} {
#ifdef WAVE
        if (s.wave) {
            context.traceEverOn(true);
#ifdef WAVE_VCD
            wave = std::make_unique<Wave>(&wave_file);
#else
            wave = std::make_unique<Wave>();
#endif
            top.trace(wave.get(), 99);
            wave->open(s.wave), wave_path = s.wave;  // the caller's string lives no longer than this call
        }
#endif
        top.clk = 0, top.eval();
        pins.IN(rst) = 1;
        for (int i = 0; i < kResetCycles; i++) clock();
        pins.IN(rst) = 0;
        drive();
        clock();
    }

    // Simulates until the host's list is done, or for so many cycles; returns an `Ending`.
    Ending advance(uint64_t cycles) {
        for (const uint64_t end = cycle + cycles; cycle < end;) {
            if (host.finished()) return VTA_ENDED;
            if (cycle >= s.max_cycles) return VTA_TIMEOUT;
            if (wave_error()) return VTA_NO_WAVE;
            const Ending ending = memory.sample(pins, cycle);
            if (ending != VTA_RUNNING) return ending;
            host.sample(pins);
            if (s.trace) record();
            cycle++;
            drive();
            clock();
        }
        return VTA_RUNNING;
    }

    // A further list for the host; the accelerator and its memory go on as they are.
    void give(Op* ops, uint64_t count) { s.ops = ops, s.op_count = count, host.rewind(); }

    // What the next run records will be all that is recorded; to be called while no program runs.
    void forget() { events.clear(), busy_cycle = 0, was_busy = false; }

    // What stands at the pins from the next edge on.
    void drive() {
        memory.drive(pins, cycle);
        host.drive(pins);
    }

    void record() {
#ifndef PINS_ONLY
        if (!pins.BUSY) {
            if (was_busy) events.push_back({busy_cycle, 0, 0, kEnd});
            was_busy = false;
            return;
        }
        const uint64_t told[kStages] = {pins.ACTIVITY(load), pins.ACTIVITY(compute), pins.ACTIVITY(store)};
        for (uint16_t stage = 0; stage < kStages; stage++) {
            const uint64_t now = told[stage];  // hw.issue.stage.activity: cause, starts, retires, and the numbers of the two
            const uint32_t cause = now & 7;
            if (!was_busy || cause != causes[stage]) events.push_back({busy_cycle, cause, stage, kCause});
            causes[stage] = cause;
            if (now >> 3 & 1) events.push_back({busy_cycle, uint32_t(now >> 5 & kIndexMask), stage, kStart});
            if (now >> 4 & 1) events.push_back({busy_cycle, uint32_t(now >> (5 + INDEX_BITS) & kIndexMask), stage, kRetire});
        }
        was_busy = true, busy_cycle++;
#endif
    }

    // Nothing is to be worked out at a falling edge; only a waveform shows it. All else happens at the rising edge of the one
    // clock, so it is worked out directly: looking for edges, messages and things to delete takes a twentieth of the time.
    void clock() {
#ifdef WAVE
        top.clk = 0, top.eval(), dump();
        top.clk = 1, top.eval(), dump();
#else
        pins.__VnbaTriggered[0] = 1;
        Vvta___024root___eval_nba(&pins);
#endif
    }

    void dump() {
#ifdef WAVE
        if (!wave) return;
        errno = 0;
        wave->dump(wave_time++);
        if (errno) last_errno = errno;
#endif
    }

    void close_wave() {
#ifdef WAVE
        if (!wave) return;
        errno = 0;
        wave->close();
        if (errno) last_errno = errno;
#ifdef WAVE_FST
        if (!is_whole(wave_path)) fst_error = last_errno ? last_errno : EIO;
#endif
#endif
    }

    // What kept the waveform from being written, as an `errno`; of an .fst file this is known once it is closed.
    int wave_error() const {
#if defined(WAVE_VCD)
        return wave_file.error;
#elif defined(WAVE_FST)
        return fst_error;
#else
        return 0;
#endif
    }

    Settings s;
    Random random;
    Memory memory;
    Host host;
    VerilatedContext context;
    Vvta top;
    Pins& pins;
    uint64_t cycle = 0, busy_cycle = 0;
    bool was_busy = false;
    std::array<uint32_t, kStages> causes{};
    std::vector<Event> events, unfinished;
#ifdef WAVE_VCD
    WaveFile wave_file;
#endif
#ifdef WAVE
    std::unique_ptr<Wave> wave;
    std::string wave_path;
    uint64_t wave_time = 0;
    int last_errno = 0;  // of the writer's calls
    int fst_error = 0;
#endif
};

extern "C" {

Model* vta_open(const Settings* settings) { return new Model{*settings}; }

uint64_t vta_advance(Model* model, uint64_t cycles) {
    Verilated::threadContextp(&model->context);  // another model of this thread has put its own there
    return model->advance(cycles);
}

void vta_give(Model* model, Op* ops, uint64_t count) { model->give(ops, count); }

void vta_forget(Model* model) { model->forget(); }

// The accumulator, and how many cycles were simulated and beats moved.
void vta_report(Model* model, uint8_t* acc, uint64_t acc_size, uint64_t* counts) {
#ifdef PINS_ONLY
    std::memset(acc, 0, acc_size);
#else
    const Pins& pins = model->pins;
    for (uint64_t i = 0, elements = acc_size / ACC_BYTES; i < elements; i++) {
        const uint64_t row = i / ACC_BANKS;
        const bool last = ACC_BANKS > 1 && __builtin_parityll(i & ACC_BANK_BITS);  // hw.compute.acc_memory.bank_of
        std::memcpy(acc + i * ACC_BYTES, last ? &pins.ACC_LAST_BANK[row] : &pins.ACC_FIRST_BANK[row], ACC_BYTES);
    }
#endif
    counts[0] = model->cycle, counts[1] = model->memory.read_beats, counts[2] = model->memory.write_beats;
}

// What was recorded; of a program that has not ended, up to now.
uint64_t vta_events(Model* model, const Event** events) {
    std::vector<Event>* told = &model->events;
    if (model->was_busy) {
        told = &model->unfinished;
        *told = model->events;
        told->push_back({model->busy_cycle, 0, 0, kEnd});
    }
    *events = told->data();
    return told->size();
}

// Returns `wave_error` of the whole waveform.
int vta_close(Model* model) {
    Verilated::threadContextp(&model->context);  // where what the model has registered is looked for, to be forgotten
    model->top.final();
    model->close_wave();
    const int error = model->wave_error();
    delete model;
    return error;
}

}  // extern "C"
