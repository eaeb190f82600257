// What a decoder holds, encoded again: the codec's two halves tied together without Python.
#pragma once

#include <string>
#include <vector>

#include "core/codec/decode.hpp"
#include "core/codec/encode.hpp"

namespace unit {

inline chakra::TextColumn text_column(const chakra::Column& c) {
    if (c.valid_count == 0) return {};
    bool nulls = c.valid_count < c.rows;
    return {c.offsets.data(), c.text.data(), nulls ? c.valid.data() : nullptr, 0};
}

inline chakra::ValueColumn value_column(const chakra::Column& c) {
    return {c.name,           c.storage,         c.words.data(), c.flags.data(),
            c.offsets.data(), c.elements.data(), c.text.data()};
}

inline std::vector<int32_t> name_offsets(const chakra::Interner& names) {
    std::vector<int32_t> offsets;
    for (int32_t i = 0; i <= names.size(); ++i)
        offsets.push_back(static_cast<int32_t>(names.offsets()[static_cast<size_t>(i)]));
    return offsets;
}

// The batch as bytes; the decoder starts the next one.
inline std::string encoded(chakra::Decoder& d) {
    d.seal();
    std::vector<int32_t> offsets = name_offsets(d.names);
    const chakra::NodeColumns& n = d.nodes;
    chakra::EncodeInput in;
    in.rows = n.rows();
    in.id = n.id.data(), in.start = n.start.data(), in.duration = n.duration.data();
    in.name = n.name.data(), in.type = n.type.data(), in.layout = n.layout.data();
    in.names = {offsets.data(), d.names.text().data(), nullptr, 0};
    in.ctrl = {n.ctrl_offsets.data(), n.ctrl.data()};
    in.data = {n.data_offsets.data(), n.data.data()};
    for (size_t i = 0; i < 8; ++i) in.io[i] = text_column(d.io[i]);
    for (size_t i = 0; i < 2; ++i) in.io_unknown[i] = text_column(d.io[8 + i]);
    in.raw = text_column(d.raw), in.unknown = text_column(d.unknown);
    in.layouts = {d.layouts.flags().data(), d.layouts.offsets().data(), d.layouts.columns().data(),
                  d.layouts.members().data()};
    for (const auto& c : d.attributes) in.attributes.push_back(value_column(*c));
    chakra::BackWriter out(64);  // little, so that it grows
    chakra::encode(in, out);
    d.reset();
    return {reinterpret_cast<const char*>(out.begin()), out.size()};
}

}  // namespace unit
