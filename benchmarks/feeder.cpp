// Writes large traces and drains them through the C feeder; benchmarks/feeder.py compiles and runs
// it.
//
//     feeder write chain|star|random|attributes|reversed|sparse NODES PATH
//     feeder drain PATH          prints: nodes, CPU seconds, peak RSS in MB
#include "chakrakit/feeder.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <string>
#include <vector>

namespace {

void varint(std::string& out, uint64_t v) {
    for (; v >= 0x80; v >>= 7) out += static_cast<char>(v | 0x80);
    out += static_cast<char>(v);
}

void frame(std::FILE* file, const std::string& bytes) {
    std::string head;
    varint(head, bytes.size());
    std::fwrite(head.data(), 1, head.size(), file);
    std::fwrite(bytes.data(), 1, bytes.size(), file);
}

// What a trace converted from PyTorch says of a node, about 300 bytes.
std::string attributes() {
    std::string out;
    auto add = [&](const std::string& name, const std::string& value) {
        std::string attribute = "\x0a";
        varint(attribute, name.size());
        attribute += name + value;
        out += '\x52';
        varint(out, attribute.size());
        out += attribute;
    };
    for (const char* name : {"rf_id", "fw_parent", "seq_id", "scope", "tid", "fw_tid", "stream"})
        add(name, "\x48\x07");                      // int64_val
    add("is_cpu_op", std::string("\xd8\x01\x01"));  // bool_val
    add("comm_size", "\x48\x80\x80\x04");
    add("op_schema", "\xea\x01\x78" + std::string(120, 's'));  // string_val
    return out;
}

std::string node(uint64_t id, const std::vector<uint64_t>& deps) {
    std::string packed, out = "\x08";
    varint(out, id);
    out += "\x12\x04gemm\x18\x04\x38\x05";  // name, COMP_NODE, 5 µs
    for (uint64_t dep : deps) varint(packed, dep);
    if (packed.empty()) return out;
    out += '\x2a';
    varint(out, packed.size());
    return out + packed;
}

std::vector<uint64_t> deps_of(const std::string& kind, uint64_t id, uint64_t n) {
    if (id == 0) return {};
    if (kind == "chain" || kind == "reversed") return {id - 1};
    if (kind == "sparse") return {};
    if (kind == "random" || kind == "attributes") {
        uint64_t reach = std::min<uint64_t>(id, 1000);
        return {id - 1 - std::rand() % reach, id - 1 - std::rand() % reach};
    }
    if (id + 1 < n) return {0};
    std::vector<uint64_t> all(n - 1);
    for (uint64_t i = 0; i + 1 < n; ++i) all[i] = i;
    return all;
}

int write(const std::string& kind, uint64_t n, const char* path) {
    std::FILE* file = std::fopen(path, "wb");
    if (!file) return 1;
    std::srand(1);
    frame(file, "");
    const std::string more = kind == "attributes" ? attributes() : "";
    for (uint64_t i = 0; i < n; ++i) {
        uint64_t id = kind == "reversed" ? n - 1 - i : i;
        uint64_t spread = kind == "sparse" ? 0x9e3779b97f4a7c15 : 1;  // odd: ids stay distinct
        frame(file, node(id * spread, deps_of(kind, id, n)) + more);
    }
    return std::fclose(file);
}

// From /proc, for getrusage also counts what the parent held when it forked.
double peak_megabytes() {
    std::ifstream status("/proc/self/status");
    for (std::string line; std::getline(status, line);)
        if (line.rfind("VmHWM:", 0) == 0) return std::strtod(line.c_str() + 6, nullptr) / 1024;
    return 0;
}

int drain(const char* path) {
    chakra_feeder* feeder;
    const chakra_node* node;
    uint64_t nodes = 0, micros = 0;
    int status = chakra_feeder_open(path, nullptr, &feeder);
    for (; status >= 0 && (status = chakra_feeder_next(feeder, &node)) == CHAKRA_TAKEN; ++nodes) {
        micros += chakra_node_duration_micros(node);
        chakra_feeder_done(feeder, chakra_node_id(node));
    }
    if (status != CHAKRA_FINISHED) std::fprintf(stderr, "%s\n", chakra_feeder_error(feeder));
    chakra_feeder_close(feeder);
    double cpu = static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
    std::printf("%lu %.3f %.1f\n", static_cast<unsigned long>(nodes), cpu, peak_megabytes());
    return status != CHAKRA_FINISHED || micros != 5 * nodes;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc == 5 && !std::strcmp(argv[1], "write"))
        return write(argv[2], std::strtoull(argv[3], nullptr, 10), argv[4]);
    if (argc == 3 && !std::strcmp(argv[1], "drain")) return drain(argv[2]);
    return 2;
}
