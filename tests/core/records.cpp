#include "core/readers/records.hpp"

#include <cmath>
#include <random>

#include "core/error.hpp"
#include "core/readers/pickle.hpp"
#include "harness.hpp"

using namespace chakra;
using namespace std::string_literals;

STORY("records of a JSON object become columns, whatever is missing") {
    Records r = read_records(R"({"version": "2.4", "entries": [
        {"id": 7, "size": 1.5, "name": "all\nreduce", "up": true, "other": [1]},
        {"id": null, "name": "all\nreduce"},
        {"name": null, "id": 2.5}]})",
                             "entries", {{"id", "up"}, {"size"}, {"name"}});
    EXPECT(r.numbers[0], {7, -1, 2});
    EXPECT(r.numbers[1], {1, -1, -1});
    EXPECT(r.reals[0][0], 1.5);
    EXPECT(std::isnan(r.reals[0][1]), true);
    EXPECT(r.table[r.texts[0][0]], "all\nreduce");
    EXPECT(r.texts[0][1], r.texts[0][0]);
    EXPECT(r.table[r.texts[0][2]], "");
    EXPECT(r.rest.at(0).first, "version");
}

STORY("a file without its records is refused with the place") {
    RecordFields none;
    REFUSES(FormatError, "the file ends early", read_records("{\"a\": [{\"b\": 1", "a", none));
    REFUSES(FormatError, "the JSON cannot be read", read_records("{\"a\": [5]}", "a", none));
    REFUSES(FormatError, "the JSON cannot be read", read_records("[]", "a", none));
}

STORY("a pickle of plain data is JSON text") {
    // {"a": [1, -2, None, True, 0.5], "b": (300, "é"), "skipped": 5}
    std::string pickle =
        "\x80\x02}(X\x01\0\0\0a](K\x01J\xfe\xff\xff\xffN\x88G\x3f\xe0\0\0\0\0\0\0eX\x01\0\0\0b"
        "M\x2c\x01X\x02\0\0\0\xc3\xa9\x86X\x07\0\0\0skippedK\x05u."s;
    EXPECT(pickle_to_json(pickle, {"skipped"}),
           "{\"a\":[1,-2,null,true,0.5],\"b\":[300,\"\xc3\xa9\"]}");
}

STORY("a pickle that names code is refused by name") {
    REFUSES(FormatError, "it asks for os.system", pickle_to_json("cos\nsystem\n.", {}));
    REFUSES(FormatError, "it asks for os.system",
            pickle_to_json("\x8c\x02os\x8c\x06system\x93."s, {}));
    REFUSES(FormatError, "more than plain data", pickle_to_json("NR.", {}));
}

STORY("a damaged pickle is refused") {
    REFUSES(FormatError, "ends early", pickle_to_json("", {}));
    REFUSES(FormatError, "ends early", pickle_to_json("X\xff\xff\xff\x7f"s, {}));
    REFUSES(FormatError, "takes a value where there is none", pickle_to_json(".", {}));
    REFUSES(FormatError, "no mark", pickle_to_json("e.", {}));
    REFUSES(FormatError, "a key of the pickle has no value", pickle_to_json("}(K\x01u.", {}));
    REFUSES(FormatError, "recalls a value it never kept", pickle_to_json("h\x05.", {}));
    REFUSES(FormatError, "holds itself", pickle_to_json("]q\0h\0a."s, {}));
}

STORY("no bytes make the pickle reader do more than refuse") {
    std::mt19937 random(4);
    const std::string codes =
        "N\x88IJKM\x8aU(])}lt\x85X\x87sesuFGa012pqgh.\x94\x8f\x90\x95\n\x01\0"s;
    int read = 0, refused = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string bytes;
        for (size_t n = 1 + random() % 40; n-- > 0;) bytes += codes[random() % codes.size()];
        try {
            pickle_to_json(bytes + ".", {});
            ++read;
        } catch (const FormatError&) {
            ++refused;
        }
    }
    EXPECT(read > 100, true);
    EXPECT(refused > 100, true);
}
