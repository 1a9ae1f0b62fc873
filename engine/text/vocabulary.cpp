// One arena for all strings and one open-addressed table of ids: a vocabulary of 250,000 takes a few megabytes.
#include "engine/text/vocabulary.h"

#include <functional>

#include "kernels/check.h"

namespace slipstream {

Vocabulary::Vocabulary(int32_t size) : spans_(static_cast<size_t>(size)) {}

void Vocabulary::set_bytes(int32_t id, std::string_view bytes) {
  CHECK(id >= 0 && id < size(), "token id out of range");
  spans_[static_cast<size_t>(id)] = {checked_cast<uint32_t>(arena_.size()), checked_cast<uint32_t>(bytes.size())};
  arena_ += bytes;
}

int32_t Vocabulary::index(const std::vector<bool>& findable) {
  arena_.shrink_to_fit();
  size_t capacity = 16;
  while (capacity < spans_.size() * 2) capacity *= 2;
  slots_.assign(capacity, -1);
  int32_t twin = -1;
  for (int32_t id = 0; id < size(); ++id) {
    if (!findable[static_cast<size_t>(id)]) continue;
    const std::string_view text = bytes(id);
    size_t slot = std::hash<std::string_view>()(text) & (capacity - 1);
    while (slots_[slot] >= 0 && bytes(slots_[slot]) != text) slot = (slot + 1) & (capacity - 1);
    if (slots_[slot] >= 0)
      twin = id;
    else
      slots_[slot] = id;
  }
  return twin;
}

std::string_view Vocabulary::bytes(int32_t id) const {
  if (id < 0 || id >= size()) return {};
  const Span span = spans_[static_cast<size_t>(id)];
  return std::string_view(arena_).substr(span.begin, span.size);
}

int32_t Vocabulary::find(std::string_view text) const {
  if (slots_.empty()) return -1;
  size_t slot = std::hash<std::string_view>()(text) & (slots_.size() - 1);
  while (slots_[slot] >= 0) {
    if (bytes(slots_[slot]) == text) return slots_[slot];
    slot = (slot + 1) & (slots_.size() - 1);
  }
  return -1;
}

}  // namespace slipstream
