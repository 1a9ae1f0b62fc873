#include "engine/weights/json_guard.h"

#include <string>

namespace slipstream {

Status check_json_bounds(std::string_view text, int max_depth, size_t max_string_bytes) {
  constexpr size_t kMaxTokenBytes = 64;  // numbers, true, false, null
  int depth = 0;
  size_t token = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
      case '"': {
        const size_t begin = ++i;
        while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2 : 1;
        if (i - begin > max_string_bytes) {
          return corrupt("a JSON string at byte " + std::to_string(begin) + " is longer than " +
                         std::to_string(max_string_bytes) + " bytes");
        }
        token = 0;
        break;
      }
      case '{':
      case '[':
        if (++depth > max_depth) return corrupt("the JSON nests deeper than " + std::to_string(max_depth));
        token = 0;
        break;
      case '}':
      case ']':
        --depth;
        token = 0;
        break;
      case ',':
      case ':':
      case ' ':
      case '\n':
      case '\r':
      case '\t':
        token = 0;
        break;
      default:
        if (++token > kMaxTokenBytes) {
          return corrupt("a JSON token at byte " + std::to_string(i) + " is longer than " +
                         std::to_string(kMaxTokenBytes) + " bytes");
        }
    }
  }
  return Ok{};
}

}  // namespace slipstream
