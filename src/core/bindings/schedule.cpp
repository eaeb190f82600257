// chakrakit.core: the scheduler. The Python side (trace/timing/scheduler.py) checks every array
// first.
#include "core/timing/schedule.hpp"

#include <span>

#include "core/bindings/bind.hpp"

namespace chakra::bind {

namespace {

template <class T>
std::span<const T> view(const In<T>& a) {
    return {a.data(), a.size()};
}

nb::tuple to_python(schedule::Events&& e) {
    return nb::make_tuple(to_numpy(std::move(e.time)), to_numpy(std::move(e.binding)),
                          to_numpy(std::move(e.edge)), to_numpy(std::move(e.reason)));
}

nb::tuple to_python(schedule::Circle&& c) {
    return nb::make_tuple(to_numpy(std::move(c.event)), to_numpy(std::move(c.reason)),
                          to_numpy(std::move(c.edge)));
}

schedule::Result solve_unlocked(const schedule::Problem& problem) {
    nb::gil_scoped_release release;
    return schedule::solve(problem);
}

nb::tuple solve(In<int32_t> src, In<int32_t> dst, In<int8_t> form, In<int64_t> lag,
                In<int64_t> durations, In<int32_t> resource, In<int64_t> order, In<int64_t> release,
                In<int32_t> launch_of, int64_t queue_depth) {
    schedule::Problem problem{view(src),       view(dst),      view(form),  view(lag),
                              view(durations), view(resource), view(order), view(release),
                              view(launch_of), queue_depth};
    schedule::Result result = solve_unlocked(problem);
    return nb::make_tuple(to_python(std::move(result.start)), to_python(std::move(result.end)),
                          to_python(std::move(result.circle)));
}

}  // namespace

void schedule(nb::module_& m) {
    m.def("schedule_solve", &solve);
}

}  // namespace chakra::bind
