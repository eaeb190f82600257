#include <cmath>

#include "core/codec/column.hpp"
#include "core/codec/json_text.hpp"
#include "core/codec/layout.hpp"
#include "core/codec/schema_check.hpp"
#include "harness.hpp"
#include "message.hpp"
#include "recode.hpp"

using namespace chakra;
using namespace unit;

namespace {

const std::vector<KnownColumn> kKnown = {{"is_cpu_op", Storage::kBool},
                                         {"comm_size", Storage::kInt}};

Decoder decoder() {
    return Decoder(kKnown, 8);
}

std::string metadata() {
    return framed(Message().text(1, "0.0.4"));
}

// All of a file at once.
void decode_all(Decoder& d, std::string_view file) {
    EXPECT(d.decode(file, true, 1000, 1 << 20), file.size());
}

std::string again(std::string_view file) {
    Decoder d = decoder();
    decode_all(d, file);
    return framed(d.metadata()) + encoded(d);
}

std::string json(std::string_view message) {
    Buffer<char> out;
    json_nodes(framed(message), true, out);
    return {out.data(), out.size()};
}

template <class T>
std::vector<T> listed(const Buffer<T>& b) {
    return {b.data(), b.data() + b.size()};
}

}  // namespace

STORY("rows that a column never saw are null, and a bitmap is there only if one is") {
    Column c("n", Storage::kInt);
    c.set_int(0, 5);
    c.set_int(1, 6);
    EXPECT(c.valid.size(), 0);
    c.set_int(10, 7);
    c.pad_to(12);
    EXPECT(listed(c.words), {5, 6, 0, 0, 0, 0, 0, 0, 0, 0, 7, 0});
    EXPECT(listed(c.valid), {0b00000011, 0b00000100});
    EXPECT(c.valid_count, 3);
    EXPECT(c.open_at(11), false);
    EXPECT(c.open_at(12), true);
}

STORY("a list that is abandoned half-way leaves nothing behind") {
    Column c("names", Storage::kStringList);
    c.open_list(0);
    c.push_text("ab");
    c.close_list(0);
    c.open_list(1);
    c.push_text("gone");
    c.abandon_list();
    c.open_list(1);
    c.close_list(1);
    EXPECT(listed(c.offsets), {0, 1, 1});
    EXPECT(listed(c.elements), {0, 2});
    EXPECT(c.text.size(), 2);
}

STORY("text that is not UTF-8 is not put into a column of strings") {
    Column c("name", Storage::kString);
    EXPECT(c.set_utf8(0, "caf\xc3\xa9"), true);
    EXPECT(c.set_utf8(1, "caf\xe9"), false);
    EXPECT(c.set_utf8(1, "tea"), true);
    EXPECT(std::string(c.text.data(), c.text.size()), "caf\xc3\xa9tea");
}

STORY("rows with the same attributes in the same order share a layout") {
    Layouts layouts;
    auto layout = [&](std::vector<LayoutEntry> entries, uint8_t flags) {
        int32_t step = Layouts::kRoot;
        for (LayoutEntry e : entries) step = layouts.advance(step, e, {});
        return layouts.finish(step, flags);
    };
    EXPECT(layout({{0, 27}, {1, 9}}, 0), 0);
    EXPECT(layout({{1, 9}, {0, 27}}, 0), 1);
    EXPECT(layout({{0, 27}, {1, 9}}, 0), 0);
    EXPECT(layout({{0, 27}, {1, 9}}, Layouts::kHasInputs), 2);
    EXPECT(layout({}, 0), 3);
    EXPECT(layouts.offsets(), {0, 2, 4, 6, 6});
    EXPECT(layouts.columns(), {0, 1, 1, 0, 0, 1});
    EXPECT(layouts.members(), {27, 9, 9, 27, 27, 9});
}

STORY("a node's fields and attributes come out as columns") {
    std::string node = Message()
                           .number(1, 7)
                           .text(2, "gemm")
                           .number(3, 4)
                           .text(5, varint(3))
                           .number(6, 100)
                           .number(7, 20)
                           .text(10, bool_attribute("is_cpu_op", true))
                           .text(10, int_attribute("comm_size", 64))
                           .bytes;
    Decoder d = decoder();
    decode_all(d, metadata() + framed(node) + framed(Message().number(1, 8)));
    d.seal();
    EXPECT(d.has_metadata(), true);
    EXPECT(listed(d.nodes.id), {7, 8});
    EXPECT(d.names[d.nodes.name[0]], "gemm");
    EXPECT(listed(d.nodes.start), {100, 0});
    EXPECT(listed(d.nodes.data_offsets), {0, 1, 1});
    EXPECT(listed(d.nodes.data), {3});
    EXPECT(listed(d.attributes[0]->flags), {1, 0});
    EXPECT(listed(d.attributes[1]->words), {64, 0});
    EXPECT(d.attributes[1]->valid[0] & 0b11, 0b01);
}

STORY("canonical files come back byte for byte, whatever they hold") {
    Message node;
    node.number(1, 3).text(2, "n").number(3, 4).text(4, varint(1) + varint(2)).number(7, 9);
    node.text(8, Message().text(1, "[1]").text(4, "[8]"));
    node.text(9, "");                                   // outputs, there and empty
    node.text(10, int32_attribute("comm_size", -5));    // another member than usual
    node.text(10, text_attribute("is_cpu_op", "yes"));  // another kind than its column
    node.text(10, text_attribute("is_cpu_op", "no"));   // twice
    node.text(10, Message().text(1, "d").text(2, "doc").number(9, 1));  // with a doc string
    node.text(10, Message().text(1, "f").fixed(5, std::nanf("7")));
    node.text(10, Message().text(1, "l").text(30, Message().text(1, "").text(1, "b")));
    node.text(10, Message().text(1, "u").number(13, ~uint64_t{0}));
    node.text(10, Message().text(1, "empty").text(10, ""));
    node.text(100, "a field of tomorrow");
    std::string file = metadata() + framed(node.bytes) + framed("");
    EXPECT(again(file), file);
}

STORY("names beyond the limit of columns are kept as bytes") {
    Message node;
    for (int i = 0; i < 20; ++i) node.text(10, int_attribute("a" + std::to_string(i), i));
    std::string file = metadata() + framed(node.bytes);
    Decoder d = decoder();
    decode_all(d, file);
    EXPECT(d.attributes.size(), 8);
    EXPECT(framed(d.metadata()) + encoded(d), file);
}

STORY("the same columns come from a file in pieces of any size") {
    std::string file = metadata();
    for (uint64_t i = 1; i <= 20; ++i)
        file += framed(Message().number(1, i).text(10, int_attribute("comm_size", 1 << i)));
    for (size_t piece : {1, 3, 50}) {
        Decoder d = decoder();
        std::string waiting, out;
        for (size_t at = 0; at < file.size(); at += piece) {
            waiting += file.substr(at, piece);
            bool last = at + piece >= file.size();
            for (bool full = true; full;) {
                waiting.erase(0, d.decode(waiting, last, 6, 1 << 20));
                full = d.full();
                if (full) out += encoded(d);
            }
        }
        EXPECT(metadata() + out + encoded(d), file);
    }
}

STORY("a file may begin with a node") {
    Decoder d = decoder();
    decode_all(d, framed(Message().number(1, 1).text(2, "first")));
    EXPECT(d.has_metadata(), false);
    EXPECT(listed(d.nodes.id), {1});
    Decoder without_id = decoder();
    decode_all(without_id, framed(Message().text(2, "id 0").number(7, 5)));
    EXPECT(listed(without_id.nodes.duration), {5});
}

STORY("damage is refused with the node and the byte where it starts") {
    auto refused = [](const std::string& file, const char* text, int64_t offset) {
        Decoder d = decoder();
        try {
            d.decode(file, true, 1000, 1 << 20);
            EXPECT(text, "nothing: it was accepted");
        } catch (const FormatError& e) {
            EXPECT(std::string(e.what()).find(text) != std::string::npos, true);
            EXPECT(e.offset(), offset);
        }
    };
    std::string good = metadata() + framed(Message().number(1, 1));
    refused(good +
                "\x05"
                "ab",
            "node number 1: the message needs 5 bytes and the file has 2", 11);
    refused(good + "\xff", "the file ends inside a length", 11);
    refused(good + varint(uint64_t{1} << 40), "a length of 1099511627776 bytes", 11);
    refused(good + framed(Message().text(2, "\xff")), "the name is not UTF-8", 14);
    refused(good + framed(Message().text(10, text_attribute("a", "\xff"))), "is not UTF-8", 20);
    refused(framed(Message().text(1, "\xff")), "the header: the version is not UTF-8", 3);
}

STORY("strides that would not be written back the same stay unknown") {
    EXPECT(is_strides("[1]", "", ""), true);
    EXPECT(is_strides("[1]", "[2]", ""), false);
    EXPECT(is_strides("[1]", "", "something before"), false);
    EXPECT(is_strides("", "", ""), false);
    EXPECT(is_strides("\xff", "", ""), false);
}

STORY("an encoder refuses raw attributes that do not match the layout") {
    std::string file = metadata() + framed(Message().text(10, text_attribute("is_cpu_op", "x")));
    Decoder d = decoder();
    decode_all(d, file);
    d.raw.reset();
    REFUSES(FormatError, "fewer raw attributes", encoded(d));
}

STORY("JSON text has the schema's names, and base64 for what JSON cannot hold") {
    Message node;
    node.number(1, ~uint64_t{0}).text(2, "a \"b\"\n\x01").number(3, 7).number(4, 5).number(7, 2);
    node.text(8, Message().text(2, "[[2]]"));
    node.text(10, int_attribute("n", -1)).text(10, Message().text(1, "d").fixed(3, -0.0));
    node.text(10, Message().text(1, "f").fixed(5, 0.1f));
    node.text(10, Message().text(1, "inf").fixed(3, HUGE_VAL));
    node.text(10, Message().text(1, "b").text(31, "\xff\x01"));
    node.text(10, Message().text(1, "l").text(28, "\x0a\x02\x01" + std::string(1, '\0')));
    node.text(10, Message().text(1, "odd").fixed(5, std::nanf("7")));
    EXPECT(json(node),
           "{\"id\":18446744073709551615,\"name\":\"a \\\"b\\\"\\n\\u0001\","
           "\"type\":\"COMM_COLL_NODE\",\"ctrl_deps\":[5],\"duration_micros\":2,"
           "\"inputs\":{\"shapes\":\"[[2]]\"},\"attr\":[{\"name\":\"n\",\"int64_val\":-1},"
           "{\"name\":\"d\",\"double_val\":-0.0},{\"name\":\"f\",\"float_val\":0.1},"
           "{\"name\":\"inf\",\"double_val\":\"Infinity\"},{\"name\":\"b\",\"bytes_val\":\"/wE=\"},"
           "{\"name\":\"l\",\"bool_list\":[true,false]},"
           "{\"name\":\"odd\",\"raw\":\"CgNvZGQtBwDAfw==\"}]}");
    EXPECT(json(Message().number(3, 99).number(50, 1)),
           "{\"id\":0,\"name\":\"\",\"type\":99,\"unknown\":\"kAMB\"}");
}

STORY("metadata has JSON text too") {
    Buffer<char> out;
    json_metadata(Message().text(1, "1").text(2, int_attribute("ranks", 4)).bytes, out);
    EXPECT(std::string(out.data(), out.size()),
           "{\"version\":\"1\",\"attr\":[{\"name\":\"ranks\",\"int64_val\":4}]}");
}
