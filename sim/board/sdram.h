// A single-data-rate SDRAM chip that checks what its datasheet demands: the sequence of commands, every time between two of them,
// who drives the data bus, and refreshes. Times are in picoseconds and compared with clock edges; nothing here is shared with the
// controller.
//
// Not modelled, and reported as errors where a controller uses them: auto-precharge, power-down and self-refresh (CKE low), full-page
// and interleaved bursts, single-word writes.
#ifndef VTAKIT_BOARD_SDRAM_H
#define VTAKIT_BOARD_SDRAM_H

#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

// The datasheet: geometry, and times in picoseconds. `vtakit.sim.board.library.CSdram` has the same fields.
struct sdram_chip {
    int64_t period, width, banks, rows, columns, cas2, cas3; // clock period; shortest periods for CAS latencies 2 and 3, 0: none
    int64_t trcd, trp, tras, tras_most, trc, trrd, twr, trfc, refresh, power_up, refreshes, tmrd_clocks;
};

class Sdram {
  public:
    struct Pins {
        bool cke, cs_n, ras_n, cas_n, we_n;
        uint32_t ba, a, dqm;
        uint32_t dq;
        bool driven; // by the controller
    };

    // `memory` holds rows x banks x columns words. Consecutive rows' worths of addresses lie in consecutive banks.
    Sdram(const sdram_chip& chip, uint8_t* memory) : c_{chip}, memory_{memory}, banks_(chip.banks) {}

    uint64_t activates = 0, reads = 0, writes = 0, refreshes = 0; // commands
    const std::string& error() const { return error_; }

    // A rising edge of the clock.
    void clock(const Pins& pins) {
        edge_++;
        const int64_t now = edge_;
        slot(now - 2).driven = false; // its place is for an edge to come
        if (!pins.cke && edge_ > 1) fail("CKE is low");
        masks_[now & 3] = pins.dqm;
        if (!pins.cs_n) command(pins, now);
        data(pins, now);
        if (refreshes_from_ >= 0) check_refreshes(now);
    }

    // Whether the chip drives the data bus at the next edge, and the word. `lanes` has a bit for each byte that is driven.
    bool drives(uint32_t& word) {
        const Slot& next = slot(edge_ + 1);
        const uint32_t mask = masks_[(edge_ - 1) & 3];
        noise_ = noise_ * 1664525u + 1013904223u; // of lines that nobody drives
        word = noise_ >> 16;
        if (!next.driven) return false;
        for (int lane = 0; lane < c_.width / 8; lane++)
            if (!(mask >> lane & 1)) word = (word & ~(0xffu << 8 * lane)) | (next.word & 0xffu << 8 * lane);
        return true;
    }

  private:
    static constexpr int kSlots = 32, kAhead = 16, kNever = -1; // edges: kept, and that a command reaches
    enum Command { kNop, kTerminate, kRead, kWrite, kActivate, kPrecharge, kRefresh, kLoadMode };

    struct Slot {
        bool driven = false;
        uint32_t word = 0;
        int bank = 0;
    };
    struct Bank {
        int64_t row = kNever, activated = kNever, precharged = kNever, written = kNever; // edges, and the open row
    };

    Slot& slot(int64_t edge) { return slots_[edge & (kSlots - 1)]; }

    void fail(const char* format, ...) {
        if (!error_.empty()) return;
        char text[256];
        va_list arguments;
        va_start(arguments, format);
        vsnprintf(text, sizeof text, format, arguments);
        va_end(arguments);
        error_ = "SDRAM, clock " + std::to_string(edge_) + ": " + text;
    }

    // Fails if less than `least` picoseconds have passed since an edge.
    void after(const char* name, int64_t since, int64_t least, const char* what, const char* of, int bank) {
        if (since == kNever || (edge_ - since) * c_.period >= least) return;
        fail("%s of bank %d comes %lld clocks after %s in clock %lld, and %s is %.1f ns, %lld clocks", what, bank,
             (long long)(edge_ - since), of, (long long)since, name, least / 1000.0, (long long)((least + c_.period - 1) / c_.period));
    }

    void command(const Pins& p, int64_t now) {
        const int kind = !p.ras_n << 2 | !p.cas_n << 1 | !p.we_n;
        static const char* names[] = {"NOP", "BURST TERMINATE", "READ", "WRITE", "ACTIVATE", "PRECHARGE", "REFRESH", "LOAD MODE"};
        if (kind == kNop) return;
        const char* name = names[kind];
        if (now * c_.period < c_.power_up)
            fail("%s comes %.1f us after power-up, which takes %.1f us", name, now * c_.period / 1e6, c_.power_up / 1e6);
        if (mode_set_ != kNever && now - mode_set_ < c_.tmrd_clocks)
            fail("%s comes %lld clocks after LOAD MODE, and tMRD is %lld", name, (long long)(now - mode_set_), (long long)c_.tmrd_clocks);
        if (p.ba >= uint32_t(c_.banks)) return fail("%s names bank %u", name, p.ba);
        Bank& bank = banks_[p.ba];
        if (kind != kPrecharge && !all_precharged_) return fail("%s comes before PRECHARGE of all banks", name);
        if (kind == kActivate || kind == kRead || kind == kWrite) {
            if (!mode_loaded_) return fail("%s comes before LOAD MODE", name);
            if (refreshes < uint64_t(c_.refreshes))
                return fail("%s comes after %llu REFRESHes, and initialisation takes %lld", name, (unsigned long long)refreshes,
                            (long long)c_.refreshes);
        }
        switch (kind) {
        case kTerminate: return fail("BURST TERMINATE is not modelled");
        case kActivate: return activate(p, bank, now);
        case kRead: case kWrite: return column(p, bank, now, kind == kWrite, name);
        case kPrecharge: return precharge(p, now);
        case kRefresh: return refresh(now);
        default: return load_mode(p, now);
        }
    }

    void activate(const Pins& p, Bank& bank, int64_t now) {
        if (bank.row != kNever) return fail("ACTIVATE of bank %u, whose row %lld is open", p.ba, (long long)bank.row);
        if (p.a >= uint64_t(c_.rows)) return fail("ACTIVATE of row %u of %lld", p.a, (long long)c_.rows);
        after("tRP", bank.precharged, c_.trp, "ACTIVATE", "PRECHARGE", p.ba);
        after("tRC", bank.activated, c_.trc, "ACTIVATE", "ACTIVATE", p.ba);
        after("tRRD", activated_, c_.trrd, "ACTIVATE", "ACTIVATE of another bank", p.ba);
        after("tRFC", refreshed_, c_.trfc, "ACTIVATE", "REFRESH", p.ba);
        bank.row = p.a, bank.activated = activated_ = now, activates++;
    }

    void column(const Pins& p, Bank& bank, int64_t now, bool writing, const char* name) {
        if (bank.row == kNever) return fail("%s of bank %u, which has no open row", name, p.ba);
        after("tRCD", bank.activated, c_.trcd, name, "ACTIVATE", p.ba);
        if (p.a & 1 << 10) return fail("%s with auto-precharge, which is not modelled", name);
        const uint32_t at = p.a & 0x3ff;
        if (at >= uint64_t(c_.columns)) return fail("%s of column %u of %lld", name, at, (long long)c_.columns);
        const uint64_t row = (uint64_t(bank.row) * c_.banks + p.ba) * c_.columns;
        for (int64_t edge = now + (writing ? 0 : cas_); edge < now + kAhead; edge++) slot(edge).driven = false; // a burst ends
        write_left_ = 0;
        if (writing) {
            write_left_ = burst_, write_row_ = row, write_at_ = at, write_bank_ = p.ba, writes++;
        } else {
            for (int n = 0; n < burst_; n++)
                slot(now + cas_ + n) = {true, load(row + wrapped(at, n)), int(p.ba)};
            reads++;
        }
    }

    // A burst goes round within its own length.
    uint32_t wrapped(uint32_t at, int n) const { return (at & ~uint32_t(burst_ - 1)) | ((at + n) & (burst_ - 1)); }

    void data(const Pins& p, int64_t now) {
        if (p.driven && slot(now).driven) fail("controller and chip drive the data bus at once");
        if (p.driven && slot(now - 1).driven) fail("the data bus has no idle clock between a read's data and a write's");
        if (!write_left_) {
            if (p.driven) fail("the controller drives the data bus, and no WRITE is under way");
            return;
        }
        const uint64_t word = write_row_ + wrapped(write_at_, burst_ - write_left_);
        write_left_--;
        const uint32_t all = (1u << c_.width / 8) - 1;
        if ((p.dqm & all) == all) return;
        if (!p.driven) return fail("nobody drives the data of a WRITE to bank %d", write_bank_);
        banks_[write_bank_].written = now;
        for (int lane = 0; lane < c_.width / 8; lane++)
            if (!(p.dqm >> lane & 1)) memory_[word * (c_.width / 8) + lane] = p.dq >> 8 * lane;
    }

    void precharge(const Pins& p, int64_t now) {
        const bool all = p.a & 1 << 10;
        for (int n = 0; n < c_.banks; n++) {
            Bank& bank = banks_[n];
            if ((!all && n != int(p.ba)) || bank.row == kNever) continue;
            after("tRAS", bank.activated, c_.tras, "PRECHARGE", "ACTIVATE", n);
            after("tWR", bank.written, c_.twr, "PRECHARGE", "the last data of a WRITE", n);
            if ((now - bank.activated) * c_.period > c_.tras_most)
                fail("row %lld of bank %d was open for %.1f us, and %.1f us are the most", (long long)bank.row, n,
                     (now - bank.activated) * c_.period / 1e6, c_.tras_most / 1e6);
            if (write_left_ && write_bank_ == n) fail("PRECHARGE of bank %d cuts off a WRITE", n);
            for (int64_t edge = now + cas_; edge < now + kAhead; edge++)
                if (slot(edge).bank == n) slot(edge).driven = false;
            bank.row = kNever, bank.precharged = now;
        }
        if (all) all_precharged_ = true;
        if (all && precharged_first_ == kNever) precharged_first_ = now;
    }

    void idle(const char* what) {
        for (int n = 0; n < c_.banks; n++) {
            if (banks_[n].row != kNever) return fail("%s while row %lld of bank %d is open", what, (long long)banks_[n].row, n);
            after("tRP", banks_[n].precharged, c_.trp, what, "PRECHARGE", n);
        }
        after("tRP", precharged_first_, c_.trp, what, "PRECHARGE", 0);
        after("tRFC", refreshed_, c_.trfc, what, "REFRESH", 0);
    }

    void refresh(int64_t now) {
        idle("REFRESH");
        for (int n = 0; n < c_.banks; n++) after("tRC", banks_[n].activated, c_.trc, "REFRESH", "ACTIVATE", n);
        refreshed_ = now, refreshes++;
        if (refreshes_from_ < 0) return;
        if (edges_.size() < size_t(c_.rows)) edges_.push_back(now);
        else edges_[oldest_] = now, oldest_ = (oldest_ + 1) % edges_.size();
    }

    void load_mode(const Pins& p, int64_t now) {
        idle("LOAD MODE");
        const int cas = p.a >> 4 & 7;
        const int64_t shortest = cas == 2 ? c_.cas2 : cas == 3 ? c_.cas3 : 0;
        if ((p.a & 7) > 3 || p.a & 8 || p.a & ~0x7fu) return fail("LOAD MODE of 0x%x, which is not modelled", p.a);
        if (!shortest || c_.period < shortest)
            return fail("LOAD MODE of CAS latency %d, which needs a clock period of %.1f ns; it is %.1f ns", cas, shortest / 1000.0,
                        c_.period / 1000.0);
        burst_ = 1 << (p.a & 7), cas_ = cas, mode_loaded_ = true, mode_set_ = now;
        if (refreshes_from_ < 0) refreshes_from_ = now;
    }

    // Each row is refreshed in time if any `rows` refreshes in a row lie within `refresh`. Before so many were issued: no more than
    // kBehind are behind.
    void check_refreshes(int64_t now) {
        constexpr int64_t kBehind = 2;
        if (edges_.size() < size_t(c_.rows)) {
            const int64_t due = (now - refreshes_from_) * c_.period / (c_.refresh / c_.rows);
            if (due > int64_t(edges_.size()) + kBehind)
                fail("%lld REFRESHes were due since LOAD MODE, and %zu came", (long long)due, edges_.size());
        } else if ((now - edges_[oldest_]) * c_.period > c_.refresh) {
            fail("a row was not refreshed for %.3f ms, and %.1f ms are the most", (now - edges_[oldest_]) * c_.period / 1e9,
                 c_.refresh / 1e9);
        }
    }

    uint32_t load(uint64_t word) const {
        uint32_t found = 0;
        for (int lane = 0; lane < c_.width / 8; lane++) found |= uint32_t(memory_[word * (c_.width / 8) + lane]) << 8 * lane;
        return found;
    }

    const sdram_chip c_;
    uint8_t* const memory_;
    std::vector<Bank> banks_;
    Slot slots_[kSlots];
    std::vector<int64_t> edges_; // of the last refreshes
    size_t oldest_ = 0;
    std::string error_;
    uint32_t masks_[4] = {}, noise_ = 1;
    int64_t edge_ = 0, activated_ = kNever, refreshed_ = kNever, mode_set_ = kNever, precharged_first_ = kNever, refreshes_from_ = -1;
    bool all_precharged_ = false, mode_loaded_ = false;
    int burst_ = 1, cas_ = 2, write_left_ = 0, write_bank_ = 0;
    uint64_t write_row_ = 0;
    uint32_t write_at_ = 0;
};

#endif
