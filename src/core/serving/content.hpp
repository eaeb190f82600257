// Cached content that is found by what it is, wherever it stands in a prompt.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

namespace chakra::serving {

// Pieces of content with their sizes in tokens; the least recently used leave when there is no
// room.
class ContentStore {
   public:
    explicit ContentStore(int64_t room) : room_(room) {}

    bool has_room() const { return room_ > 0; }
    int64_t held() const { return held_; }
    bool has(uint64_t id) const { return where_.contains(id); }

    void put(uint64_t id, int64_t tokens) {
        if (tokens > room_) return;
        if (auto found = where_.find(id); found != where_.end()) {
            order_.splice(order_.end(), order_, found->second);
            return;
        }
        while (held_ + tokens > room_) {
            held_ -= order_.front().tokens;
            where_.erase(order_.front().id);
            order_.pop_front();
        }
        order_.push_back({id, tokens});
        where_[id] = std::prev(order_.end());
        held_ += tokens;
    }

    void forget() {
        order_.clear();
        where_.clear();
        held_ = 0;
    }

   private:
    struct Piece {
        uint64_t id;
        int64_t tokens;
    };

    int64_t room_, held_ = 0;
    std::list<Piece> order_;
    std::unordered_map<uint64_t, std::list<Piece>::iterator> where_;
};

}  // namespace chakra::serving
