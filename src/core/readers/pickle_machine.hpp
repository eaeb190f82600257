// Reads a pickle without making anything of it but lists, dictionaries, texts and numbers.
#pragma once

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
#include "core/text/utf8.hpp"

namespace chakra::pickle {

using Ref = uint32_t;
constexpr Ref kNever = ~Ref{0};
constexpr uint32_t kMostRefs = (uint32_t{1} << 31) - 1;

struct None {};
// A list or dictionary: a stretch of the machine's one array of references, which spares files of
// a hundred thousand small lists as many allocations.
struct Items {
    uint32_t first = 0;
    uint32_t size = 0;
    uint32_t room : 31 = 0;
    uint32_t dictionary : 1 = 0;  // keys and values in turn
};
struct Unsigned {
    uint64_t value;
};
using Value = std::variant<None, bool, int64_t, Unsigned, double, std::string_view, Items>;

class Machine {
   public:
    explicit Machine(std::string_view data) : data_(data) { values_.reserve(data.size() / 8); }

    Ref run() {
        while (true) {
            auto code = static_cast<uint8_t>(take(1)[0]);
            if (code == '.') return pop();
            step(code);
        }
    }

    const Value& at(Ref ref) const { return values_[ref]; }

    std::span<const Ref> in(const Items& items) const {
        return std::span(refs_).subspan(items.first, items.size);
    }

   private:
    [[noreturn]] void fail(const std::string& what) const {
        throw FormatError(what, static_cast<int64_t>(at_));
    }

    std::string_view take(size_t n) {
        if (n > data_.size() - at_) fail("the pickle ends early");
        std::string_view out = data_.substr(at_, n);
        at_ += n;
        return out;
    }

    uint64_t number(int bytes) {
        std::string_view raw = take(static_cast<size_t>(bytes));
        uint64_t out = 0;
        for (int i = bytes; i-- > 0;)
            out = out << 8 | static_cast<uint8_t>(raw[static_cast<size_t>(i)]);
        return out;
    }

    double big_endian_double() {
        uint64_t bits = 0;
        for (char c : take(8)) bits = bits << 8 | static_cast<uint8_t>(c);
        return std::bit_cast<double>(bits);
    }

    std::string_view line() {
        size_t end = data_.find('\n', at_);
        if (end == std::string_view::npos) fail("the pickle ends early");
        std::string_view out = take(end - at_);
        take(1);
        return out;
    }

    Ref keep(Value value) {
        values_.push_back(std::move(value));
        return static_cast<Ref>(values_.size() - 1);
    }

    void push(Value value) { stack_.push_back(keep(std::move(value))); }

    Ref pop() {
        if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()))
            fail("the pickle takes a value where there is none");
        Ref out = stack_.back();
        stack_.pop_back();
        return out;
    }

    // Where the last mark was set on the stack; what was pushed since then lies above it.
    size_t mark() {
        if (marks_.empty()) fail("the pickle has no mark where one is needed");
        size_t out = marks_.back();
        marks_.pop_back();
        return out;
    }

    Items& top(bool dictionary) {
        if (stack_.empty()) fail("the pickle adds to a value that is not there");
        auto* items = std::get_if<Items>(&values_[stack_.back()]);
        if (items == nullptr || items->dictionary != dictionary)
            fail("the pickle adds to a value that is no list or dictionary");
        return *items;
    }

    // A list that outgrows its stretch moves to the end, with room to double.
    void make_room(Items& items, size_t more) {
        size_t needed = items.size + more;
        if (needed <= items.room) return;
        size_t room = items.size == 0 ? needed : 2 * needed, first = refs_.size();
        if (first + room >= kMostRefs) fail("the pickle holds too many values");
        refs_.resize(first + room);
        std::copy_n(refs_.begin() + items.first, items.size,
                    refs_.begin() + static_cast<ptrdiff_t>(first));
        items.first = static_cast<uint32_t>(first);
        items.room = static_cast<uint32_t>(room) & kMostRefs;
    }

    void append(Items& items, std::span<const Ref> more) {
        if (items.dictionary && more.size() % 2) fail("a key of the pickle has no value");
        make_room(items, more.size());
        std::copy(more.begin(), more.end(), refs_.begin() + items.first + items.size);
        items.size += static_cast<uint32_t>(more.size());
    }

    void extend(bool dictionary, std::span<const Ref> more) { append(top(dictionary), more); }

    // Adds what was pushed since the last mark to the value below it.
    void extend_since_mark(bool dictionary) {
        size_t from = mark();
        std::vector<Ref>& more = taken_;
        more.assign(stack_.begin() + static_cast<ptrdiff_t>(from), stack_.end());
        stack_.resize(from);
        extend(dictionary, more);
    }

    // The values on the stack from `from` on, as one.
    void gather(size_t from, bool dictionary) {
        Items items;
        items.dictionary = dictionary;
        append(items, std::span(stack_).subspan(from));
        stack_.resize(from);
        push(items);
    }

    void tuple(size_t n) {
        size_t floor = marks_.empty() ? 0 : marks_.back();
        if (stack_.size() < floor + n) fail("the pickle takes a value where there is none");
        gather(stack_.size() - n, false);
    }

    void store(uint64_t place) {
        if (stack_.empty()) fail("the pickle keeps a value that is not there");
        // Every value that is kept takes a byte of the file at least: a larger place is no honest
        // one.
        if (place >= data_.size()) fail("the pickle keeps a value out of range");
        if (place >= memo_.size())
            memo_.resize(std::max<size_t>(place + 1, 2 * memo_.size()), kNever);
        memo_[place] = stack_.back();
        ++kept_;
    }

    void recall(uint64_t place) {
        if (place >= memo_.size() || memo_[place] == kNever)
            fail("the pickle recalls a value it never kept");
        stack_.push_back(memo_[place]);
    }

    uint64_t place_in_line() {
        std::string_view text = line();
        uint64_t out = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
        if (error != std::errc{} || end != text.data() + text.size()) fail("a place is no number");
        return out;
    }

    // Little-endian two's complement; what does not fit 64 bits is None.
    Value integer(std::string_view raw) {
        if (raw.empty()) return int64_t{0};
        bool negative = static_cast<uint8_t>(raw.back()) & 0x80;
        uint64_t out = negative ? ~uint64_t{0} : 0;
        for (size_t i = std::min<size_t>(raw.size(), 8); i-- > 0;)
            out = out << 8 | static_cast<uint8_t>(raw[i]);
        if (raw.size() <= 8) return static_cast<int64_t>(out);
        if (raw.size() == 9 && raw[8] == 0) return Unsigned{out};
        return None{};
    }

    Value written_integer(std::string_view text) {
        if (!text.empty() && text.back() == 'L') text.remove_suffix(1);
        if (text == "00") return false;
        if (text == "01") return true;
        int64_t out = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
        if (error != std::errc{} || end != text.data() + text.size()) fail("a number is none");
        return out;
    }

    Value written_float(std::string_view text) {
        double out = 0;
        auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
        if (error != std::errc{} || end != text.data() + text.size()) fail("a number is none");
        return out;
    }

    void step(uint8_t code) {
        if (!scalar(code) && !container(code) && !memory(code)) refuse(code);
    }

    bool scalar(uint8_t code) {
        switch (code) {
            case 'N': push(None{}); return true;
            case 0x88: push(true); return true;
            case 0x89: push(false); return true;
            case 'I':
            case 'L': push(written_integer(line())); return true;
            case 'J': push(int64_t{static_cast<int32_t>(number(4))}); return true;
            case 'K': push(static_cast<int64_t>(number(1))); return true;
            case 'M': push(static_cast<int64_t>(number(2))); return true;
            case 0x8a: push(integer(take(number(1)))); return true;
            case 0x8b: push(integer(take(number(4)))); return true;
            case 'F': push(written_float(line())); return true;
            case 'G': push(big_endian_double()); return true;
            case 'T':
            case 'X':
            case 'B': push(take(number(4))); return true;
            case 'U':
            case 'C':
            case 0x8c: push(take(number(1))); return true;
            case 0x8d:
            case 0x8e:
            case 0x96: push(take(number(8))); return true;
            case 'V': push(line()); return true;
            default: return false;
        }
    }

    bool container(uint8_t code) {
        switch (code) {
            case '(': marks_.push_back(stack_.size()); return true;
            case ']':
            case ')':
            case 0x8f: gather(stack_.size(), false); return true;
            case '}': gather(stack_.size(), true); return true;
            case 'l':
            case 't':
            case 0x91: gather(mark(), false); return true;
            case 'd': gather(mark(), true); return true;
            case 0x85:
            case 0x86:
            case 0x87: tuple(code - 0x84); return true;
            case 'a': {
                Ref value = pop();
                extend(false, {&value, 1});
                return true;
            }
            case 'e':
            case 0x90: extend_since_mark(false); return true;
            case 's': {
                Ref value = pop(), key = pop();
                extend(true, std::array{key, value});
                return true;
            }
            case 'u': extend_since_mark(true); return true;
            default: return false;
        }
    }

    bool memory(uint8_t code) {
        switch (code) {
            case 0x80: take(1); return true;
            case 0x95: take(8); return true;
            case '0': pop(); return true;
            case '1': stack_.resize(mark()); return true;
            case '2':
                stack_.push_back(pop());
                stack_.push_back(stack_.back());
                return true;
            case 0x94: store(kept_); return true;
            case 'p': store(place_in_line()); return true;
            case 'q': store(number(1)); return true;
            case 'r': store(number(4)); return true;
            case 'g': recall(place_in_line()); return true;
            case 'h': recall(number(1)); return true;
            case 'j': recall(number(4)); return true;
            default: return false;
        }
    }

    [[noreturn]] void refuse(uint8_t code) {
        std::string what = "more than plain data";
        if (code == 'c' || code == 'i') {
            std::string_view module = line();
            what = "it asks for " + std::string(module) + "." + std::string(line());
        } else if (code == 0x93 && stack_.size() >= 2) {
            const auto* module = std::get_if<std::string_view>(&values_[stack_[stack_.size() - 2]]);
            const auto* name = std::get_if<std::string_view>(&values_[stack_.back()]);
            if (module && name)
                what = "it asks for " + std::string(*module) + "." + std::string(*name);
        }
        fail(what);
    }

    std::string_view data_;
    size_t at_ = 0;
    std::vector<Value> values_;
    std::vector<Ref> refs_;  // what lists and dictionaries hold
    std::vector<Ref> stack_;
    std::vector<Ref> taken_;
    std::vector<size_t> marks_;
    std::vector<Ref> memo_;
    size_t kept_ = 0;
};

}  // namespace chakra::pickle
