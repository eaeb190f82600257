// A cursor over JSON text that returns slices instead of building a document, and that can be told
// to tolerate strings whose quotes were not escaped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace chakra {

// Thrown by the cursor; the reader above decides whether to repair, to skip or to give up.
struct JsonError {
    size_t at;
    bool at_end;  // the text ran out, as it does in a file that was cut off
};

// Reads one value after the other from `text`; every slice it returns points into `text`.
// In tolerant mode a quote ends a string only where a string can end, so that names written
// without escapes are still read whole.
class JsonCursor {
   public:
    JsonCursor(std::string_view text, size_t pos, bool tolerant = false)
        : text_(text), pos_(pos), tolerant_(tolerant) {}

    size_t pos() const { return pos_; }
    bool tolerant() const { return tolerant_; }

    char peek();                        // next character that is not blank
    bool accept(char c);                // takes `c` if it is next
    void expect(char c);                // takes `c` or throws
    std::string_view string();          // the inside of a string, escapes untouched
    std::string_view value();           // any value, as written
    std::string_view number();          // a number, or a bare word such as NaN
    int64_t integer(int64_t fallback);  // any value; what is not a whole number gives `fallback`

   private:
    [[noreturn]] void fail() const { throw JsonError{pos_, pos_ >= text_.size()}; }
    void blanks();
    size_t string_end(size_t from) const;
    bool ends_string(size_t quote) const;
    void skip_nested();

    std::string_view text_;
    size_t pos_;
    bool tolerant_;
};

// Calls `field(key, cursor)` for each member of the object at the cursor; `field` reads the value.
template <class F>
void each_member(JsonCursor& in, F&& field) {
    in.expect('{');
    if (in.accept('}')) return;
    do {
        std::string_view key = in.string();
        in.expect(':');
        field(key, in);
    } while (in.accept(','));
    in.expect('}');
}

// Calls `item(cursor)` for each element of the array at the cursor; `item` reads it.
template <class F>
void each_item(JsonCursor& in, F&& item) {
    in.expect('[');
    if (in.accept(']')) return;
    do {
        item(in);
    } while (in.accept(','));
    in.expect(']');
}

// The text of a string with its escapes undone; escapes that JSON does not know stay as they are.
std::string unescape(std::string_view raw);

// The whole number at the front of `raw`, or `fallback` if there is none.
int64_t to_integer(std::string_view raw, int64_t fallback);

// Microseconds with decimals as nanoseconds, digit by digit: a double cannot hold today's values. A
// time beyond 64 bits is the largest value of its sign.
int64_t to_nanoseconds(std::string_view micros);

// Whether the text of a value is a number, in quotes or not.
bool is_decimal(std::string_view raw);

}  // namespace chakra
