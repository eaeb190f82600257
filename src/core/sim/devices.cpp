// Devices: who is let in, and how fast what runs there runs.
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/sim/simulation.hpp"

namespace chakra::sim {

// --- room ---------------------------------------------------------------------------------------

void Simulation::ask(int32_t v) {
    room_.queue(devices_[w_.device[v]], v, now_);
    look_at(w_.device[v]);
    touch(w_.device[v]);
}

void Simulation::look_at(int32_t d) {
    if (!devices_[d].asked) asked_devices_.push_back(d);
    devices_[d].asked = true;
}

// Lets in the rows that find room now; true if there were any.
bool Simulation::admit() {
    bool any = false;
    for (int32_t d : std::exchange(asked_devices_, {})) any |= admit_to(devices_[d]);
    return any;
}

bool Simulation::admit_to(Device& device) {
    device.asked = false;
    bool any = false;
    while (!device.asking.empty()) {
        Asking& first = device.asking.front();
        int32_t behind = room_.in_the_way(device, first, now_);
        if (behind >= 0) {
            first.behind = behind;
            break;
        }
        let_in(device);
        any = true;
    }
    return any;
}

void Simulation::let_in(Device& device) {
    Asking first = device.asking.front();
    device.asking.erase(device.asking.begin());
    device.holders.push_back(first.row);
    held_by_resource(first.row, first.behind, first.since);
    begin(first.row);
}

void Simulation::give_back(int32_t v) {
    std::erase(devices_[w_.device[v]].holders, v);
    look_at(w_.device[v]);
}

// A row in the way is awaited first: no other row gets in before its last round has begun.
void Simulation::await_round(int32_t d) {
    Device& device = devices_[d];
    Time next = room_.next_round(device, now_, false);
    device.gives_up = next == kNever;
    if (device.gives_up) next = room_.next_round(device, now_, true);
    ++device.version;
    if (next != kNever) events_.push({next, kRound, d, device.version});
}

void Simulation::end_round(int32_t d) {
    if (devices_[d].gives_up) devices_[d].round_end = now_;
    look_at(d);
    touch(d);
}

// --- speed --------------------------------------------------------------------------------------

// Computation slows down while bytes move to or from its device, not while a call waits for peers.
void Simulation::begin_moving(int32_t v) {
    if (w_.kind[v] != kComm || w_.device[v] < 0 || out_.start[v] < 0 || moving_[v]) return;
    moving_[v] = true;
    count_communication(w_.device[v], 1);
}

void Simulation::end_moving(int32_t v) {
    if (!moving_[v]) return;
    moving_[v] = false;
    count_communication(w_.device[v], -1);
}

void Simulation::count_communication(int32_t device, int32_t change) {
    devices_[device].communicating += change;
    touch(device);
}

void Simulation::touch(int32_t device) {
    if (!devices_[device].dirty) dirty_devices_.push_back(device);
    devices_[device].dirty = true;
}

void Simulation::begin_work(int32_t v) {
    auto work = static_cast<double>(w_.duration[v]);
    devices_[w_.device[v]].running.push_back({v, work, 0, now_, now_, 0});
    touch(w_.device[v]);
}

void Simulation::settle_devices() {
    for (int32_t device : dirty_devices_) settle(device);
    dirty_devices_.clear();
}

void Simulation::settle(int32_t d) {
    Device& device = devices_[d];
    device.dirty = false;
    double rate = device.factor;
    if (device.communicating > 0) rate /= 1 + w_.comm_slowdown[d];
    double each = room_.left(device);
    if (w_.fair && device.running.size() > 1) each /= static_cast<double>(device.running.size());
    double most = w_.demand.empty() ? kWhole : fair_demand(device.running, rate);
    for (Work& work : device.running) {
        double slowed = rate * (std::min<double>(each, w_.share[work.row]) / kWhole);
        if (!w_.demand.empty() && slowed * w_.demand[work.row] > most)
            slowed = most / w_.demand[work.row];
        set_rate(work, slowed);
    }
    if (!device.asking.empty()) await_round(d);
}

// The most that one row may draw of the memory bandwidth, so that all of them together draw no
// more than there is: those that ask for less leave the rest to the others.
double Simulation::fair_demand(const std::vector<Work>& running, double rate) const {
    std::vector<double> asked;
    for (const Work& work : running) asked.push_back(rate * w_.demand[work.row]);
    std::sort(asked.begin(), asked.end());
    double left = kWhole;
    for (size_t i = 0; i < asked.size(); ++i) {
        double each = left / static_cast<double>(asked.size() - i);
        if (asked[i] > each) return each;
        left -= asked[i];
    }
    return kWhole;
}

void Simulation::set_rate(Work& work, double rate) {
    if (work.rate == rate) return;
    work.remaining -= work.rate * static_cast<double>(now_ - work.since);
    work.remaining = std::max(0.0, work.remaining);
    work.rate = rate;
    work.since = now_;
    ++work.version;
    if (rate > 0) {
        Time end = now_ + amount(work.remaining / rate);
        events_.push({end, kWorkDone, work.row, work.version});
    }
}

void Simulation::work_done(int32_t v, uint32_t version) {
    Device& device = devices_[w_.device[v]];
    auto work = std::find_if(device.running.begin(), device.running.end(), [&](const Work& each) {
        return each.row == v && each.version == version;
    });
    if (work == device.running.end()) return;
    device.running.erase(work);
    if (!device.asking.empty()) look_at(w_.device[v]);
    touch(w_.device[v]);
    own_end(v, 0);
}

}  // namespace chakra::sim
