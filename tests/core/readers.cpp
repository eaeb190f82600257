#include <limits>
#include <string>

#include "core/error.hpp"
#include "core/readers/json.hpp"
#include "core/readers/kineto.hpp"
#include "core/readers/observer.hpp"
#include "harness.hpp"

using namespace chakra;

namespace {

const std::string kKineto = R"({"schemaVersion": 1, "baseTimeNanoseconds": 1000, "traceEvents": [
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 5, "tid": 6, "ts": 1.500, "dur": 2,
   "args": {"External id": 3, "Input Dims": [[2, 2]], "Collective name": "x", "Ev Idx": 9}},
  {"ph": "s", "id": 8, "pid": 5, "tid": 6, "ts": 2, "cat": "fwdbwd", "name": "fwdbwd"},
  {"ph": "i", "name": "Iteration Start", "ts": 1}
]})";

const std::string kObserver = R"({"schema": "1.1.1-chakra.0.0.4", "pid": 4, "nodes": [
  {"id": 2, "name": "aten::mm", "ctrl_deps": 1,
   "inputs": {"values": [[7, 8, 0, 16, 4, "cuda:0"]], "shapes": [[4, 4]], "types": ["Tensor"]},
   "outputs": {"values": [], "shapes": [], "types": []},
   "attrs": [{"name": "rf_id", "type": "uint64", "value": 11},
             {"name": "op_schema", "type": "string", "value": "a \"b\""},
             {"name": "new_thing", "type": "string", "value": "kept"}]}
]})";

std::string_view text(const KinetoColumns& c, int32_t i) {
    return c.texts[i];
}

std::string replaced(std::string s, std::string_view from, std::string_view to) {
    return s.replace(s.find(from), from.size(), to);
}

}  // namespace

STORY("a JSON cursor hands out values as they are written") {
    JsonCursor in(R"( {"a": [1, {"b": "]"}], "c": "x\"y", "d": -1.5e3, "e": null} )", 0);
    std::vector<std::string> found;
    each_member(in, [&](std::string_view key, JsonCursor& at) {
        found.push_back(std::string(key) + "=" + std::string(at.value()));
    });
    EXPECT(found, {R"(a=[1, {"b": "]"}])", R"(c="x\"y")", "d=-1.5e3", "e=null"});
}

STORY("a tolerant cursor reads a name whose quotes were not escaped") {
    std::string text = R"json({"name": "f("x")", "id": 3})json";
    std::string name;
    JsonCursor in(text, 0, true);
    each_member(in, [&](std::string_view key, JsonCursor& at) {
        if (key == "name")
            name = at.string();
        else
            EXPECT(at.integer(-1), 3);
    });
    EXPECT(name, R"json(f("x"))json");
}

STORY("text that ends early is told from text that is wrong") {
    auto ends = [](std::string_view text) {
        JsonCursor in(text, 0);
        try {
            in.value();
        } catch (const JsonError& e) {
            return e.at_end;
        }
        return false;
    };
    EXPECT(ends("[1, 2"), true);
    EXPECT(ends("\"abc"), true);
    EXPECT(ends(""), true);
    EXPECT(ends("12\"3"), false);
}

STORY("escapes are undone; those JSON does not know stay") {
    EXPECT(unescape(R"(a\n\t\"\\\/b)"), "a\n\t\"\\/b");
    EXPECT(unescape(R"(\u00e9 \ud83d\ude00)"), "\xc3\xa9 \xf0\x9f\x98\x80");
    EXPECT(unescape(R"(\ud83d \udead)"), "\xef\xbf\xbd \xef\xbf\xbd");  // halves of pairs
    EXPECT(unescape(R"(\q \u12 \)"), R"(\q \u12 \)");
}

STORY("whole numbers are read exactly, and what is none gives the fallback") {
    EXPECT(to_integer("-9223372036854775808", 0), std::numeric_limits<int64_t>::min());
    EXPECT(to_integer("18446744073709551615", 0), -1);  // an address, as its bits
    EXPECT(to_integer("\"42\"", 0), 42);
    EXPECT(to_integer("null", 7), 7);
    EXPECT(to_integer("", 7), 7);
    EXPECT(to_integer("99999999999999999999999", 7), 7);
}

STORY("microseconds become nanoseconds without a double between") {
    EXPECT(to_nanoseconds("1719846512345678.901"), 1719846512345678901);
    EXPECT(to_nanoseconds("12"), 12000);
    EXPECT(to_nanoseconds("0.0005"), 1);  // the fourth digit rounds
    EXPECT(to_nanoseconds("0.0004"), 0);
    EXPECT(to_nanoseconds("-1.5"), -1500);
    EXPECT(to_nanoseconds("\"2.5\""), 2500);
    EXPECT(to_nanoseconds("1e3"), 1000000);
    EXPECT(to_nanoseconds(""), 0);
    for (auto number : {"0", "-1.5", "\"2.5\"", "1e3", "1.5E-3", ".5", "7."})
        EXPECT(is_decimal(number), true);
    for (auto other : {"", "\"\"", "\"abc\"", "\"1.2.3\"", "null", "[]", "-", "1e", "12a", "NaN"})
        EXPECT(is_decimal(other), false);
}

STORY("a time that no clock shows is the latest there is") {
    constexpr int64_t most = std::numeric_limits<int64_t>::max();
    EXPECT(to_nanoseconds("99999999999999999999999999"), most);
    EXPECT(to_nanoseconds("9223372036854775807"), most);
    EXPECT(to_nanoseconds("-99999999999999999999999999"), -most);
    EXPECT(to_nanoseconds("1e300"), most);
    EXPECT(to_nanoseconds("-1e300"), -most);
    EXPECT(to_nanoseconds("9223372036854775.807"), most);
}

STORY("Kineto's events become rows, arrows and counts of what is left out") {
    KinetoColumns c = read_kineto(kKineto);
    EXPECT(c.base_ns, 1000);
    EXPECT(c.ts, {1500});
    EXPECT(c.dur, {2000});
    EXPECT(text(c, c.name[0]), "aten::mm");
    EXPECT(text(c, c.in_dims[0]), "[[2, 2]]");
    EXPECT(c.external, {3});
    EXPECT(c.stream, {-1});
    EXPECT(text(c, c.extra_key.at(0)), "Collective name");
    EXPECT(c.extra_key.size(), 1);
    EXPECT(c.flow_id, {8});
    EXPECT(c.flow_finish, {0});
    EXPECT(c.left_out.size(), 1);
    EXPECT(c.truncated, false);
}

STORY("threads that are words get numbers of their own") {
    KinetoColumns c = read_kineto(replaced(kKineto, "\"tid\": 6", "\"tid\": \"main\""));
    EXPECT(c.tid[0] < -1, true);
    EXPECT(text(c, static_cast<int32_t>(-2 - c.tid[0])), "main");
}

STORY("a Kineto file is read as far as it can be") {
    KinetoColumns repaired = read_kineto(replaced(kKineto, "aten::mm", "f(\"x\")"));
    EXPECT(repaired.repaired, 1);
    EXPECT(text(repaired, repaired.name[0]), "f(\"x\")");
    KinetoColumns dropped = read_kineto(replaced(kKineto, "\"ts\": 1.500", "\"ts\": "));
    EXPECT(dropped.dropped, 1);
    EXPECT(dropped.flow_id, {8});
    for (size_t n = kKineto.find("\"id\": 8"); n < kKineto.size() - 3; ++n) {
        KinetoColumns cut = read_kineto(std::string_view(kKineto).substr(0, n));
        EXPECT(cut.truncated, true);
        EXPECT(cut.ts, {1500});
    }
    KinetoColumns bare = read_kineto(R"([{"ph": "X", "ts": 1, "dur": 1, "name": "a"}])");
    EXPECT(bare.ts, {1000});
}

STORY("what is no Kineto file is refused") {
    REFUSES(FormatError, "not a Kineto trace", read_kineto(""));
    REFUSES(FormatError, "not a Kineto trace", read_kineto("12"));
    REFUSES(FormatError, "not a Kineto trace", read_kineto("{\"a\" 1}"));
    EXPECT(read_kineto("{}").ts.size(), 0);
}

STORY("the observer's nodes become rows, and their tensors rows of their own") {
    ObserverColumns c = read_observer(kObserver);
    EXPECT(c.texts[c.schema], "1.1.1-chakra.0.0.4");
    EXPECT(c.pid, 4);
    EXPECT(c.id, {2});
    EXPECT(c.parent, {1});
    EXPECT(c.rf_id, {11});
    EXPECT(c.texts[c.op_schema[0]], "a \"b\"");
    EXPECT(c.tensor_id, {7});
    EXPECT(c.tensor_storage, {8});
    EXPECT(c.tensor_elements, {16});
    EXPECT(c.texts[c.tensor_device[0]], "cuda:0");
    EXPECT(c.tensor_is_output, {0});
    EXPECT(c.texts[c.extra_key.at(0)], "new_thing");
    EXPECT(std::string(c.in_values.bytes.begin(), c.in_values.bytes.end()),
           "[[7, 8, 0, 16, 4, \"cuda:0\"]]");
}

STORY("the first schema's flat nodes are read too") {
    ObserverColumns c = read_observer(R"json({"schema": "1.0.1", "nodes": [
        {"name": "op", "id": 3, "rf_id": 4, "parent": 2, "fw_parent": 0, "seq_id": 5, "scope": 7,
         "tid": 1, "fw_tid": 0, "inputs": [[1, 2, 0, 4, 8, "cpu"]], "input_shapes": [[4]],
         "input_types": ["Tensor(float)"], "outputs": [], "output_shapes": []}]})json");
    EXPECT(c.parent, {2});
    EXPECT(c.seq_id, {5});
    EXPECT(c.tensor_itemsize, {8});
    EXPECT(c.texts[c.in_shapes[0]], "[[4]]");
}

STORY("a node that cannot be read leaves no tensors behind") {
    std::string two = replaced(kObserver, "\n]}", ",\n{\"id\": 3, \"name\": \"b\"}]}");
    ObserverColumns c = read_observer(replaced(two, "\"rf_id\", \"type\"", "\"rf_id\" \"type\""));
    EXPECT(c.dropped, 1);
    EXPECT(c.id, {3});
    EXPECT(c.tensor_id, {});
    for (size_t n = two.find("\"id\": 3") - 1; n < two.size() - 2; ++n) {
        ObserverColumns cut = read_observer(std::string_view(two).substr(0, n));
        EXPECT(cut.truncated, true);
        EXPECT(cut.id.at(0), 2);
    }
}

STORY("arguments nested a thousand deep are no tensors and no trouble") {
    std::string deep = std::string(1000, '[') + "[1,2,0,4,8,\"cpu\"]" + std::string(1000, ']');
    ObserverColumns c = read_observer(R"({"nodes": [{"id": 1, "inputs": )" + deep + "}]}");
    EXPECT(c.id, {1});
    EXPECT(c.tensor_id, {});
}

STORY("what is no execution trace is refused") {
    REFUSES(FormatError, "not an execution trace", read_observer("[]"));
    REFUSES(FormatError, "not an execution trace", read_observer("{\"nodes\": 5}"));
    REFUSES(FormatError, "not an execution trace", read_observer("\x1f\x8b"));
}
