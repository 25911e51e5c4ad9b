// A full-speed USB host at the pins of a device: bits, packets, transactions, enumeration, and bytes over two bulk endpoints.
//
// It knows the USB 2.0 specification (chapters 7 to 9) and CDC-ACM, and nothing of the device. Time is counted in ticks of 48 MHz,
// four a bit. The protocol is one coroutine, `run`, which waits for the ends of packets.
#ifndef VTAKIT_USB_HOST_H
#define VTAKIT_USB_HOST_H

#include <coroutine>
#include <cstdint>
#include <deque>
#include <exception>
#include <string>
#include <utility>
#include <vector>

extern "C" {
struct usb_settings { // faults in a thousand, of packets behind the enumeration
    uint32_t seed;
    uint32_t garble_out;      // a bit of a packet to the device is wrong
    uint32_t garble_in;       // a bit of a packet from the device is wrong
    uint32_t lose_ack;        // the device does not see the host's ACK
    uint32_t lose_handshake;  // the host does not see the device's handshake
    int32_t drift;            // of the host's clock, in parts of a million; the specification allows 2500
};
struct usb_counts {
    uint64_t ticks, frames, out, in, naks_out, naks_in, timeouts, garbled, repeated, doubled, faults, slowest_tick;
};
}

// A coroutine that another one may wait for.
template <class T> class Task {
  public:
    struct promise_type {
        T value{};
        std::coroutine_handle<> waiting = std::noop_coroutine();
        struct Last {
            bool await_ready() noexcept { return false; }
            std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> self) noexcept { return self.promise().waiting; }
            void await_resume() noexcept {}
        };
        Task get_return_object() { return Task{std::coroutine_handle<promise_type>::from_promise(*this)}; }
        std::suspend_always initial_suspend() noexcept { return {}; }
        Last final_suspend() noexcept { return {}; }
        void return_value(T given) { value = std::move(given); }
        void unhandled_exception() { std::terminate(); }
    };
    explicit Task(std::coroutine_handle<promise_type> handle) : handle_{handle} {}
    Task(Task&& other) noexcept : handle_{std::exchange(other.handle_, nullptr)} {}
    Task(const Task&) = delete;
    ~Task() { if (handle_) handle_.destroy(); }

    bool await_ready() const { return false; }
    std::coroutine_handle<> await_suspend(std::coroutine_handle<> waiting) {
        handle_.promise().waiting = waiting;
        return handle_;
    }
    T await_resume() { return std::move(handle_.promise().value); }
    void start() { handle_.resume(); }

  private:
    std::coroutine_handle<promise_type> handle_;
};

class UsbHost {
  public:
    using Bytes = std::vector<uint8_t>;
    struct Device { bool plus, minus, drive, pull_up; };  // outputs of the device's pins
    struct Level { bool plus, minus; };
    enum Line { SE0, J, K, SE1 };
    enum Pid : uint8_t { OUT = 1, IN = 9, SOF = 5, SETUP = 13, DATA0 = 3, DATA1 = 11, ACK = 2, NAK = 10, STALL = 14, NONE = 0 };

    explicit UsbHost(const usb_settings& settings)
        : s{settings}, random_{settings.seed * 2654435761u + 1}, protocol_{run()} { protocol_.start(); }

    std::deque<uint8_t> to_board, from_board;
    usb_counts counts{};
    bool configured = false;
    Bytes device_descriptor, configuration_descriptor, strings;  // as read in the enumeration
    const std::string& error() const { return error_; }
    // Resets the bus and enumerates anew, when the present transaction has ended.
    void replug() { again_ = true, configured = false; }

    // One tick: what the device drives before an edge; returns the level of the lines at that edge.
    Level tick(Device at) {
        counts.ticks++;
        pull_up_ = at.pull_up;
        const Line theirs = at.drive ? Line(at.plus | at.minus << 1) : at.pull_up ? J : SE0;
        if (driving() && at.drive) fail("host and device drive the lines at once");
        const Line line = driving() ? mine() : theirs;
        step(line);
        return {bool(line & J), bool(line & K)};
    }

    static uint8_t crc5(uint16_t bits) {  // of 11 bits, lowest first; as it stands in the upper five bits of a token
        uint8_t sum = 31;
        for (int i = 0; i < 11; i++) {
            const bool flip = (sum ^ bits >> i) & 1;
            sum = sum >> 1 ^ (flip ? 0x14 : 0);
        }
        return sum ^ 31;
    }
    static uint16_t crc16(const Bytes& data) {
        uint16_t sum = 0xffff;
        for (const uint8_t byte : data)
            for (int i = 0; i < 8; i++) {
                const bool flip = (sum ^ byte >> i) & 1;
                sum = sum >> 1 ^ (flip ? 0xa001 : 0);
            }
        return sum ^ 0xffff;
    }
    // The lines of a packet, bit by bit: SYNC, bytes with stuffed bits in NRZI, two SE0 and a J.
    static std::vector<Line> encode(const Bytes& bytes) {
        std::vector<Line> lines;
        Line level = J;
        int ones = 0;
        const auto bit = [&](bool one) {
            if (!one) level = level == J ? K : J;
            lines.push_back(level);
            ones = one ? ones + 1 : 0;
        };
        const auto stuffed = [&](uint8_t byte) {
            for (int i = 0; i < 8; i++) {
                bit(byte >> i & 1);
                if (ones == 6) bit(false);
            }
        };
        stuffed(0x80);
        for (const uint8_t byte : bytes) stuffed(byte);
        lines.insert(lines.end(), {SE0, SE0, J});
        return lines;
    }
    // The bytes of a packet's bits behind the line's code; false if they are no whole bytes or a stuffed bit is missing.
    static bool decode(const std::vector<Line>& lines, Bytes& bytes) {
        Line before = J;
        int ones = 0, count = 0;
        uint32_t word = 0;
        bool good = true;
        bytes.clear();
        for (const Line line : lines) {
            const bool one = line == before;
            before = line;
            if (ones == 6) {  // a stuffed bit
                good &= !one, ones = 0;
                continue;
            }
            ones = one ? ones + 1 : 0;
            word = word >> 1 | one << 7;
            if (++count % 8 == 0) bytes.push_back(word);
        }
        good &= count % 8 == 0 && !bytes.empty() && bytes[0] == 0x80;
        if (!bytes.empty()) bytes.erase(bytes.begin());
        return good;
    }

  private:
    static constexpr uint32_t kBit = 4, kFrame = 12000 * kBit, kTimeout = 18 * kBit, kGap = 3 * kBit;
    static constexpr uint32_t kLongest = 1200 * kBit;  // of a transaction: nothing begins so close to a frame's end
    // Shorter than the specification's 100 ms, 10 ms and 10 ms, so that a simulation is short.
    static constexpr uint32_t kSettled = 100 * 48, kReset = 200 * 48, kRecovery = 100 * 48;
    static constexpr int kTries = 100;
    static constexpr uint8_t kAddress = 5;

    struct Packet {
        Pid pid = NONE;  // NONE: nothing came, or it was damaged
        Bytes data;
    };

    // Awaitables. Only one coroutine waits at a time.
    struct Wait {
        UsbHost& host;
        uint32_t ticks;
        bool await_ready() const { return !ticks; }
        void await_suspend(std::coroutine_handle<> waiting) { host.waiting_ = waiting, host.delay_ = ticks; }
        void await_resume() {}
    };
    struct Sent {
        UsbHost& host;  // whose `lines_` are sent
        bool await_ready() const { return false; }
        void await_suspend(std::coroutine_handle<> waiting) { host.waiting_ = waiting, host.sent_ = 0, host.sending_ = true; }
        void await_resume() {}
    };
    struct Came {
        UsbHost& host;
        bool await_ready() const { return false; }
        void await_suspend(std::coroutine_handle<> waiting) {
            host.waiting_ = waiting, host.listening_ = true, host.active_ = false, host.silent_ = kBit, host.bits_.clear();
        }
        Packet await_resume() { return host.packet(); }
    };

    bool driving() const { return sending_ || resetting_; }
    Line mine() const { return resetting_ ? SE0 : lines_[at_bit()]; }
    uint64_t at_bit() const { return sent_ * 1000000 / (kBit * (1000000 + s.drift)); }

    void step(Line line) {
        if (sending_) {
            sent_++;
            if (at_bit() < lines_.size()) return;
            sending_ = false;
            resume();
        } else if (listening_) {
            if (listen(line)) listening_ = false, resume();
        } else if (delay_ && !--delay_) {
            resume();
        }
    }

    void resume() { std::exchange(waiting_, nullptr).resume(); }

    // The receiver: samples lie in the middle between changes. True at a packet's end, or when none begins in time, for which
    // `silent_` counts from the change to J at the end of the host's packet.
    bool listen(Line line) {
        if (!active_) {
            if (line != K) return ++silent_ > kTimeout;
            active_ = true, before_ = K, phase_ = 0, low_ = 0;
            if (silent_ > counts.slowest_tick) counts.slowest_tick = silent_;
        } else if (line != before_) {
            if (before_ == SE0 && line == J && low_) {
                if (low_ < 2 * kBit - 1 || low_ > 2 * kBit + 1) fail("the end of a packet is not two bits of SE0");
                return true;
            }
            before_ = line, phase_ = 0;
        } else {
            phase_++;
        }
        if (line == SE0) low_++;
        else if (phase_ % kBit == 1) bits_.push_back(line), low_ = 0;
        if (line == SE1) fail("both lines are high");
        if (bits_.size() > kLongest) fail("a packet of the device has no end");
        return false;
    }

    uint32_t draw() {
        random_ ^= random_ << 13, random_ ^= random_ >> 17;
        return random_ ^= random_ << 5;
    }
    bool fault(uint32_t rate) {
        const bool found = configured && draw() % 1000 < rate;
        counts.faults += found;
        return found;
    }
    void flip(Bytes& bytes) {
        const uint32_t bit = draw() % (8 * bytes.size());
        bytes[bit / 8] ^= 1 << bit % 8;
    }
    void fail(const std::string& what) { if (error_.empty()) error_ = "USB, tick " + std::to_string(counts.ticks) + ": " + what; }

    // The packet that the receiver has; a damaged one counts as none.
    Packet packet() {
        if (!active_) return counts.timeouts++, Packet{};
        Bytes bytes;
        const bool whole = decode(bits_, bytes);
        if (!whole) fail("a packet of the device is not whole bytes with stuffed bits");
        if (bytes.empty()) return {};
        const uint8_t first = bytes[0];
        const bool handshake = (first & 3) == 2;
        if (!handshake && fault(s.garble_in)) flip(bytes);
        else if (handshake && fault(s.lose_handshake)) return {};
        const Pid pid = Pid(bytes[0] & 15);
        bool good = (bytes[0] & 15) == (~bytes[0] >> 4 & 15);
        bytes.erase(bytes.begin());
        if (good && (pid == DATA0 || pid == DATA1)) {
            good = bytes.size() >= 2;
            if (good) {
                const uint16_t sum = bytes[bytes.size() - 2] | bytes[bytes.size() - 1] << 8;
                bytes.resize(bytes.size() - 2);
                good = sum == crc16(bytes);
            }
        } else {
            good = good && bytes.empty() && (pid == ACK || pid == NAK || pid == STALL);
        }
        if (!good) return counts.garbled++, Packet{};
        return {pid, bytes};
    }

    static Bytes token(Pid pid, uint8_t address, uint8_t endpoint) {
        const uint16_t bits = address | endpoint << 7;
        return numbered(pid, bits);
    }
    static Bytes numbered(Pid pid, uint16_t bits) {
        return {uint8_t(pid | (~pid & 15) << 4), uint8_t(bits), uint8_t(bits >> 8 | crc5(bits) << 3)};
    }
    static Bytes acknowledgement() { return {0xd2}; }
    static Bytes data_packet(bool toggle, const Bytes& data) {
        const Pid pid = toggle ? DATA1 : DATA0;
        Bytes bytes{uint8_t(pid | (~pid & 15) << 4)};
        bytes.insert(bytes.end(), data.begin(), data.end());
        const uint16_t sum = crc16(data);
        bytes.push_back(uint8_t(sum)), bytes.push_back(uint8_t(sum >> 8));
        return bytes;
    }

    // Behind the end of a packet, whose J bit is part of it, so many ticks pass.
    Task<bool> send(Bytes bytes) {
        if (fault(s.garble_out)) flip(bytes);
        co_await Wait{*this, kGap};
        lines_ = encode(bytes);
        co_await Sent{*this};
        co_return true;
    }

    // Begin a frame if it is time, and wait for the next one where a transaction would not fit.
    Task<bool> frame() {
        if (counts.ticks - frame_at_ + kLongest > kFrame) {
            const uint64_t past = counts.ticks - frame_at_;
            if (past < kFrame) co_await Wait{*this, uint32_t(kFrame - past)};
            frame_at_ += kFrame;
            counts.frames++;
            co_await send(numbered(SOF, counts.frames & 2047));
        }
        co_return true;
    }

    // One OUT or SETUP transaction; the device's answer.
    Task<Pid> give(Pid kind, uint8_t endpoint, bool toggle, Bytes data) {
        co_await frame();
        co_await send(token(kind, address_, endpoint));
        co_await send(data_packet(toggle, data));
        const Packet answer = co_await Came{*this};
        co_return answer.pid;
    }

    // One IN transaction; data are acknowledged unless that ACK is to be lost.
    Task<Packet> take(uint8_t endpoint) {
        co_await frame();
        co_await send(token(IN, address_, endpoint));
        Packet came = co_await Came{*this};
        if ((came.pid == DATA0 || came.pid == DATA1) && !fault(s.lose_ack)) co_await send(acknowledgement());
        co_return came;
    }

    struct Request { uint8_t type, request; uint16_t value, index, length; };

    // A control transfer. `data` is what is sent, or becomes what came. False where the device stalls it.
    Task<bool> control(Request asked, Bytes* data) {
        const bool in = asked.type & 0x80;
        const Bytes setup{asked.type, asked.request, uint8_t(asked.value), uint8_t(asked.value >> 8), uint8_t(asked.index),
                          uint8_t(asked.index >> 8), uint8_t(asked.length), uint8_t(asked.length >> 8)};
        if (!co_await given(SETUP, 0, false, setup)) co_return false;
        bool toggle = true;
        if (in) {
            Bytes found;
            while (found.size() < asked.length) {
                const Packet part = co_await taken(0, toggle);
                if (part.pid != DATA0 && part.pid != DATA1) co_return false;
                toggle = !toggle;
                found.insert(found.end(), part.data.begin(), part.data.end());
                if (part.data.size() < most_) break;
            }
            *data = found;
            co_return co_await given(OUT, 0, true, Bytes{});
        }
        if (asked.length) {
            if (!co_await given(OUT, 0, toggle, *data)) co_return false;
        }
        const Packet status = co_await taken(0, true);
        co_return status.pid == DATA1;
    }

    // Transactions that are tried until the device answers; false or STALL where it refuses.
    Task<bool> given(Pid kind, uint8_t endpoint, bool toggle, Bytes data) {
        for (int tries = 0; tries < kTries; tries++) {
            const Pid answer = co_await give(kind, endpoint, toggle, data);
            if (answer == ACK) co_return true;
            if (answer == STALL) co_return false;
        }
        fail("the device does not take a packet");
        co_return false;
    }
    Task<Packet> taken(uint8_t endpoint, bool toggle) {
        for (int tries = 0; tries < kTries; tries++) {
            Packet came = co_await take(endpoint);
            if (came.pid == STALL || came.pid == (toggle ? DATA1 : DATA0)) co_return came;
        }
        fail("the device does not give a packet");
        co_return Packet{};
    }

    Task<bool> reset_bus() {
        co_await Wait{*this, kGap};
        resetting_ = true;
        co_await Wait{*this, kReset};
        resetting_ = false;
        co_await Wait{*this, kRecovery};
        frame_at_ = counts.ticks, address_ = 0;
        co_return true;
    }

    Task<bool> enumerate() {
        uint32_t there = 0;
        while (there < kSettled) {
            co_await Wait{*this, 1};
            there = pull_up_ ? there + 1 : 0;
        }
        co_await reset_bus();
        most_ = 8;
        if (!co_await control({0x80, 6, 0x100, 0, 8}, &device_descriptor) || device_descriptor.size() != 8) {
            fail("no device descriptor");
            co_return false;
        }
        most_ = device_descriptor[7];
        co_await reset_bus();
        if (!co_await control({0x00, 5, kAddress, 0, 0}, nullptr)) fail("SET_ADDRESS is refused");
        address_ = kAddress;
        co_await Wait{*this, kRecovery};
        if (!co_await control({0x80, 6, 0x100, 0, 18}, &device_descriptor)) fail("no device descriptor at the new address");
        Bytes begin;
        if (!co_await control({0x80, 6, 0x200, 0, 9}, &begin) || begin.size() != 9) {
            fail("no configuration descriptor");
            co_return false;
        }
        const uint16_t whole = begin[2] | begin[3] << 8;
        if (!co_await control({0x80, 6, 0x200, 0, whole}, &configuration_descriptor)) fail("no whole configuration descriptor");
        strings.clear();
        for (uint16_t number = 1; number <= 3; number++) {
            Bytes text;
            const uint16_t index = 0x300 | number;
            if (!co_await control({0x80, 6, index, 0x409, 255}, &text)) fail("a string is missing");
            strings.insert(strings.end(), text.begin(), text.end());
        }
        if (!find_endpoints()) fail("the configuration has no two bulk endpoints");
        if (!co_await control({0x00, 9, 1, 0, 0}, nullptr)) fail("SET_CONFIGURATION is refused");
        // What an operating system asks a serial port for: rate and format, and DTR with RTS, which a device may refuse.
        Bytes coding{0xc0, 0xc6, 0x2d, 0x00, 0, 0, 8};  // 3,000,000 baud, 8N1
        if (!co_await control({0x21, 0x20, 0, 0, 7}, &coding)) fail("SET_LINE_CODING is refused");
        co_await control({0x21, 0x22, 3, 0, 0}, nullptr);
        toggle_out_ = toggle_in_ = false;
        co_return error_.empty();
    }

    bool find_endpoints() {
        out_ = in_ = 0;
        for (size_t at = 0; at + 6 < configuration_descriptor.size() && configuration_descriptor[at];
             at += configuration_descriptor[at]) {
            const uint8_t* each = &configuration_descriptor[at];
            if (each[1] != 5 || (each[3] & 3) != 2) continue;  // an endpoint, bulk
            if (each[2] & 0x80) in_ = each[2] & 15;
            else out_ = each[2], most_out_ = each[4] | each[5] << 8;
        }
        return out_ && in_;
    }

    Task<bool> send_some() {
        if (under_way_.empty()) {  // else a packet is repeated as it was, though more bytes wait
            const size_t count = to_board.size() < most_out_ ? to_board.size() : most_out_;
            under_way_.assign(to_board.begin(), to_board.begin() + count);
            to_board.erase(to_board.begin(), to_board.begin() + count);
        }
        const Pid answer = co_await give(OUT, out_, toggle_out_, under_way_);
        if (answer == ACK) {
            under_way_.clear();
            toggle_out_ = !toggle_out_, counts.out++;
        } else if (answer == NAK) {
            counts.naks_out++;
        } else if (answer == STALL) {
            fail("the bulk endpoint of the device's input is stalled");
        } else {
            counts.repeated++;
        }
        co_return true;
    }

    Task<bool> receive_some() {
        const Packet came = co_await take(in_);
        if (came.pid == DATA0 || came.pid == DATA1) {
            if ((came.pid == DATA1) == toggle_in_) {
                from_board.insert(from_board.end(), came.data.begin(), came.data.end());
                toggle_in_ = !toggle_in_, counts.in++;
            } else {
                counts.doubled++;  // the device has not seen the last ACK
            }
        } else if (came.pid == NAK) {
            counts.naks_in++;
        } else if (came.pid == STALL) {
            fail("the bulk endpoint of the device's output is stalled");
        }
        co_return true;
    }

    Task<bool> run() {
        while (true) {
            again_ = false;
            configured = co_await enumerate();
            while (configured && !again_) {
                if (!to_board.empty() || !under_way_.empty()) co_await send_some();
                co_await receive_some();
            }
            if (!again_) co_await Wait{*this, kRecovery};
        }
        co_return true;
    }

    const usb_settings s;
    uint32_t random_;
    std::string error_;
    // Of the line.
    bool sending_ = false, resetting_ = false, listening_ = false, active_ = false, pull_up_ = false;
    std::vector<Line> lines_, bits_;
    uint64_t sent_ = 0, frame_at_ = 0;
    uint32_t delay_ = 0, silent_ = 0, phase_ = 0, low_ = 0;
    Line before_ = J;
    std::coroutine_handle<> waiting_;
    // Of the protocol.
    uint8_t address_ = 0, out_ = 0, in_ = 0;
    uint16_t most_ = 8, most_out_ = 64;
    Bytes under_way_;
    bool toggle_out_ = false, toggle_in_ = false, again_ = false;
    Task<bool> protocol_;
};

#endif
