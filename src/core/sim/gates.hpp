// Gates: servers that take a limited number of jobs at a time; the others wait in their queue.
//
// Who came first goes first; of those that came at the same time, the one of the lowest order, then
// the lowest job.
#pragma once

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "core/sim/workload.hpp"

namespace chakra::sim {

class Gates {
   public:
    explicit Gates(const Workload& w) : w_(w), gates_(w.gate_slots.size()) {
        for (size_t g = 0; g < gates_.size(); ++g) gates_[g].free = w.gate_slots[g];
    }

    void add(int32_t job, Time now) {
        int32_t gate = w_.job_gate[job];
        std::vector<Waiting>& waiting = gates_[gate].waiting;
        waiting.push_back({now, w_.job_order[job], job});
        std::push_heap(waiting.begin(), waiting.end(), later);
        look_at(gate);
    }

    // A job of this gate has ended.
    void free(int32_t gate) {
        ++gates_[gate].free;
        look_at(gate);
    }

    // The jobs that pass now.
    std::vector<int32_t> take() {
        std::vector<int32_t> jobs;
        for (int32_t g : std::exchange(candidates_, {})) {
            gates_[g].listed = false;
            for (; gates_[g].free > 0 && !gates_[g].waiting.empty(); --gates_[g].free)
                jobs.push_back(first(gates_[g].waiting));
        }
        return jobs;
    }

   private:
    using Waiting = std::tuple<Time, int64_t, int32_t>;  // since when, order, job
    struct Gate {
        int32_t free = 0;
        bool listed = false;           // already among the candidates
        std::vector<Waiting> waiting;  // a heap, smallest first
    };

    static bool later(const Waiting& a, const Waiting& b) { return b < a; }

    static int32_t first(std::vector<Waiting>& waiting) {
        std::pop_heap(waiting.begin(), waiting.end(), later);
        int32_t job = std::get<2>(waiting.back());
        waiting.pop_back();
        return job;
    }

    void look_at(int32_t gate) {
        if (!gates_[gate].listed) candidates_.push_back(gate);
        gates_[gate].listed = true;
    }

    const Workload& w_;
    std::vector<Gate> gates_;
    std::vector<int32_t> candidates_;
};

}  // namespace chakra::sim
