#include "core/wire/wire.hpp"

#include <bit>
#include <cmath>
#include <limits>
#include <system_error>

#include "core/wire/attribute.hpp"
#include "core/wire/back_writer.hpp"
#include "core/wire/frames.hpp"
#include "core/wire/member.hpp"
#include "harness.hpp"
#include "message.hpp"

using namespace chakra;
using namespace unit;
using wire::Cursor;

namespace {

Cursor over(std::string_view s) {
    return {bytes_of(s), bytes_of(s) + s.size()};
}

// Gives a stream out in pieces of a few bytes.
ByteReader in_pieces(std::string bytes, size_t piece) {
    return [bytes, piece, at = size_t{0}](uint8_t* buffer, size_t n) mutable {
        size_t got = std::min({n, piece, bytes.size() - at});
        std::memcpy(buffer, bytes.data() + at, got);
        at += got;
        return got;
    };
}

int64_t offset_of(std::string_view bytes) {
    try {
        Cursor c = over(bytes);
        while (!c.done()) c.skip(c.tag());
    } catch (const FormatError& e) {
        return e.offset();
    }
    return -1;
}

}  // namespace

STORY("varints of every length are read as they were written") {
    for (int bits = 0; bits <= 64; ++bits)
        for (uint64_t below : {0, 1}) {
            uint64_t v = (bits == 64 ? 0 : uint64_t{1} << bits) - below;
            BackWriter out(BackWriter::kVarint);
            out.varint(v);
            std::string written(reinterpret_cast<const char*>(out.begin()), out.size());
            EXPECT(written, varint(v));
            Cursor c = over(written);
            EXPECT(c.varint(), v);
            EXPECT(c.done(), true);
        }
}

STORY("a varint is at most ten bytes long and must end in its message") {
    std::string longest(9, '\xff');
    EXPECT(over(longest + "\x01").varint(), std::numeric_limits<uint64_t>::max());
    EXPECT(over(longest + "\x7f").varint(), std::numeric_limits<uint64_t>::max());  // bits dropped
    REFUSES(FormatError, "longer than 10 bytes", over(longest + "\xff\x01").varint());
    REFUSES(FormatError, "runs past the end", over("\x80").varint());
    REFUSES(FormatError, "runs past the end", over("").varint());
    EXPECT(over(std::string("\x80\x80\x00", 3)).varint(), 0);  // longer than it need be
}

STORY("a tag has a field number and fits 32 bits") {
    EXPECT(over(varint(0xfffffff8)).tag(), 0xfffffff8);
    REFUSES(FormatError, "bad field tag", over(varint(7)).tag());
    REFUSES(FormatError, "bad field tag", over(varint(0x100000008)).tag());
}

STORY("errors say at which byte the trouble starts") {
    std::string good = Message().number(1, 5).text(2, "name").bytes;
    EXPECT(offset_of(good), -1);
    EXPECT(offset_of(good + "\x12\x05"
                            "abc"),
           9);                            // the length, behind the tag
    EXPECT(offset_of(good + "\x0f"), 9);  // wire type 7, behind the tag
    EXPECT(offset_of(good + "\x09"
                            "1234567"),
           9);  // one byte less than a fixed64
    EXPECT(offset_of(good + "\x0d"
                            "123"),
           9);  // one byte less than a fixed32
}

STORY("groups are skipped with what they hold, and must end as they began") {
    std::string inner = Message().number(1, 300).text(2, "x").bytes;
    EXPECT(offset_of("\x1b" + inner + "\x23\x24" + "\x1c"), -1);
    REFUSES(FormatError, "another group's tag", [] {
        Cursor c = over("\x1b\x24");
        c.skip(c.tag());
    }());
    std::string deep(100, '\x1b');
    EXPECT(offset_of(deep + std::string(100, '\x1c')), -1);
    REFUSES(FormatError, "more than 100 deep", [&] {
        std::string deeper = deep + '\x1b' + std::string(101, '\x1c');
        Cursor c = over(deeper);
        c.skip(c.tag());
    }());
}

STORY("zigzag maps small numbers of both signs to small ones") {
    constexpr int64_t least = std::numeric_limits<int64_t>::min(), most = ~least;
    EXPECT(wire::zigzag_encode(-1), 1);
    EXPECT(wire::zigzag_encode(1), 2);
    for (int64_t v : {int64_t{0}, int64_t{-1}, int64_t{1}, least, most})
        EXPECT(wire::zigzag_decode(wire::zigzag_encode(v)), v);
}

STORY("a writer goes backwards, grows, and closes messages with their length") {
    BackWriter out(1);
    size_t mark = out.size();
    out.field(wire::tag(2, wire::kBytes), std::string(5000, 'n'));
    out.reserve(BackWriter::kField);
    out.close(mark, wire::tag(10, wire::kBytes));
    std::string written(reinterpret_cast<const char*>(out.begin()), out.size());
    std::string inner = Message().text(2, std::string(5000, 'n')).bytes;
    EXPECT(written, Message().text(10, inner).bytes);
}

STORY("the members of an attribute have the storage that holds them") {
    EXPECT(member::storage(member::kFloat), Storage::kDouble);
    EXPECT(member::storage(member::kSfixed64), Storage::kInt);
    EXPECT(member::storage(member::kBool + 1), Storage::kBoolList);
    EXPECT(member::storage(member::kBytes + 1), Storage::kBinaryList);
    EXPECT(member::fits(Storage::kBool, member::kInt32), true);  // writers disagree on is_cpu_op
    EXPECT(member::fits(Storage::kInt, member::kBool), true);
    EXPECT(member::fits(Storage::kInt, member::kString), false);
    EXPECT(member::fits(Storage::kIntList, member::kInt64), false);
}

STORY("an integer that does not fit 63 bits is not taken for a negative one") {
    int64_t v = 0;
    std::string huge = varint(uint64_t{1} << 63);
    Cursor unsigned64 = over(huge), signed64 = over(huge);
    EXPECT(read_int(unsigned64, member::kUint64, v), false);
    EXPECT(read_int(signed64, member::kInt64, v), true);
    EXPECT(v, std::numeric_limits<int64_t>::min());
    std::string minus_one = varint(~uint64_t{0});
    Cursor int32 = over(minus_one);
    EXPECT(read_int(int32, member::kInt32, v), true);
    EXPECT(v, -1);
}

STORY("a float's NaN is left as it is: a double would not give its bits back") {
    double v = 0;
    std::string nan = Message().fixed(5, std::nanf("")).bytes,
                half = Message().fixed(5, 0.5f).bytes;
    Cursor first = over(nan), second = over(half);
    first.tag(), second.tag();
    EXPECT(read_double(first, member::kFloat, v), false);
    EXPECT(read_double(second, member::kFloat, v), true);
    EXPECT(v, 0.5);
}

STORY("of several values of an attribute the last one counts") {
    std::string twice = Message().text(1, "n").number(9, 4).text(29, "four").bytes;
    Attribute attribute = Attribute::parse(over(twice));
    EXPECT(attribute.name, "n");
    EXPECT(attribute.member, 29);
    EXPECT(attribute.as_text(), "four");
    EXPECT(attribute.as_int(), std::nullopt);
}

STORY("an attribute is read as what the caller wants, where that is possible") {
    std::string sint = Message().text(1, "n").number(15, wire::zigzag_encode(-3)).bytes;
    EXPECT(Attribute::parse(over(sint)).as_int(), -3);
    EXPECT(Attribute::parse(over(sint)).as_double(), -3.0);
    std::string huge = Message().text(1, "n").number(13, ~uint64_t{0}).bytes;
    EXPECT(Attribute::parse(over(huge)).as_int(), -1);  // the same bits
    EXPECT(Attribute::parse(over(huge)).as_double(), 18446744073709551615.0);
    std::string none = Message().text(1, "n").bytes;
    EXPECT(Attribute::parse(over(none)).as_int(), std::nullopt);
    EXPECT(Attribute::parse(over(none)).member, 0);
    std::string mistyped = Message().text(1, "n").text(9, "no varint").bytes;
    EXPECT(Attribute::parse(over(mistyped)).member, 0);
}

STORY("lists may be packed, unpacked or both") {
    std::string list = Message().text(1, varint(1) + varint(300)).number(1, 7).bytes;
    std::string bytes = Message().text(1, "dims").text(10, list).bytes;
    Attribute attribute = Attribute::parse(over(bytes));
    EXPECT(attribute.as_ints(), std::vector<int64_t>{1, 300, 7});
    EXPECT(attribute.as_doubles(), std::vector<double>{1, 300, 7});
    EXPECT(attribute.as_int(), std::nullopt);
    std::string broken = Message().text(1, "dims").text(10, "\x0a\x02\x80").bytes;
    REFUSES(FormatError, "runs past the end", Attribute::parse(over(broken)).as_ints());
}

STORY("a stream is cut into the same frames however it arrives") {
    std::string node(1000, 'n');
    std::string stream = framed("meta") + framed("") + framed(node);
    for (size_t piece : {1, 2, 7, 100000}) {
        FrameReader frames(in_pieces(stream, piece));
        std::vector<std::string> found;
        std::vector<int64_t> offsets;
        while (auto frame = frames.next()) {
            found.emplace_back(frame->bytes.begin(), frame->bytes.end());
            offsets.push_back(frame->offset);
            EXPECT(frame->number, found.size() - 1);
        }
        EXPECT(found, {"meta", "", node});
        EXPECT(offsets, {1, 6, 8});
    }
}

STORY("input that is no stream of frames is refused with its place") {
    auto first = [](const std::string& s) { return FrameReader(in_pieces(s, 3)).next(); };
    REFUSES(FormatError, "the input is empty", first(""));
    REFUSES(FormatError, "the input ends after 2",
            first("\x05"
                  "ab"));
    REFUSES(FormatError, "more than the 2 GiB", first(varint(0x80000000)));
    REFUSES(FormatError, "is no varint", first(std::string(12, '\xff')));
    REFUSES(FormatError, "ends inside its length", first("\xff"));
    REFUSES(FormatError, "gzip-compressed; unpack it", first("\x1f\x8b\x08"));
    REFUSES(FormatError, "zstd-compressed; unpack it", first("\x28\xb5\x2f\xfd"));
    FrameReader liar([](uint8_t*, size_t n) { return n + 1; });
    REFUSES(FormatError, "claims more bytes", liar.next());
    REFUSES(std::system_error, "cannot open", open_file("/no/such/file"));
}
