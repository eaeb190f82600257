#include "core/readers/kineto.hpp"

#include <array>
#include <unordered_map>

#include "core/error.hpp"
#include "core/readers/json.hpp"

namespace chakra {

namespace {

// Arguments with a column of their own, in the order of EventText::numbers and ::texts.
enum Number {
    External,
    RfId,
    Correlation,
    Stream,
    Device,
    Sequence,
    FwdThread,
    Bytes,
    PythonId,
    PythonParent,
    GraphNode
};
constexpr int Numbers = GraphNode + 1;
enum Text { Dims, Types, Strides, Values, Grid, Block, TextCount };

// Arguments that say nothing a trace needs: how full the device was, and positions in the file.
constexpr int kIgnored = -1;

const std::unordered_map<std::string_view, int>& argument_slots() {
    static const std::unordered_map<std::string_view, int> slots{
        {"External id", External},
        {"external id", External},
        {"Record function id", RfId},
        {"correlation", Correlation},
        {"stream", Stream},
        {"device", Device},
        {"Sequence number", Sequence},
        {"Fwd thread id", FwdThread},
        {"bytes", Bytes},
        {"Bytes", Bytes},
        {"Python id", PythonId},
        {"Python parent id", PythonParent},
        {"graph node id", GraphNode},
        {"Input Dims", Numbers + Dims},
        {"Input dims", Numbers + Dims},
        {"Input type", Numbers + Types},
        {"Input Strides", Numbers + Strides},
        {"Concrete Inputs", Numbers + Values},
        {"grid", Numbers + Grid},
        {"block", Numbers + Block},
        {"Ev Idx", kIgnored},
        {"cbid", kIgnored},
        {"queued", kIgnored},
        {"context", kIgnored},
        {"registers per thread", kIgnored},
        {"shared memory", kIgnored},
        {"blocks per SM", kIgnored},
        {"warps per SM", kIgnored},
        {"est. achieved occupancy %", kIgnored},
        {"memory bandwidth (GB/s)", kIgnored},
        {"Trace iteration", kIgnored},
        {"Trace name", kIgnored},
        {"Call stack", kIgnored}};
    return slots;
}

struct Extra {
    std::string_view key, value;
};

struct EventText {
    char phase = 0;
    std::string_view cat, name, pid, tid, ts, dur;
    int64_t id = -1;
    std::array<int64_t, Numbers> numbers;
    std::array<std::string_view, TextCount> texts;
    std::vector<Extra> extras;

    EventText() { numbers.fill(-1); }
};

std::string_view inner(std::string_view raw) {
    return raw.size() >= 2 && raw.front() == '"' ? raw.substr(1, raw.size() - 2) : raw;
}

void read_argument(EventText& e, std::string_view key, JsonCursor& at) {
    const auto& slots = argument_slots();
    auto slot = slots.find(key);
    std::string_view raw = at.value();
    if (slot == slots.end())
        e.extras.push_back({key, inner(raw)});
    else if (slot->second >= Numbers)
        e.texts[slot->second - Numbers] = raw;
    else if (slot->second != kIgnored)
        e.numbers[slot->second] = to_integer(raw, -1);
}

void set_field(EventText& e, std::string_view key, std::string_view raw) {
    if (key == "ph")
        e.phase = inner(raw).empty() ? 0 : inner(raw)[0];
    else if (key == "cat")
        e.cat = inner(raw);
    else if (key == "name")
        e.name = inner(raw);
    else if (key == "pid")
        e.pid = raw;
    else if (key == "tid")
        e.tid = raw;
    else if (key == "ts")
        e.ts = raw;
    else if (key == "dur")
        e.dur = raw;
    else if (key == "id")
        e.id = to_integer(raw, -1);
}

EventText read_event(JsonCursor& in) {
    EventText e;
    auto argument = [&](std::string_view key, JsonCursor& at) { read_argument(e, key, at); };
    each_member(in, [&](std::string_view key, JsonCursor& at) {
        if (key == "args" && at.peek() == '{')
            each_member(at, argument);
        else
            set_field(e, key, at.value());
    });
    return e;
}

int32_t text(KinetoColumns& out, std::string_view raw) {
    return raw.find('\\') == raw.npos ? out.texts.intern(raw) : out.texts.intern(unescape(raw));
}

// Threads and processes are numbers, now and then words; words get numbers below -1.
int64_t place(KinetoColumns& out, std::string_view raw) {
    int64_t number = to_integer(raw, -1);
    if (number != -1 || raw == "-1") return number;
    return -2 - static_cast<int64_t>(text(out, inner(raw)));
}

void push_numbers(KinetoColumns& out, const EventText& e) {
    out.external.push_back(e.numbers[External]);
    out.rf_id.push_back(e.numbers[RfId]);
    out.correlation.push_back(e.numbers[Correlation]);
    out.stream.push_back(e.numbers[Stream]);
    out.device.push_back(e.numbers[Device]);
    out.sequence.push_back(e.numbers[Sequence]);
    out.fwd_thread.push_back(e.numbers[FwdThread]);
    out.bytes.push_back(e.numbers[Bytes]);
    out.python_id.push_back(e.numbers[PythonId]);
    out.python_parent.push_back(e.numbers[PythonParent]);
    out.graph_node.push_back(e.numbers[GraphNode]);
}

void push_texts(KinetoColumns& out, const EventText& e) {
    out.in_dims.push_back(out.texts.intern(e.texts[Dims]));
    out.in_types.push_back(out.texts.intern(e.texts[Types]));
    out.in_strides.push_back(out.texts.intern(e.texts[Strides]));
    out.in_values.push_back(out.texts.intern(e.texts[Values]));
    out.grid.push_back(out.texts.intern(e.texts[Grid]));
    out.block.push_back(out.texts.intern(e.texts[Block]));
}

void push_complete(KinetoColumns& out, const EventText& e) {
    for (const Extra& x : e.extras) {
        out.extra_event.push_back(static_cast<int32_t>(out.ts.size()));
        out.extra_key.push_back(text(out, x.key));
        out.extra_value.push_back(text(out, x.value));
    }
    out.cat.push_back(text(out, e.cat));
    out.name.push_back(text(out, e.name));
    out.pid.push_back(place(out, e.pid));
    out.tid.push_back(place(out, e.tid));
    int64_t begin = to_nanoseconds(e.ts);
    out.ts.push_back(begin);
    out.dur.push_back(e.dur.empty() ? 0 : to_nanoseconds(e.dur));
    push_numbers(out, e);
    push_texts(out, e);
}

void push(KinetoColumns& out, const EventText& e) {
    bool arrow = e.cat == "fwdbwd" && (e.phase == 's' || e.phase == 'f');
    bool timed = is_decimal(e.ts) && (e.dur.empty() || is_decimal(e.dur));
    if ((arrow || e.phase == 'X') && !timed) {
        ++out.dropped;  // taken for 0 it would lie at the clock's beginning, days before the rest
    } else if (e.phase == 'X') {
        push_complete(out, e);
    } else if (arrow) {
        out.flow_id.push_back(e.id);
        out.flow_tid.push_back(place(out, e.tid));
        out.flow_ts.push_back(to_nanoseconds(e.ts));
        out.flow_finish.push_back(e.phase == 'f');
    } else {
        ++out.left_out[text(out, e.cat.empty() ? e.name : e.cat)];
    }
}

size_t next_event(std::string_view text, size_t from) {
    for (size_t at = text.find('{', from + 1); at != text.npos; at = text.find('{', at + 1)) {
        size_t key = text.find_first_not_of(" \n\r\t", at + 1);
        if (key == text.npos) return text.npos;
        if (text.substr(key, 4) == "\"ph\"") return at;
    }
    return text.npos;
}

void read_events(KinetoColumns& out, std::string_view text, JsonCursor& in) {
    auto read = [&](JsonCursor& event) {
        EventText e = read_event(event);
        push(out, e);
    };
    read_objects(out, text, in, read, next_event);
}

void top_member(KinetoColumns& out, std::string_view text, std::string_view key, JsonCursor& in) {
    if (key == "traceEvents") {
        read_events(out, text, in);
        return;
    }
    std::string_view raw = in.value();
    if (key == "baseTimeNanoseconds")
        out.base_ns = to_integer(raw, 0);
    else if (key == "distributedInfo")
        out.distributed = out.texts.intern(raw);
    else if (key == "deviceProperties")
        out.devices = out.texts.intern(raw);
    else if (key == "host_name")
        out.host_name = out.texts.intern(inner(raw));
    else if (key == "traceName")
        out.trace_name = out.texts.intern(inner(raw));
}

// Chrome also knows files that are only the list of events.
bool is_bare_list(std::string_view text) {
    size_t at = text.find_first_not_of(" \n\r\t");
    return at != text.npos && text[at] == '[';
}

}  // namespace

KinetoColumns read_kineto(std::string_view text) {
    KinetoColumns out;
    JsonCursor in(text, 0);
    try {
        if (is_bare_list(text)) {
            read_events(out, text, in);
            return out;
        }
        in.expect('{');
        bool more = !in.accept('}');
        while (more) {
            std::string_view key = in.string();
            in.expect(':');
            top_member(out, text, key, in);
            more = !out.truncated && in.accept(',');
        }
    } catch (const JsonError& e) {
        if (!e.at_end || out.ts.empty())
            throw FormatError("not a Kineto trace: the JSON cannot be read",
                              static_cast<int64_t>(e.at));
        out.truncated = true;
    }
    return out;
}

}  // namespace chakra
