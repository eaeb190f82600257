// The C face of the feeder: exceptions become statuses, and nothing else happens here.
#include "chakrakit/feeder.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <system_error>

#include "core/error.hpp"
#include "core/feeder/feeder.hpp"

struct chakra_feeder {
    std::unique_ptr<chakra::Feeder> feeder;
    std::string error;
};

namespace {

using chakra::FeedNode;

const FeedNode& of(const chakra_node* node) {
    return *reinterpret_cast<const FeedNode*>(node);
}

const chakra_node* wrap(const std::shared_ptr<const FeedNode>& node) {
    return reinterpret_cast<const chakra_node*>(node.get());
}

// Keeps the words if there is memory for them, and passes the status on.
int report(chakra_feeder* feeder, int status, const char* what) noexcept {
    try {
        feeder->error = what;
    } catch (...) {
        feeder->error.clear();
    }
    return status;
}

int report(chakra_feeder* feeder, const chakra::FormatError& e) noexcept {
    try {
        std::string place = e.offset() < 0 ? "" : "byte " + std::to_string(e.offset()) + ": ";
        return report(feeder, CHAKRA_ERROR_FORMAT, (place + e.what()).c_str());
    } catch (...) {
        return report(feeder, CHAKRA_ERROR_FORMAT, e.what());
    }
}

template <class Body>
auto guarded(chakra_feeder* feeder, Body body) noexcept -> decltype(body()) {
    try {
        return body();
    } catch (const chakra::FormatError& e) {
        return report(feeder, e);
    } catch (const chakra::FeedError& e) {
        bool deadlock = e.kind() == chakra::FeedError::kDeadlock;
        return report(feeder, deadlock ? CHAKRA_ERROR_DEADLOCK : CHAKRA_ERROR_USE, e.what());
    } catch (const std::system_error& e) {
        return report(feeder, CHAKRA_ERROR_IO, e.what());
    } catch (const std::bad_alloc&) {
        return report(feeder, CHAKRA_ERROR_MEMORY, "out of memory");
    } catch (const std::exception& e) {
        return report(feeder, CHAKRA_ERROR_USE, e.what());
    } catch (...) {
        return report(feeder, CHAKRA_ERROR_USE, "the read callback threw");
    }
}

template <class Body>
auto with(chakra_feeder* feeder, Body body) noexcept -> decltype(body(*feeder->feeder)) {
    if (!feeder->feeder) return CHAKRA_ERROR_USE;  // it failed to open, and that error stays
    feeder->error.clear();
    return guarded(feeder, [&] { return body(*feeder->feeder); });
}

// As guarded, for questions about one node, which have no feeder to keep an error: memory ran out.
template <class Body>
int64_t or_minus_one(Body body) noexcept {
    try {
        return body();
    } catch (...) {
        return -1;
    }
}

chakra::FeederOptions convert(const chakra_feeder_options* given) {
    chakra_feeder_options options;
    chakra_feeder_defaults(&options);
    // An older program's struct is shorter: what it does not have keeps its default.
    if (given) std::memcpy(&options, given, std::min(given->struct_size, sizeof(options)));
    return {options.window, options.data_deps_only == 0, options.ignore_missing != 0};
}

template <class MakeReader>
int open(const chakra_feeder_options* options, chakra_feeder** out, MakeReader make) noexcept {
    chakra_feeder* feeder = *out = new (std::nothrow) chakra_feeder;
    if (!feeder) return CHAKRA_ERROR_MEMORY;
    return guarded(feeder, [&] {
        feeder->feeder = std::make_unique<chakra::Feeder>(make(), convert(options));
        return static_cast<int>(CHAKRA_OK);
    });
}

chakra::ByteReader reader(chakra_read_fn read, void* context) {
    return [=](uint8_t* buffer, size_t n) {
        int64_t got = read(context, buffer, n);
        if (got >= 0) return static_cast<size_t>(got);
        throw std::system_error(EIO, std::generic_category(),
                                "the read callback gave " + std::to_string(got));
    };
}

// Writes as many as fit, and gives how many there are.
template <class T>
int64_t copy_out(const std::vector<T>& values, T* out, size_t n) {
    std::copy_n(values.begin(), std::min(n, values.size()), out);
    return static_cast<int64_t>(values.size());
}

int next(chakra::Feeder& feeder, const chakra_node** node) {
    *node = wrap(feeder.take());
    if (*node) return CHAKRA_TAKEN;
    return feeder.finished() ? CHAKRA_FINISHED : CHAKRA_NONE_READY;
}

}  // namespace

const char* chakra_feeder_version(void) {
    return CHAKRAKIT_VERSION;
}

void chakra_feeder_defaults(chakra_feeder_options* options) {
    chakra::FeederOptions defaults;
    *options = {sizeof(*options), defaults.window, !defaults.ctrl, defaults.ignore_missing};
}

int chakra_feeder_open(const char* path, const chakra_feeder_options* options,
                       chakra_feeder** feeder) {
    return open(options, feeder, [&] { return chakra::open_file(path); });
}

int chakra_feeder_open_callback(chakra_read_fn read, void* context,
                                const chakra_feeder_options* options, chakra_feeder** feeder) {
    return open(options, feeder, [&] { return reader(read, context); });
}

void chakra_feeder_close(chakra_feeder* feeder) {
    delete feeder;
}

const char* chakra_feeder_error(const chakra_feeder* feeder) {
    return feeder ? feeder->error.c_str() : "out of memory";
}

int chakra_feeder_next(chakra_feeder* feeder, const chakra_node** node) {
    *node = nullptr;
    return with(feeder, [&](chakra::Feeder& f) { return next(f, node); });
}

// What was taken before an error is given out; the error comes back with the next call.
int64_t chakra_feeder_next_batch(chakra_feeder* feeder, const chakra_node** nodes, size_t n) {
    for (size_t taken = 0; taken < n; ++taken) {
        int status = chakra_feeder_next(feeder, &nodes[taken]);
        if (status < 0 && taken == 0) return status;
        if (status != CHAKRA_TAKEN) return static_cast<int64_t>(taken);
    }
    return static_cast<int64_t>(n);
}

int chakra_feeder_is_finished(chakra_feeder* feeder) {
    return with(feeder, [](chakra::Feeder& f) { return static_cast<int>(f.finished()); });
}

int64_t chakra_feeder_ready(chakra_feeder* feeder, uint64_t* ids, size_t n) {
    return with(feeder, [&](chakra::Feeder& f) { return copy_out(f.ready_ids(), ids, n); });
}

int chakra_feeder_take(chakra_feeder* feeder, uint64_t id, const chakra_node** node) {
    *node = nullptr;
    return with(feeder, [&](chakra::Feeder& f) {
        *node = wrap(f.take(id));
        return static_cast<int>(CHAKRA_TAKEN);
    });
}

int chakra_feeder_push_back(chakra_feeder* feeder, uint64_t id) {
    return with(feeder, [&](chakra::Feeder& f) {
        f.push_back(id);
        return static_cast<int>(CHAKRA_OK);
    });
}

int chakra_feeder_done(chakra_feeder* feeder, uint64_t id) {
    return chakra_feeder_done_batch(feeder, &id, 1);
}

int chakra_feeder_done_batch(chakra_feeder* feeder, const uint64_t* ids, size_t n) {
    return with(feeder, [&](chakra::Feeder& f) {
        std::for_each(ids, ids + n, [&](uint64_t id) { f.done(id); });
        return static_cast<int>(CHAKRA_OK);
    });
}

const chakra_node* chakra_feeder_lookup(chakra_feeder* feeder, uint64_t id) {
    const chakra_node* node = nullptr;
    with(feeder, [&](chakra::Feeder& f) {
        node = wrap(f.lookup(id));
        return static_cast<int>(CHAKRA_OK);
    });
    return node;
}

int64_t chakra_feeder_children(chakra_feeder* feeder, uint64_t id, uint64_t* ids, size_t n) {
    return with(feeder, [&](chakra::Feeder& f) { return copy_out(f.children(id), ids, n); });
}

uint64_t chakra_feeder_in_flight(const chakra_feeder* feeder) {
    return feeder->feeder ? feeder->feeder->in_flight() : 0;
}

uint64_t chakra_node_id(const chakra_node* node) {
    return of(node).id;
}
const char* chakra_node_name(const chakra_node* node) {
    return of(node).name.c_str();
}
int32_t chakra_node_type(const chakra_node* node) {
    return of(node).type;
}
uint64_t chakra_node_start_time_micros(const chakra_node* node) {
    return of(node).start_time_micros;
}
uint64_t chakra_node_duration_micros(const chakra_node* node) {
    return of(node).duration_micros;
}
int32_t chakra_node_is_cpu_op(const chakra_node* node) {
    return of(node).is_cpu_op;
}
int64_t chakra_node_num_ops(const chakra_node* node) {
    return of(node).num_ops;
}
int64_t chakra_node_tensor_size(const chakra_node* node) {
    return of(node).tensor_size;
}
int64_t chakra_node_comm_type(const chakra_node* node) {
    return of(node).comm_type;
}
int64_t chakra_node_comm_size(const chakra_node* node) {
    return of(node).comm_size;
}
int64_t chakra_node_comm_src(const chakra_node* node) {
    return of(node).comm_src;
}
int64_t chakra_node_comm_dst(const chakra_node* node) {
    return of(node).comm_dst;
}
int64_t chakra_node_comm_tag(const chakra_node* node) {
    return of(node).comm_tag;
}
int64_t chakra_node_comm_priority(const chakra_node* node) {
    return of(node).comm_priority;
}
const char* chakra_node_pg_name(const chakra_node* node) {
    return of(node).pg_name.c_str();
}

int64_t chakra_node_involved_dim(const chakra_node* node, int64_t* dims, size_t n) {
    return or_minus_one([&] { return copy_out(of(node).involved_dim(), dims, n); });
}

int64_t chakra_node_data_deps(const chakra_node* node, uint64_t* ids, size_t n) {
    return or_minus_one([&] { return copy_out(of(node).data_deps(), ids, n); });
}

int64_t chakra_node_ctrl_deps(const chakra_node* node, uint64_t* ids, size_t n) {
    return or_minus_one([&] { return copy_out(of(node).ctrl_deps(), ids, n); });
}

int32_t chakra_node_has(const chakra_node* node, const char* attribute) {
    return of(node).find(attribute).has_value();
}

int64_t chakra_node_int(const chakra_node* node, const char* attribute, int64_t absent) {
    auto found = of(node).find(attribute);
    return found ? found->as_int().value_or(absent) : absent;
}

double chakra_node_double(const chakra_node* node, const char* attribute, double absent) {
    auto found = of(node).find(attribute);
    return found ? found->as_double().value_or(absent) : absent;
}

int64_t chakra_node_string(const chakra_node* node, const char* attribute, char* text,
                           size_t capacity) {
    auto found = of(node).find(attribute);
    auto value = found ? found->as_text() : std::nullopt;
    if (!value) return -1;
    if (capacity > 0) text[value->copy(text, capacity - 1)] = '\0';
    return static_cast<int64_t>(value->size());
}

int64_t chakra_node_int_list(const chakra_node* node, const char* attribute, int64_t* values,
                             size_t n) {
    return or_minus_one([&]() -> int64_t {
        auto found = of(node).find(attribute);
        auto list = found ? found->as_ints() : std::nullopt;
        return list ? copy_out(*list, values, n) : -1;
    });
}

int32_t chakra_node_raw(const chakra_node* node, const char* attribute, const void** bytes,
                        size_t* size) {
    auto found = of(node).find(attribute);
    *bytes = found && found->member ? found->payload.data() : nullptr;
    *size = found ? found->payload.size() : 0;
    return found ? static_cast<int32_t>(found->member) : 0;
}
