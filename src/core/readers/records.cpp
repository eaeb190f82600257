#include "core/readers/records.hpp"

#include <charconv>
#include <limits>
#include <unordered_map>

#include "core/error.hpp"
#include "core/readers/json.hpp"

namespace chakra {

namespace {

enum class Form { Number, Real, Text };

struct Slot {
    Form form;
    size_t column;
};

class Reader {
   public:
    explicit Reader(const RecordFields& fields) {
        add(Form::Number, fields.numbers);
        add(Form::Real, fields.reals);
        add(Form::Text, fields.texts);
        out.numbers.resize(fields.numbers.size());
        out.reals.resize(fields.reals.size());
        out.texts.resize(fields.texts.size());
    }

    void record(JsonCursor& in) {
        for (auto& c : out.numbers) c.push_back(-1);
        for (auto& c : out.reals) c.push_back(std::numeric_limits<double>::quiet_NaN());
        for (auto& c : out.texts) c.push_back(0);
        each_member(in, [&](std::string_view key, JsonCursor& at) {
            auto slot = slots_.find(std::string(key));
            std::string_view raw = at.value();
            if (slot != slots_.end()) put(slot->second, raw);
        });
    }

    Records out;

   private:
    void add(Form form, const std::vector<std::string>& names) {
        for (size_t i = 0; i < names.size(); ++i) slots_[names[i]] = {form, i};
    }

    void put(Slot slot, std::string_view raw) {
        if (slot.form == Form::Number) {
            out.numbers[slot.column].back() = raw == "true"    ? 1
                                              : raw == "false" ? 0
                                                               : to_integer(raw, -1);
        } else if (slot.form == Form::Real) {
            double value = 0;
            auto [end, error] = std::from_chars(raw.data(), raw.data() + raw.size(), value);
            if (error == std::errc{} && end == raw.data() + raw.size())
                out.reals[slot.column].back() = value;
        } else if (raw != "null") {
            out.texts[slot.column].back() = text(raw);
        }
    }

    int32_t text(std::string_view raw) {
        bool quoted = raw.size() >= 2 && raw.front() == '"';
        std::string_view inside = quoted ? raw.substr(1, raw.size() - 2) : raw;
        if (quoted && inside.find('\\') != inside.npos) return out.table.intern(unescape(inside));
        return out.table.intern(inside);
    }

    std::unordered_map<std::string, Slot> slots_;
};

}  // namespace

Records read_records(std::string_view text, std::string_view key, const RecordFields& fields) {
    Reader reader(fields);
    JsonCursor in(text, 0);
    try {
        each_member(in, [&](std::string_view name, JsonCursor& at) {
            if (name == key && at.peek() == '[')
                each_item(at, [&](JsonCursor& item) { reader.record(item); });
            else
                reader.out.rest.emplace_back(std::string(name), at.value());
        });
    } catch (const JsonError& e) {
        throw FormatError(e.at_end ? "the file ends early" : "the JSON cannot be read",
                          static_cast<int64_t>(e.at));
    }
    return std::move(reader.out);
}

}  // namespace chakra
