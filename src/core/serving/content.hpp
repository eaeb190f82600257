// Cached content that is found by what it is, wherever it stands in a prompt.
#pragma once

#include <cstdint>
#include <list>
#include <unordered_map>

namespace chakra::serving {

// Pieces of content with their sizes in tokens; the least recently used leave when there is no
// room. Of those that left last, as many as `remembered` tokens are known as ghosts.
class ContentStore {
   public:
    explicit ContentStore(int64_t room, int64_t remembered = 0)
        : room_(room), remembered_(remembered) {}

    bool has_room() const { return room_ > 0; }
    int64_t held() const { return kept_.tokens; }
    bool has(uint64_t id) const { return kept_.where.contains(id); }
    bool left_lately(uint64_t id) const { return ghosts_.where.contains(id); }

    void put(uint64_t id, int64_t tokens) {
        if (tokens > room_) return;
        if (auto found = kept_.where.find(id); found != kept_.where.end()) {
            kept_.order.splice(kept_.order.end(), kept_.order, found->second);
            return;
        }
        ghosts_.remove(id);
        make_room(room_ - tokens);
        kept_.append({id, tokens});
    }

    // More or less room; what does not fit leaves.
    void resize(int64_t room) {
        room_ = room;
        make_room(room);
    }

    // Brings back what left last, the newest first, until one does not fit; how many tokens.
    int64_t refill() {
        int64_t before = kept_.tokens;
        while (!ghosts_.order.empty() && kept_.tokens + ghosts_.order.back().tokens <= room_) {
            Piece piece = ghosts_.order.back();
            ghosts_.remove(piece.id);
            kept_.prepend(piece);
        }
        return kept_.tokens - before;
    }

    void forget() { kept_ = {}, ghosts_ = {}; }

   private:
    struct Piece {
        uint64_t id;
        int64_t tokens;
    };

    // Least recently used first.
    struct Pieces {
        std::list<Piece> order{};
        std::unordered_map<uint64_t, std::list<Piece>::iterator> where{};
        int64_t tokens = 0;

        void append(const Piece& piece) {
            where[piece.id] = order.insert(order.end(), piece);
            tokens += piece.tokens;
        }
        void prepend(const Piece& piece) {
            where[piece.id] = order.insert(order.begin(), piece);
            tokens += piece.tokens;
        }
        void remove(uint64_t id) {
            auto found = where.find(id);
            if (found == where.end()) return;
            tokens -= found->second->tokens;
            order.erase(found->second);
            where.erase(found);
        }
    };

    void make_room(int64_t most) {
        while (kept_.tokens > most) {
            Piece old = kept_.order.front();
            kept_.remove(old.id);
            if (old.tokens > remembered_) continue;
            ghosts_.append(old);
            while (ghosts_.tokens > remembered_) ghosts_.remove(ghosts_.order.front().id);
        }
    }

    int64_t room_, remembered_;
    Pieces kept_, ghosts_;
};

}  // namespace chakra::serving
