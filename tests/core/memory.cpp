#include <cstdlib>
#include <memory>

#include "core/memory/buffer.hpp"
#include "core/memory/short_copy.hpp"
#include "harness.hpp"

using namespace chakra;

STORY("a buffer keeps its values while it grows, and hands them on") {
    Buffer<int32_t> buffer;
    for (int32_t i = 0; i < 1000; ++i) buffer.push(i * i);
    int32_t more[] = {7, 8};
    buffer.append(more, 2);
    EXPECT(buffer.size(), 1002);
    EXPECT(buffer[999], 998001);
    EXPECT(buffer.back(), 8);
    Buffer<int32_t> other = std::move(buffer);
    EXPECT(buffer.size(), 0);
    EXPECT(other.size(), 1002);
    int32_t* released = other.release();
    EXPECT(released[1001], 8);
    EXPECT(other.size(), 0);
    std::free(released);
}

STORY("a buffer fills only what is new") {
    Buffer<uint8_t> buffer;
    buffer.push(1);
    buffer.grow_to(3, 9);
    buffer.grow_to(2, 5);  // shorter: nothing happens
    EXPECT(std::vector<uint8_t>(buffer.data(), buffer.data() + buffer.size()), {1, 9, 9});
}

STORY("an empty buffer can be released and freed") {
    Buffer<int64_t> buffer;
    std::free(buffer.release());
    EXPECT(buffer.empty(), true);
}

STORY("appending says whether the text was ASCII, wherever the odd byte lies") {
    for (size_t length : {1, 3, 4, 7, 8, 15, 16, 17, 40})
        for (size_t odd = 0; odd < length; ++odd) {
            Buffer<char> buffer;
            std::string text(length, 'a');
            EXPECT(buffer.append_scanned(text), true);
            text[odd] = '\xe9';
            EXPECT(buffer.append_scanned(text), false);
            EXPECT(buffer.size(), 2 * length);
        }
}

STORY("short copies touch their own bytes and no others") {
    for (size_t n = 0; n <= 300; ++n) {
        // Arrays of exactly n bytes: the sanitizer sees a byte too many.
        auto from = std::make_unique<char[]>(n), to = std::make_unique<char[]>(n);
        for (size_t i = 0; i < n; ++i) from[i] = static_cast<char>(i * 37 + 1);
        copy_short(to.get(), from.get(), n);
        EXPECT(equal_short(from.get(), to.get(), n), true);
        if (n == 0) continue;
        to[n / 2] = static_cast<char>(to[n / 2] + 1);
        EXPECT(equal_short(from.get(), to.get(), n), false);
    }
}
