#include "core/codec/schema_check.hpp"

#include <string>

#include "core/text/utf8.hpp"
#include "core/wire/member.hpp"

namespace chakra {

using wire::Cursor;
using wire::tag;

namespace {

void check_value(Cursor& c, int m) {
    if (!member::is_list(m)) {
        if (m != member::kString) return c.skip(tag(1, member::wire_type(m)));
        return require_utf8(c, c.text(), "an attribute's string");
    }
    Cursor list = c.bytes();
    while (!list.done()) {
        uint32_t t = list.tag();
        if (t == tag(1, wire::kBytes) && m == member::kString + 1)
            require_utf8(list, list.text(), "an attribute's string");
        else if (t == tag(1, wire::kBytes) && member::element_wire(m) != wire::kBytes)
            for (Cursor packed = list.bytes(); !packed.done();)
                packed.skip(tag(1, member::element_wire(m)));
        else
            list.skip(t);
    }
}

bool is_attribute(const Cursor& c) {
    try {
        check_attribute(c);
        return true;
    } catch (const FormatError&) {
        return false;
    }
}

bool has_name(Cursor c) {
    if (!is_attribute(c)) return false;
    while (!c.done()) {
        uint32_t t = c.tag();
        if (t == tag(member::kName, wire::kBytes)) return true;
        c.skip(t);
    }
    return false;
}

}  // namespace

void require_utf8(const Cursor& c, std::string_view s, const char* what) {
    if (is_utf8(s)) return;
    throw FormatError(std::string(what) + " is not UTF-8",
                      s.data() - reinterpret_cast<const char*>(c.origin()));
}

bool is_strides(std::string_view text, std::string_view strides, std::string_view unknown) {
    return strides.empty() && unknown.empty() && !text.empty() && is_utf8(text);
}

void check_attribute(Cursor c) {
    while (!c.done()) {
        uint32_t t = c.tag();
        int field = static_cast<int>(t >> 3);
        if (t == tag(member::kName, wire::kBytes) || t == tag(member::kDocString, wire::kBytes))
            require_utf8(c, c.text(), "an attribute's name");
        else if (member::is_value(t >> 3) && (t & 7) == member::wire_type(field))
            check_value(c, field);
        else
            c.skip(t);
    }
}

void check_metadata(Cursor c) {
    while (!c.done()) {
        uint32_t t = c.tag();
        if (t == tag(1, wire::kBytes))
            require_utf8(c, c.text(), "the version");
        else if (t == tag(2, wire::kBytes))
            check_attribute(c.bytes());
        else
            c.skip(t);
    }
}

bool is_node(Cursor c) {
    bool odd_attribute = false, node_fields = false;
    Cursor second = c;
    while (!c.done()) {
        uint32_t t = c.tag();
        if (t >> 3 == 1) return t == tag(1, wire::kVarint);
        node_fields |= t >> 3 >= 3 && t >> 3 <= 10;
        if (t != tag(2, wire::kBytes)) {
            c.skip(t);
            continue;
        }
        second = c.bytes();
        odd_attribute |= !has_name(second);
    }
    return odd_attribute && (node_fields || !is_attribute(second));
}

}  // namespace chakra
