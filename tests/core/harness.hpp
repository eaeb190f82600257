// Unit tests of the core as stories: a name, and values beside the values that are expected.
#pragma once

#include <cstdio>
#include <ranges>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace unit {

inline std::vector<std::pair<const char*, void (*)()>> stories;  // name, body
inline int failures = 0;

template <class T>
std::string shown(const T& value) {
    if constexpr (std::is_convertible_v<const T&, std::string_view>) {
        return '"' + std::string(std::string_view(value)) + '"';
    } else if constexpr (std::ranges::range<const T>) {
        std::string text;
        for (const auto& item : value) text += (text.empty() ? "" : ", ") + shown(item);
        return '[' + text + ']';
    } else if constexpr (requires { value.has_value(); }) {
        return value ? shown(*value) : "nothing";
    } else {
        return std::to_string(static_cast<std::conditional_t<std::is_enum_v<T>, int, T>>(value));
    }
}

inline void expect(bool holds, const char* file, int line, const std::string& said) {
    if (!holds) std::fprintf(stderr, "%s:%d: %s\n", file, line, said.c_str());
    failures += !holds;
}

template <class T>
void equal(const char* file, int line, const std::string& what, const T& actual,
           const std::type_identity_t<T>& expected) {
    expect(actual == expected, file, line,
           what + " is " + shown(actual) + ", not " + shown(expected));
}

}  // namespace unit

#define UNIT_JOIN(a, b) a##b
#define UNIT_STORY(name, id)                                     \
    static void UNIT_JOIN(story_, id)();                         \
    static const auto& UNIT_JOIN(told_, id) =                    \
        unit::stories.emplace_back(name, UNIT_JOIN(story_, id)); \
    static void UNIT_JOIN(story_, id)()
#define STORY(name) UNIT_STORY(name, __LINE__)
// The expected value may be a braced list.
#define EXPECT(actual, ...) unit::equal(__FILE__, __LINE__, #actual, actual, __VA_ARGS__)
// The expression throws `Error` with `text` somewhere in its message.
#define REFUSES(Error, text, expression)                                                        \
    try {                                                                                       \
        (void)(expression);                                                                     \
        unit::expect(false, __FILE__, __LINE__, #expression " is accepted");                    \
    } catch (const Error& e) {                                                                  \
        unit::expect(std::string(e.what()).find(text) != std::string::npos, __FILE__, __LINE__, \
                     e.what());                                                                 \
    }
