// The Verilated USB device between a host (usb_host.h) at its pins and streams that wait at random.
//
// Three clocks: 48 MHz and 12 MHz in step, and the link's with any period, in picoseconds.
#include <cstdint>
#include <cstring>
#include <deque>

#include "Vusb.h"
#include "usb_host.h"
#include "verilated.h"

namespace {

struct Settings {
    usb_settings usb;
    uint32_t stall;   // percent of the link's cycles
    uint32_t period;  // of the link's clock
};

struct Bench {
    explicit Bench(const Settings &given) : s{given}, host{s.usb}, random{given.usb.seed + 77} {
        model.rst = model.usb_rst = model.usb_io_rst = 1;
        model.d_p_i = 1;
        for (int n = 0; n < 16; n++) step();
        model.rst = model.usb_rst = model.usb_io_rst = 0;
    }

    // Up to the next edge of the 48 MHz.
    void step() {
        constexpr uint64_t kIo = 20833;
        now += kIo;
        for (; link_at <= now; link_at += s.period) link();
        const auto line = host.tick({bool(model.d_p_o), bool(model.d_n_o), bool(model.drive), bool(model.pull_up)});
        const bool both = ticks++ % 4 == 0;
        model.usb_io_clk = 1, model.usb_clk = both;
        model.eval();
        model.usb_io_clk = model.usb_clk = 0;
        model.d_p_i = line.plus, model.d_n_i = line.minus;
        model.eval();
    }

    void link() {
        model.received_ready = ready();
        if (!model.send_valid || taken) model.send_valid = !out.empty() && ready();
        if (model.send_valid) model.send_payload = out.front();
        model.eval();
        taken = model.send_valid && model.send_ready;
        if (taken) out.pop_front();
        if (model.received_valid && model.received_ready) in.push_back(model.received_payload);
        model.clk = 1, model.eval();
        model.clk = 0, model.eval();
    }

    bool ready() {
        random ^= random << 13, random ^= random >> 17, random ^= random << 5;
        return random % 100 >= s.stall;
    }

    const Settings s;
    UsbHost host;
    VerilatedContext context;
    Vusb model{&context};
    std::deque<uint8_t> in, out;  // what the link got, and what it sends
    uint32_t random;
    uint64_t now = 0, link_at = 0, ticks = 0;
    bool taken = false;
};

uint64_t give(std::deque<uint8_t> &from, uint8_t *to, uint64_t most) {
    uint64_t count = 0;
    for (; count < most && !from.empty(); from.pop_front()) to[count++] = from.front();
    return count;
}

}  // namespace

extern "C" {

void *usb_open(const Settings *settings) { return new Bench{*settings}; }
void usb_close(void *handle) { delete static_cast<Bench *>(handle); }

// Simulates so many ticks of 48 MHz, less where an error is found; returns whether the device is configured.
int usb_advance(void *handle, uint64_t ticks) {
    auto &bench = *static_cast<Bench *>(handle);
    for (; ticks && bench.host.error().empty(); ticks--) bench.step();
    return bench.host.configured;
}

// Side 0 is the host, 1 the link.
void usb_send(void *handle, int side, const uint8_t *data, uint64_t size) {
    auto &bench = *static_cast<Bench *>(handle);
    auto &queue = side ? bench.out : bench.host.to_board;
    queue.insert(queue.end(), data, data + size);
}
uint64_t usb_receive(void *handle, int side, uint8_t *data, uint64_t most) {
    auto &bench = *static_cast<Bench *>(handle);
    return give(side ? bench.in : bench.host.from_board, data, most);
}
void usb_replug(void *handle) { static_cast<Bench *>(handle)->host.replug(); }
void usb_count(void *handle, usb_counts *counts) { *counts = static_cast<Bench *>(handle)->host.counts; }
const char *usb_error(void *handle) { return static_cast<Bench *>(handle)->host.error().c_str(); }

// What was read in the enumeration: 0 the device's descriptor, 1 the configuration's, 2 the strings'.
uint64_t usb_descriptor(void *handle, int which, uint8_t *data, uint64_t most) {
    const auto &host = static_cast<Bench *>(handle)->host;
    const auto &bytes = which == 0 ? host.device_descriptor : which == 1 ? host.configuration_descriptor : host.strings;
    const uint64_t count = bytes.size() < most ? bytes.size() : most;
    memcpy(data, bytes.data(), count);
    return count;
}

uint8_t usb_crc5(uint16_t bits) { return UsbHost::crc5(bits); }
uint16_t usb_crc16(const uint8_t *data, uint64_t size) { return UsbHost::crc16({data, data + size}); }

// The lines of a packet as letters, and back to bytes; -1 where they are no packet.
uint64_t usb_encode(const uint8_t *data, uint64_t size, char *lines) {
    const auto found = UsbHost::encode({data, data + size});
    for (size_t i = 0; i < found.size(); i++) lines[i] = "0JKX"[found[i]];
    return found.size();
}
int64_t usb_decode(const char *lines, uint64_t count, uint8_t *data) {
    std::vector<UsbHost::Line> found;
    for (uint64_t i = 0; i < count; i++) found.push_back(lines[i] == 'J' ? UsbHost::J : UsbHost::K);
    UsbHost::Bytes bytes;
    if (!UsbHost::decode(found, bytes)) return -1;
    memcpy(data, bytes.data(), bytes.size());
    return bytes.size();
}
}
