#include "core/serving/requests.hpp"

#include <stdexcept>

namespace chakra::serving {

namespace {

template <class T>
void extend(std::vector<T>& column, const std::vector<T>& more) {
    column.insert(column.end(), more.begin(), more.end());
}

// A column that may be left out: where either has it, the other's requests have none.
void extend(std::vector<int64_t>& column, size_t size, const std::vector<int64_t>& more,
            size_t added) {
    if (column.empty() && more.empty()) return;
    column.resize(size, -1);
    extend(column, more);
    column.resize(size + added, -1);
}

// Entries of `from` for each request, as `to` for each.
std::vector<int64_t> widened(const std::vector<int64_t>& after, int64_t from, int64_t to) {
    std::vector<int64_t> wide(after.size() / static_cast<size_t>(from) * static_cast<size_t>(to),
                              -1);
    for (size_t i = 0; i < after.size(); ++i) {
        size_t r = i / static_cast<size_t>(from), k = i % static_cast<size_t>(from);
        wide[r * static_cast<size_t>(to) + k] = after[i];
    }
    return wide;
}

}  // namespace

void Requests::append(const Requests& more) {
    if (more.first != static_cast<int64_t>(size()) || more.unit != unit)
        throw std::invalid_argument("new requests do not follow those that are there");
    size_t size_before = size();
    int64_t most = std::max(parents, more.parents);
    after = widened(after, parents, most);
    extend(after, widened(more.after, more.parents, most));
    parents = most;
    extend(arrival, more.arrival);
    extend(prompt, more.prompt);
    extend(output, more.output);
    extend(priority, more.priority);
    extend(adapter, more.adapter);
    extend(continues, size_before, more.continues, more.size());
    extend(group, size_before, more.group, more.size());
    extend(deadline, size_before, more.deadline, more.size());
    extend(model, size_before, more.model, more.size());
    extend(tenant, size_before, more.tenant, more.size());
    for (size_t i = 1; i < more.offsets.size(); ++i)
        offsets.push_back(static_cast<int64_t>(ids.size()) + more.offsets[i]);
    extend(ids, more.ids);
    if (content_offsets.empty() && more.content_offsets.empty()) return;
    content_offsets.resize(std::max<size_t>(size_before + 1, content_offsets.size()),
                           static_cast<int64_t>(contents.size()));
    for (size_t i = 1; i <= more.size(); ++i)
        content_offsets.push_back(static_cast<int64_t>(contents.size()) +
                                  (more.content_offsets.empty() ? 0 : more.content_offsets[i]));
    extend(contents, more.contents);
    extend(content_tokens, more.content_tokens);
}

}  // namespace chakra::serving
