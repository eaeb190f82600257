// Splits a .et stream into frames: each is a varint length followed by that many bytes.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace chakra {

// Fills the buffer with up to n bytes and returns how many; 0 means the end of input. May throw.
using ByteReader = std::function<size_t(uint8_t* buffer, size_t n)>;

// Reads a file, pipe or device by read(2). Throws std::system_error.
ByteReader open_file(const std::string& path);

struct Frame {
    std::span<const uint8_t> bytes;  // until the next call
    int64_t offset;                  // of the first of `bytes` in the input
    uint64_t number;                 // 0 is the metadata, n the n-th node
};

// Throws FormatError, with the byte where the frame starts, for input that ends inside a frame, for
// a length no message can have, and for gzip and zstd. Memory grows with the bytes that arrive, so
// that a false length costs nothing.
class FrameReader {
   public:
    explicit FrameReader(ByteReader read) : read_(std::move(read)) {}

    // The next frame, or nothing at the end of input.
    std::optional<Frame> next();

   private:
    bool have(size_t n);
    void make_room();
    std::pair<size_t, size_t> length();
    void refuse_compressed();
    [[noreturn]] void fail(const std::string& what) const;

    ByteReader read_;
    std::vector<uint8_t> buffer_;
    size_t begin_ = 0;  // buffer_[begin_, end_) has been read and not been given out
    size_t end_ = 0;
    int64_t base_ = 0;  // of buffer_[0] in the input
    uint64_t number_ = 0;
    bool ended_ = false;
};

// "the metadata" or "node #3": how errors name a frame.
std::string frame_name(uint64_t number);

}  // namespace chakra
