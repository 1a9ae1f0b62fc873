// The strings of a vocabulary: id -> bytes, and bytes -> id for ordinary tokens. Knows nothing of merges or of special
// meaning.
//
// Const and shared between threads once filled.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace slipstream {

class Vocabulary {
 public:
  /// Ids 0..size-1, all empty.
  explicit Vocabulary(int32_t size);

  /// Sets the bytes that `id` decodes to. Each id once.
  void set_bytes(int32_t id, std::string_view bytes);
  /// After the last set_bytes: `findable[id]` tokens can be found by their bytes. Returns an id whose bytes another
  /// findable token has too, or -1.
  int32_t index(const std::vector<bool>& findable);

  int32_t size() const { return static_cast<int32_t>(spans_.size()); }
  std::string_view bytes(int32_t id) const;
  /// -1 when no findable token has these bytes.
  int32_t find(std::string_view bytes) const;

 private:
  struct Span {
    uint32_t begin = 0;
    uint32_t size = 0;
  };
  std::string arena_;
  std::vector<Span> spans_;
  std::vector<int32_t> slots_;  // open addressing, a power of two; -1 is free
};

}  // namespace slipstream
