// A pool: so many places that tasks use one at a time, a line in front of them, and what is
// resident at each place.
//
// The line is served in the order in which tasks came (fifo), by priority or by deadline; equals in
// the order in which they came. A fair pool has no line: all tasks run at once and share the places
// equally, none faster than alone on one.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>
#include <vector>

#include "core/sim/plans.hpp"

namespace chakra::sim::live {

// Who waits, and for what: an answer to an older wait does not count.
struct Token {
    int32_t fibre = -1;
    uint32_t version = 0;
};

enum Discipline : uint8_t { kFifo, kPriority, kDeadline, kFair };

struct Task {
    Token token;
    Time work = 0;      // at its place, without a change of what is resident
    double key = 0;     // the lowest is served first
    int32_t item = -1;  // what has to be resident, or -1
    Time change = 0;    // what it takes to make it so
    Time since = 0;
    int64_t number = 0;  // of all tasks of the pool, as they came
};

struct Place {
    bool busy = false;
    Task task;
    Time began = 0;
    uint32_t version = 0;        // of its task
    std::vector<int32_t> items;  // the one that was used last comes last
};

// What a pool did in all; times are sums over its tasks and places.
struct PoolUse {
    int64_t started = 0, ended = 0, refused = 0, changes = 0;
    Time waited = 0, busy = 0, longest_wait = 0;
};

// Tasks that share places: each has had `level` of work since the pool was last empty.
class Shared {
   public:
    explicit Shared(int32_t width) : width_(width) {}

    void add(Task task, Time now) {
        advance(now);
        auto end = level_ + static_cast<long double>(task.work);
        ends_.emplace(std::pair(end, task.number), std::move(task));
    }
    bool remove(Token token, Time now) {
        advance(now);
        return std::erase_if(ends_, [&](const auto& each) {
                   return each.second.token.fibre == token.fibre;
               }) > 0;
    }
    // The task that ends next, if it is due.
    bool take(Time now, Task& task) {
        if (ends_.empty() || next_time() > now) return false;
        advance(now);
        level_ = std::max(level_, ends_.begin()->first.first);
        task = std::move(ends_.begin()->second);
        ends_.erase(ends_.begin());
        if (ends_.empty()) level_ = 0;
        return true;
    }
    Time next_time() const {
        if (ends_.empty()) return kNever;
        long double left = std::max(0.0L, ends_.begin()->first.first - level_) / rate();
        return since_ + static_cast<Time>(std::ceil(left));
    }
    size_t size() const { return ends_.size(); }

   private:
    long double rate() const {
        auto tasks = static_cast<long double>(ends_.size());
        return tasks <= width_ ? 1.0L : width_ / tasks;
    }
    void advance(Time now) {
        if (!ends_.empty()) level_ += rate() * static_cast<long double>(now - since_);
        since_ = now;
    }

    int32_t width_;
    long double level_ = 0;
    Time since_ = 0;
    std::map<std::pair<long double, int64_t>, Task> ends_;
};

class Pool {
   public:
    Pool(int32_t width, Discipline discipline, int64_t most_waiting, int32_t holds)
        : places(width),
          discipline_(discipline),
          most_(most_waiting),
          holds_(holds),
          shared(width) {}

    bool fair() const { return discipline_ == kFair; }

    // Whether a task that comes now is turned away: those that wait are more than get a place now.
    bool full() const {
        if (most_ < 0) return false;
        size_t there = fair() ? shared.size() : waiting.size();
        size_t room = fair() ? places.size() : static_cast<size_t>(free_places());
        return there >= room + static_cast<size_t>(most_);
    }

    void add(Task task) {
        task.number = numbered_++;
        double key = discipline_ == kPriority ? -task.key : discipline_ == kDeadline ? task.key : 0;
        waiting.emplace(std::pair(key, task.number), std::move(task));
    }

    bool withdraw(Token token) {
        return std::erase_if(waiting, [&](const auto& each) {
                   return each.second.token.fibre == token.fibre;
               }) > 0;
    }

    int32_t free_places() const {
        return static_cast<int32_t>(
            std::count_if(places.begin(), places.end(), [](const Place& p) { return !p.busy; }));
    }

    bool resident(int32_t place, int32_t item) const {
        const auto& items = places[place].items;
        return item < 0 || std::find(items.begin(), items.end(), item) != items.end();
    }

    // The free place at which the item is resident, else the lowest; -1 if none is free.
    int32_t place_for(int32_t item) const {
        int32_t lowest = -1;
        for (size_t p = 0; p < places.size(); ++p) {
            if (places[p].busy) continue;
            if (resident(static_cast<int32_t>(p), item)) return static_cast<int32_t>(p);
            if (lowest < 0) lowest = static_cast<int32_t>(p);
        }
        return lowest;
    }

    // The task begins at the place; returns when it ends.
    Time start(Task task, int32_t at, Time now) {
        Place& place = places[at];
        bool change = !resident(at, task.item);
        if (task.item >= 0) keep(place, task.item);
        Time end = now + task.work + (change ? task.change : 0);
        use.changes += change;
        note_start(task, now);
        place.busy = true;
        place.began = now;
        ++place.version;
        place.task = std::move(task);
        return end;
    }

    void note_start(const Task& task, Time now) {
        ++use.started;
        use.waited += now - task.since;
        use.longest_wait = std::max(use.longest_wait, now - task.since);
    }

    void finish(int32_t at, Time now) {
        Place& place = places[at];
        place.busy = false;
        ++place.version;
        ++use.ended;
        use.busy += now - place.began;
    }

    std::vector<Place> places;
    std::map<std::pair<double, int64_t>, Task> waiting;
    PoolUse use;

   private:
    void keep(Place& place, int32_t item) {
        std::erase(place.items, item);
        place.items.push_back(item);
        if (static_cast<int32_t>(place.items.size()) > holds_)
            place.items.erase(place.items.begin());
    }

    Discipline discipline_;
    int64_t most_;
    int32_t holds_;
    int64_t numbered_ = 0;

   public:
    Shared shared;
};

}  // namespace chakra::sim::live
