#include "core/readers/pickle.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <span>
#include <variant>

#include "core/error.hpp"
#include "core/readers/pickle_machine.hpp"
#include "core/text/utf8.hpp"

namespace chakra {

namespace {

constexpr int kDeepest = 64;
// A list may stand in many places of a pickle and is written out in each: honest files stay far
// below.
constexpr size_t kGrowth = 64;
constexpr size_t kSmall = size_t{1} << 20;

using pickle::Items;
using pickle::Machine;
using pickle::None;
using pickle::Ref;
using pickle::Unsigned;
using pickle::Value;

class Writer {
   public:
    Writer(const Machine& machine, const std::vector<std::string>& skip, size_t limit)
        : machine_(machine), skip_(skip), limit_(limit) {
        out.reserve(std::min(limit, size_t{1} << 21));
    }

    void write(Ref ref, int depth = 0) {
        if (depth > kDeepest) throw FormatError("the pickle is nested too deeply, or holds itself");
        if (out.size() > limit_) throw FormatError("the pickle repeats itself beyond measure");
        const Value& value = machine_.at(ref);
        if (const auto* items = std::get_if<Items>(&value)) return container(*items, depth);
        if (const auto* text = std::get_if<std::string_view>(&value)) return quoted(*text);
        if (const auto* yes = std::get_if<bool>(&value)) {
            out += *yes ? "true" : "false";
        } else if (const auto* whole = std::get_if<int64_t>(&value)) {
            plain(*whole);
        } else if (const auto* large = std::get_if<Unsigned>(&value)) {
            plain(large->value);
        } else if (const auto* real = std::get_if<double>(&value); real && std::isfinite(*real)) {
            plain(*real);
        } else {
            out += "null";
        }
    }

    std::string out;

   private:
    template <class T>
    void plain(T value) {
        char text[40];
        auto end = std::to_chars(text, text + sizeof text, value).ptr;
        out.append(text, end);
    }

    void container(const Items& items, int depth) {
        if (items.dictionary) return dictionary(machine_.in(items), depth);
        out += '[';
        for (Ref ref : machine_.in(items)) {
            write(ref, depth + 1);
            out += ',';
        }
        close(']');
    }

    void dictionary(std::span<const Ref> refs, int depth) {
        out += '{';
        for (size_t i = 0; i < refs.size(); i += 2) {
            if (skipped(refs[i])) continue;
            key(refs[i]);
            out += ':';
            write(refs[i + 1], depth + 1);
            out += ',';
        }
        close('}');
    }

    void close(char bracket) {
        if (out.back() == ',')
            out.back() = bracket;
        else
            out += bracket;
    }

    bool skipped(Ref name) const {
        const auto* text = std::get_if<std::string_view>(&machine_.at(name));
        return text && std::find(skip_.begin(), skip_.end(), *text) != skip_.end();
    }

    void key(Ref ref) {
        const Value& value = machine_.at(ref);
        if (const auto* text = std::get_if<std::string_view>(&value)) return quoted(*text);
        if (std::holds_alternative<Items>(value))
            throw FormatError("a key of the pickle is a list");
        out += '"';
        write(ref);
        out += '"';
    }

    void quoted(std::string_view text) {
        out += '"';
        bool clean = std::all_of(text.begin(), text.end(), [](char c) {
            return static_cast<signed char>(c) >= 0x20 && c != '"' && c != '\\';  // and below 0x80
        });
        if (clean)
            out += text;
        else
            escaped(text);
        out += '"';
    }

    void escaped(std::string_view text) {
        static constexpr char hex[] = "0123456789abcdef";
        bool valid = is_utf8(text);
        for (char c : text) {
            auto byte = static_cast<uint8_t>(c);
            if (c == '"' || c == '\\') {
                out += '\\';
                out += c;
            } else if (byte < 0x20) {
                out += "\\u00";
                out += hex[byte >> 4];
                out += hex[byte & 15];
            } else {
                out += byte < 0x80 || valid ? c : '?';
            }
        }
    }

    const Machine& machine_;
    const std::vector<std::string>& skip_;
    size_t limit_;
};

}  // namespace

std::string pickle_to_json(std::string_view data, const std::vector<std::string>& skip) {
    Machine machine(data);
    Ref value = machine.run();
    Writer writer(machine, skip, kGrowth * data.size() + kSmall);
    writer.write(value);
    return std::move(writer.out);
}

}  // namespace chakra
