// Reads a JSON list of objects from a file that may be cut off or contain names without escapes.
#pragma once

#include <string_view>

#include "core/readers/json.hpp"

namespace chakra {

// What was done about damage; part of what every reader returns.
struct Damage {
    int64_t repaired = 0;    // read at the second attempt, in tolerant mode
    int64_t dropped = 0;     // could not be read at all
    bool truncated = false;  // the text ends inside the list
};

// Reads the object at `at`: strictly, then tolerantly, else skips to the next one. Returns where to
// go on, npos at the end of the text.
template <class Read, class Next>
size_t read_object(Damage& damage, std::string_view text, size_t at, Read& read, Next& next) {
    for (bool tolerant : {false, true}) {
        JsonCursor in(text, at, tolerant);
        try {
            read(in);
            damage.repaired += tolerant;
            return in.pos();
        } catch (const JsonError&) {
        }
    }
    size_t after = next(text, at);
    if (after == text.npos)
        damage.truncated = true;
    else
        ++damage.dropped;
    return after;
}

// `read(cursor)` takes one object or throws JsonError, leaving nothing behind; `next(text, from)`
// finds where the one after a damaged one begins. Leaves the cursor behind the list.
template <class Read, class Next>
void read_objects(Damage& damage, std::string_view text, JsonCursor& in, Read read, Next next) {
    in.expect('[');
    if (in.accept(']')) return;
    size_t at = in.pos();
    while (true) {
        at = text.find_first_not_of(" \n\r\t", at);
        if (at == text.npos || text[at] != '{') break;
        at = read_object(damage, text, at, read, next);
        if (at == text.npos) return;
        at = text.find_first_not_of(" \n\r\t,", at);
        if (at == text.npos) break;
    }
    if (at == text.npos || text[at] != ']') {
        damage.truncated = true;
        in = JsonCursor(text, text.size());
        return;
    }
    in = JsonCursor(text, at + 1);
}

}  // namespace chakra
