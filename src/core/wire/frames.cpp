#include "core/wire/frames.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <system_error>

#include "core/error.hpp"
#include "core/wire/wire.hpp"

namespace chakra {

namespace {

constexpr size_t kChunk = 256 * 1024;
constexpr size_t kLongestVarint = 10;

class Descriptor {
   public:
    explicit Descriptor(const std::string& path)
        : path_(path), fd_(::open(path.c_str(), O_RDONLY | O_CLOEXEC)) {
        if (fd_ < 0) fail("cannot open ");
    }
    ~Descriptor() {
        if (fd_ >= 0) ::close(fd_);
    }
    Descriptor(const Descriptor&) = delete;
    Descriptor& operator=(const Descriptor&) = delete;

    size_t read(uint8_t* buffer, size_t n) {
        for (;;) {
            ssize_t got = ::read(fd_, buffer, n);
            if (got >= 0) return static_cast<size_t>(got);
            if (errno != EINTR) fail("cannot read ");
        }
    }

   private:
    [[noreturn]] void fail(const char* what) {
        throw std::system_error(errno, std::generic_category(), what + path_);
    }

    std::string path_;
    int fd_;
};

}  // namespace

ByteReader open_file(const std::string& path) {
    auto file = std::make_shared<Descriptor>(path);
    return [file](uint8_t* buffer, size_t n) { return file->read(buffer, n); };
}

std::string frame_name(uint64_t number) {
    return number == 0 ? "the metadata" : "node #" + std::to_string(number);
}

std::optional<Frame> FrameReader::next() {
    if (!have(1)) {
        if (number_ == 0) fail("the input is empty; a trace starts with its metadata");
        return std::nullopt;
    }
    if (number_ == 0) refuse_compressed();
    auto [head, n] = length();
    if (!have(head + n))
        fail("its length is " + std::to_string(n) + " bytes, but the input ends after " +
             std::to_string(end_ - begin_ - head));
    size_t start = begin_ + head;
    begin_ = start + n;
    return Frame{{buffer_.data() + start, n}, base_ + static_cast<int64_t>(start), number_++};
}

// Reads on until n bytes lie at begin_. What a throwing reader has given before is kept.
bool FrameReader::have(size_t n) {
    while (end_ - begin_ < n) {
        if (ended_) return false;
        make_room();
        size_t got = read_(buffer_.data() + end_, buffer_.size() - end_);
        if (got > buffer_.size() - end_) fail("the reader claims more bytes than were asked for");
        ended_ = got == 0;
        end_ += got;
    }
    return true;
}

void FrameReader::make_room() {
    if (begin_ > 0) {
        std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
        base_ += static_cast<int64_t>(begin_);
        end_ -= begin_;
        begin_ = 0;
    }
    if (end_ == buffer_.size()) buffer_.resize(std::max(kChunk, 2 * buffer_.size()));
}

// The bytes a length takes, and the length.
std::pair<size_t, size_t> FrameReader::length() {
    bool whole = have(kLongestVarint);  // fewer bytes only where the input ends
    const uint8_t* start = buffer_.data() + begin_;
    wire::Cursor cursor(start, start + std::min(end_ - begin_, kLongestVarint));
    uint64_t n = 0;
    try {
        n = cursor.varint();
    } catch (const FormatError&) {
        fail(whole ? "its length is no varint" : "the input ends inside its length");
    }
    if (n > wire::kMaxLength)
        fail("length " + std::to_string(n) + " is more than the 2 GiB a message may have");
    return {static_cast<size_t>(cursor.at() - start), static_cast<size_t>(n)};
}

void FrameReader::refuse_compressed() {
    auto starts_with = [&](std::initializer_list<uint8_t> magic) {
        return have(magic.size()) &&
               std::equal(magic.begin(), magic.end(), buffer_.data() + begin_);
    };
    const char* cure =
        "-compressed; unpack it (chakra convert IN OUT.et) or read it through a callback that does";
    if (starts_with({0x1f, 0x8b})) fail(std::string("the input is gzip") + cure);
    if (starts_with({0x28, 0xb5, 0x2f, 0xfd})) fail(std::string("the input is zstd") + cure);
}

void FrameReader::fail(const std::string& what) const {
    throw FormatError(frame_name(number_) + ": " + what, base_ + static_cast<int64_t>(begin_));
}

}  // namespace chakra
