// Feeds damaged traces to the codec: whatever decodes must encode, decode to the same again, and
// have JSON text. As a libFuzzer target, or with the driver below, which mutates a corpus:
//
//     fuzz_et CORPUS [--runs 100000] [--seed 1]
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "../core/message.hpp"
#include "../core/recode.hpp"
#include "core/codec/json_text.hpp"

namespace {

using namespace chakra;
using unit::encoded;
using unit::framed;
using unit::varint;

const std::vector<KnownColumn> kKnown = {{"is_cpu_op", Storage::kBool},
                                         {"comm_size", Storage::kInt},
                                         {"pg_name", Storage::kString},
                                         {"edge_kinds", Storage::kBinary},
                                         {"inputs", Storage::kStringList}};
constexpr size_t kMaxColumns = 12;  // few, so that names beyond them are met

// Decodes in pieces of `block` bytes and batches of `rows`; false if the file is not a trace.
bool recoded(std::string_view data, size_t block, size_t rows, std::string& out,
             std::string& metadata) {
    Decoder d(kKnown, kMaxColumns);
    try {
        size_t from = 0, have = 0;
        while (have < data.size() || from < data.size()) {
            have = std::min(data.size(), std::max(have, from) + block);
            bool last = have == data.size();
            from += d.decode(data.substr(from, have - from), last, rows, 1 << 20);
            if (d.full()) out += encoded(d);
        }
    } catch (const FormatError& e) {
        if (e.offset() < 0 || static_cast<size_t>(e.offset()) > data.size()) std::abort();
        return false;
    }
    out += encoded(d);
    metadata = d.has_metadata() ? d.metadata() : std::string();
    return d.has_metadata();
}

void check(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "fuzz_et: %s\n", what);
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    std::string_view file(reinterpret_cast<const char*>(data), size);
    size_t salt = size ? data[size / 2] : 0;
    std::string once, twice, metadata, again;
    if (!recoded(file, 1 + salt * 7, 1 + salt % 5, once, metadata)) return 0;
    check(recoded(framed(metadata) + once, size_t{1} << 20, 1000, twice, again),
          "what was written cannot be read");
    check(once == twice && metadata == again, "what was written reads as something else");
    Buffer<char> text;
    json_nodes(once, true, text);
    json_metadata(metadata, text);
    return 0;
}

#ifndef CHAKRA_LIBFUZZER

namespace {

using Random = std::mt19937_64;

size_t below(Random& rng, size_t n) {
    return n ? rng() % n : 0;
}

// A range of the file, mostly short.
std::pair<size_t, size_t> range(Random& rng, const std::string& s) {
    size_t from = below(rng, s.size());
    size_t most = below(rng, 4) ? 16 : s.size();
    return {from, std::min(1 + below(rng, most), s.size() - from)};
}

std::string odd_varint(Random& rng) {
    uint64_t v = rng() >> below(rng, 64);
    if (below(rng, 4) == 0) v = (uint64_t{1} << below(rng, 64)) - below(rng, 2);
    return varint(v);
}

void mutate(Random& rng, std::string& s, const std::string& other) {
    if (s.empty()) return void(s = other);
    auto [from, n] = range(rng, s);
    switch (below(rng, 9)) {
        case 0: s[from] = static_cast<char>(s[from] ^ 1 << below(rng, 8)); break;
        case 1: s[from] = static_cast<char>(rng()); break;
        case 2: s[from] = static_cast<char>(s[from] + (below(rng, 2) ? 1 : -1)); break;
        case 3: s.replace(from, 1, odd_varint(rng)); break;
        case 4: s.insert(from, odd_varint(rng)); break;
        case 5: s.erase(from, n); break;
        case 6: s.insert(from, s.substr(from, n)); break;
        case 7: {
            auto [start, length] = range(rng, other);
            s.replace(from, n, other, start, length);
            break;
        }
        default: s.resize(from);
    }
}

std::vector<std::string> corpus(const std::string& folder) {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(folder))
        if (entry.is_regular_file()) paths.push_back(entry.path());
    std::sort(paths.begin(), paths.end());
    std::vector<std::string> found;
    for (const auto& p : paths) {
        std::ifstream in(p, std::ios::binary);
        found.emplace_back(std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>());
    }
    return found;
}

void run(const std::string& s) {
    // A copy of its own size, so that the sanitizer sees a read past the end.
    std::vector<uint8_t> exact(s.begin(), s.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char** argv) {
    std::string folder = argc > 1 ? argv[1] : "";
    uint64_t runs = 100'000, seed = 1;
    for (int i = 2; i + 1 < argc; i += 2) {
        std::string option = argv[i];
        (option == "--runs" ? runs : seed) = std::strtoull(argv[i + 1], nullptr, 10);
    }
    std::vector<std::string> files = folder.empty() ? std::vector<std::string>{} : corpus(folder);
    if (files.empty()) {
        std::fprintf(stderr, "usage: fuzz_et CORPUS [--runs N] [--seed N]\n");
        return 2;
    }
    for (const std::string& s : files) run(s);
    for (uint64_t k = 0; k < runs; ++k) {
        Random rng(seed * 0x9e3779b97f4a7c15u + k);
        std::string s = files[below(rng, files.size())];
        for (size_t times = 1 + below(rng, 4); times-- > 0;)
            mutate(rng, s, files[below(rng, files.size())]);
        run(s);
    }
    std::printf("%llu mutated files, no failure\n", static_cast<unsigned long long>(runs));
}

#endif
