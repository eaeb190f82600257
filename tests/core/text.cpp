#include "core/text/interner.hpp"
#include "core/text/texts.hpp"
#include "core/text/utf8.hpp"
#include "harness.hpp"

using namespace chakra;

STORY("UTF-8 is accepted up to its last code point") {
    for (const char* text :
         {"", "plain", "\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80",
          "\xef\xbf\xbf", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        EXPECT(is_utf8(text), true);
}

STORY("what is not UTF-8 is refused") {
    for (const char* text : {
             "\x80",              // a continuation alone
             "\xc0\xaf",          // overlong
             "\xc1\xbf",          // overlong
             "\xe0\x9f\xbf",      // overlong
             "\xf0\x8f\xbf\xbf",  // overlong
             "\xed\xa0\x80",      // a surrogate
             "\xf4\x90\x80\x80",  // beyond U+10FFFF
             "\xf5\x80\x80\x80",  // no such first byte
             "\xff",              //
             "\xc3",              // cut off
             "\xe2\x82",          // cut off
             "\xf0\x9f\x98",      // cut off
         })
        EXPECT(is_utf8(text), false);
}

STORY("a bad byte is found wherever it lies among words of eight") {
    for (size_t at = 0; at < 20; ++at) {
        std::string text(20, 'x');
        text[at] = '\x80';
        EXPECT(is_utf8(text), false);
        text.replace(at, 1, "\xc3\xa9");
        EXPECT(is_utf8(text), true);
    }
}

STORY("strings get numbers in order of first sight") {
    Interner names;
    EXPECT(names.intern("gemm"), 0);
    EXPECT(names.intern("relu"), 1);
    EXPECT(names.intern("gemm"), 0);
    EXPECT(names.intern(""), 2);
    EXPECT(names.intern(std::string_view("a\0b", 3)), 3);
    EXPECT(names.intern("a"), 4);
    EXPECT(names.find("relu"), 1);
    EXPECT(names.find("softmax"), -1);
    EXPECT(names.size(), 5);
    EXPECT(names[3], std::string_view("a\0b", 3));
}

STORY("an interner says what is new, also after it has grown and after it was cleared") {
    Interner names("first");
    bool fresh = false;
    for (int32_t i = 1; i <= 10000; ++i) {
        EXPECT(names.intern("name " + std::to_string(i), fresh), i);
        EXPECT(fresh, true);
    }
    EXPECT(names.intern("name 5000", fresh), 5000);
    EXPECT(fresh, false);
    EXPECT(names[0], "first");
    names.clear();
    EXPECT(names.size(), 0);
    EXPECT(names.find("name 5000"), -1);
}

STORY("texts lie end to end") {
    Texts texts;
    for (const char* s : {"ab", "", "cde"}) texts.push(s);
    EXPECT(texts.offsets, {0, 2, 2, 5});
    EXPECT(std::string(texts.bytes.begin(), texts.bytes.end()), "abcde");
}
