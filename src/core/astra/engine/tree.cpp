// doubleBinaryTree: an all-reduce up and down one of two trees, the whole data on every edge.
//
// A tree of n = 2^L members is a root with one child, below which hangs a perfect tree of n-1;
// members are numbered in order. In the "max" tree the root is the last member, in the "min" tree
// the first.
#include <bit>

#include "core/astra/engine/engine.hpp"

namespace chakra::astra {

namespace {

// Messages, named by the receiver: from its left child, its right child, its parent.
enum : uint32_t { kFromLeft = 0, kFromRight = 1, kFromParent = 2 };

// In-order numbers 1 .. n-1 of the perfect tree: a node's height is its count of trailing zeros.
struct TreePlace {
    uint32_t n;
    bool max;
    uint32_t number;  // 1 .. n-1, or 0 for the root

    TreePlace(uint32_t n, bool max, uint32_t member) : n(n), max(max) {
        number = max ? (member + 1) % n : member;
    }
    uint32_t member(uint32_t num) const { return max ? (num + n - 1) % n : num; }
    uint32_t half() const { return 1u << std::countr_zero(number); }
    bool root() const { return number == 0; }
    bool leaf() const { return !root() && half() == 1; }
    uint32_t parent_number() const {
        if (number == n / 2) return 0;
        uint32_t h = half();
        return (number & (h << 1)) != 0 ? number - h : number + h;
    }
    uint32_t parent() const { return member(parent_number()); }
    uint32_t left() const { return member(root() ? n / 2 : number - half() / 2); }
    uint32_t right() const { return member(number + half() / 2); }
    // How the parent names what comes from here.
    uint32_t side() const {
        uint32_t p = parent_number();
        return p == 0 || number < p ? kFromLeft : kFromRight;
    }
};

}  // namespace

void Engine::start_tree(uint32_t a, uint32_t c) {
    Actor& actor = actors_[a];
    Chunk& chunk = actor.coll.chunks[c];
    const Phase& phase = phase_of(actor, chunk);
    TreePlace at(phase.size, chunk.max_tree, chunk.me);
    if (at.leaf()) return local(a, phase.endpoint, {kNone, LocalKind::Pass, c, -1});
    tree_post(a, c, kFromLeft);
    if (!at.root()) tree_post(a, c, kFromRight);
}

void Engine::tree_arrived(uint32_t a, uint32_t c) {
    Actor& actor = actors_[a];
    Chunk& chunk = actor.coll.chunks[c];
    const Phase& phase = phase_of(actor, chunk);
    TreePlace at(phase.size, chunk.max_tree, chunk.me);
    local(a, phase.endpoint, {kNone, LocalKind::Pass, c, at.leaf() ? -1 : phase.reduce});
}

// Passes in order: a leaf's first sends up and its second ends; an inner node's second sends up and
// its third sends down and ends; the root's only one sends down and ends.
void Engine::tree_pass_ended(uint32_t a, uint32_t c) {
    Actor& actor = actors_[a];
    Chunk& chunk = actor.coll.chunks[c];
    const Phase& phase = phase_of(actor, chunk);
    TreePlace at(phase.size, chunk.max_tree, chunk.me);
    uint32_t pass = ++chunk.received;
    uint32_t up = at.leaf() ? 1 : at.root() ? 0 : 2;
    if (pass == up) {
        send_chunk(a, c, at.side(), at.parent());
        return tree_post(a, c, kFromParent);
    }
    if (pass < up) return;
    if (!at.leaf()) send_chunk(a, c, kFromParent, at.left());
    if (!at.leaf() && !at.root()) send_chunk(a, c, kFromParent, at.right());
    phase_ended(a, c);
}

void Engine::tree_post(uint32_t a, uint32_t c, uint32_t item) {
    Actor& actor = actors_[a];
    Chunk& chunk = actor.coll.chunks[c];
    const Phase& phase = phase_of(actor, chunk);
    TreePlace at(phase.size, chunk.max_tree, chunk.me);
    chunk.posted |= static_cast<uint8_t>(1u << item);
    uint32_t from = item == kFromParent ? at.parent() : item == kFromLeft ? at.left() : at.right();
    post_chunk(a, c, item, from);
}

}  // namespace chakra::astra
