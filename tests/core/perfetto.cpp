#include "core/export/perfetto.hpp"

#include "harness.hpp"
#include "message.hpp"

using namespace chakra;
using namespace unit;

STORY("a named slice, a counter and a flow are the packets Perfetto reads") {
    std::vector<int64_t> time{100, 200, 300}, value{0, 0, 42};
    std::vector<int8_t> type{1, 2, 4};
    std::vector<int32_t> track{7, 7, 8}, name{3, 0, 0};
    std::vector<int64_t> out_offsets{0, 1, 1, 1}, out{99}, in_offsets{0, 0, 1, 1}, in{98};
    auto bytes =
        perfetto::packets({time, type, track, name, value, out_offsets, out, in_offsets, in}, 5);
    Message begin, end, count;
    begin.number(9, 1).number(10, 3).number(11, 7).fixed(47, uint64_t{99});
    end.number(9, 2).number(11, 7).fixed(48, uint64_t{98});
    count.number(9, 4).number(11, 8).number(30, 42);
    Message trace;
    trace.text(1, Message().number(8, 100).number(10, 5).text(11, begin).number(13, 2));
    trace.text(1, Message().number(8, 200).number(10, 5).text(11, end));
    trace.text(1, Message().number(8, 300).number(10, 5).text(11, count));
    EXPECT(std::string(bytes.begin(), bytes.end()), trace.bytes);
}

STORY("no events make an empty trace") {
    std::vector<int64_t> none, offsets{0};
    EXPECT(perfetto::packets({none, {}, {}, {}, none, offsets, none, offsets, none}, 1), {});
}
