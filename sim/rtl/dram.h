// A DRAM behind its controller: vtakit.sim.dram defines it, and sim/cycle/dram.py is the same step with the same names.
//
// For each bank and direction the earliest clock of each command is kept, so the next command and its clock are known at once. Until
// then nothing is evaluated, unless a burst arrives.
#ifndef VTAKIT_RTL_DRAM_H
#define VTAKIT_RTL_DRAM_H

#include <algorithm>
#include <cstdint>
#include <deque>

#include "harness.h"

// A burst of the port, which is in the controller's queue from a cycle of the core on.
struct DramBurst {
    int64_t address, bytes;
    uint64_t arrives;
};

class Dram {
  public:
    explicit Dram(const vta_dram& p) : p_{p} { rest(); }

    bool exists() const { return p_.kind; }
    void read(const DramBurst& burst) { if (exists()) reads_coming_.push_back(burst); }
    void write(const DramBurst& burst) { if (exists()) writes_coming_.push_back(burst); }

    uint64_t beats = 0, answers = 0;  // ready for the port

    // One cycle of the core, whose number this is.
    void drive(uint64_t cycle, bool busy) {
        if (!exists()) return;
        if (!busy && !has_ && reads_.empty() && reads_coming_.empty() && writes_.empty() && writes_coming_.empty() && due_.empty())
            return rest();
        const int64_t begin = now_;
        parts_ += p_.clock;
        now_ = parts_ / kClockParts;
        arrive(reads_coming_, reads_, cycle), arrive(writes_coming_, writes_, cycle);
        if (wake_ < now_ && begin < now_) free_ = std::max(free_, begin), commands();
        for (; !due_.empty() && due_.front().clock <= now_; due_.pop_front())
            beats += due_.front().beats, answers += due_.front().writes;
    }

  private:
    static constexpr int64_t kClockParts = 100, kFar = 1ll << 60, kNone = -1;
    static constexpr int kBanks = 32, kFour = 4;

    // Data of a column command, which end in a clock.
    struct Due {
        int64_t clock, beats;
        bool writes;
    };

    struct Bank {
        int64_t row = kNone, activate = 0, precharge = 0, column = 0;
    };

    // Begins anew, with all banks closed: what a program finds does not depend on the time before it.
    void rest() {
        parts_ = now_ = wake_ = free_ = next_read_ = next_write_ = next_activate_ = 0, served_ = 0, writing_ = false;
        refresh_due_ = p_.trefi ? p_.trefi : kFar;
        for (Bank& bank : banks_) bank = {};
        for (int64_t& clock : activates_) clock = -p_.tfaw;
    }

    void arrive(std::deque<DramBurst>& coming, std::deque<DramBurst>& queue, uint64_t cycle) {
        for (; !coming.empty() && coming.front().arrives <= cycle; coming.pop_front()) queue.push_back(coming.front()), wake_ = 0;
    }

    int bank_of(int64_t address) const { return address >> p_.row_log2 & ((1 << p_.banks_log2) - 1); }
    int64_t row_of(int64_t address) const { return address >> (p_.row_log2 + p_.banks_log2) & (p_.rows - 1); }
    std::deque<DramBurst>& queue() { return writing_ ? writes_ : reads_; }

    // Issues all commands whose clock has come.
    void commands() {
        if (!has_) choose();
        for (;;) {
            int64_t clock = kFar, row = 0;
            int bank = 0;
            if (has_) {
                bank = bank_of(at_), row = row_of(at_), clock = earliest(bank, row);
                uint32_t taken = 1u << bank;
                const int64_t waiting = std::min<int64_t>(queue().size(), p_.ahead);
                for (int64_t n = 0; clock > free_ && n < waiting; n++) {
                    const int other = bank_of(queue()[n].address);
                    const int64_t other_row = row_of(queue()[n].address);
                    if (taken >> other & 1) continue;
                    taken |= 1u << other;
                    if (banks_[other].row == other_row) continue;
                    const int64_t found = earliest(other, other_row);
                    if (found < clock) clock = found, bank = other, row = other_row;
                }
            }
            if (refresh_due_ <= clock) {
                if (refresh_due_ >= now_) { wake_ = refresh_due_; return; }
                refresh();
                continue;
            }
            if (clock >= now_) { wake_ = clock; return; }
            free_ = clock + p_.tcmd;
            Bank& b = banks_[bank];
            if (b.row == row) {
                move(clock, b);
            } else if (b.row == kNone) {
                b.row = row, b.column = clock + p_.trcd, b.activate = clock + p_.trc;
                b.precharge = std::max<int64_t>(b.precharge, clock + p_.tras);
                next_activate_ = clock + p_.trrd, activates_[four_] = clock, four_ = (four_ + 1) % kFour;
            } else {
                b.row = kNone, b.activate = std::max<int64_t>(b.activate, clock + p_.trp);
            }
        }
    }

    // The clock from which a row's next command is legal.
    int64_t earliest(int bank, int64_t row) const {
        const Bank& b = banks_[bank];
        if (b.row == row) return std::max({free_, b.column, writing_ ? next_write_ : next_read_});
        if (b.row == kNone) return std::max<int64_t>({free_, b.activate, next_activate_, activates_[four_] + p_.tfaw});
        return std::max(free_, b.precharge);
    }

    // Takes a burst in hand, if one waits.
    void choose() {
        const size_t mine = queue().size(), others = (writing_ ? reads_ : writes_).size();
        if (others && (!mine || served_ >= p_.batch)) writing_ = !writing_, served_ = 0;
        else if (!mine) return;
        const DramBurst burst = queue().front();
        queue().pop_front();
        has_ = true, given_ = 0, begin_ = burst.address, end_ = burst.address + burst.bytes;
        at_ = begin_ >> p_.burst_log2 << p_.burst_log2;
    }

    // A column command: notes when its data end, and goes on to the next burst behind a burst's last one.
    void move(int64_t clock, Bank& bank) {
        at_ += 1ll << p_.burst_log2;
        const bool last = at_ >= end_;
        if (writing_) {
            due_.push_back({clock + p_.write_data, 0, last});
            bank.precharge = std::max<int64_t>(bank.precharge, clock + p_.write_precharge);
            next_write_ = clock + p_.column, next_read_ = clock + p_.write_read;
        } else {
            const int64_t complete = (std::min(at_, end_) - begin_) / BUS_BYTES;
            due_.push_back({clock + p_.read_data, complete - given_, false});
            given_ = complete;
            bank.precharge = std::max<int64_t>(bank.precharge, clock + p_.read_precharge);
            next_read_ = clock + p_.column, next_write_ = clock + p_.read_write;
        }
        if (!last) return;
        if (p_.closes) bank.row = kNone, bank.activate = std::max<int64_t>(bank.activate, bank.precharge + p_.trp);
        has_ = false, served_++;
        choose();
    }

    // Precharges all banks, and refreshes them: nothing comes between the two.
    void refresh() {
        int64_t clock = std::max(free_, refresh_due_);
        bool opened = false;
        for (const Bank& bank : banks_)
            if (bank.row != kNone) clock = std::max(clock, bank.precharge), opened = true;
        if (opened) {
            for (Bank& bank : banks_)
                if (bank.row != kNone) bank.row = kNone, bank.activate = std::max<int64_t>(bank.activate, clock + p_.trp);
            clock += p_.tcmd;
        }
        for (const Bank& bank : banks_) clock = std::max(clock, bank.activate);
        for (Bank& bank : banks_) bank.activate = clock + p_.trfc;
        free_ = clock + p_.tcmd, refresh_due_ += p_.trefi;
    }

    const vta_dram& p_;
    int64_t parts_ = 0, now_ = 0, wake_ = 0, free_ = 0, refresh_due_ = 0, next_read_ = 0, next_write_ = 0, next_activate_ = 0;
    int64_t served_ = 0, at_ = 0, begin_ = 0, end_ = 0, given_ = 0;
    int four_ = 0;
    bool writing_ = false, has_ = false;
    Bank banks_[kBanks];
    int64_t activates_[kFour] = {};
    std::deque<DramBurst> reads_, reads_coming_, writes_, writes_coming_;
    std::deque<Due> due_;
};

#endif
