// See json_text.h.
#include "server/json_text.h"

#include <charconv>
#include <cmath>

#include "engine/base/utf8.h"

namespace slipstream::json_text {
namespace {
constexpr std::string_view kReplacement = "\xef\xbf\xbd";
}

std::string replace_invalid_utf8(std::string_view text) {
  if (is_valid_utf8(text)) return std::string(text);
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = utf8_sequence_at(text, i);
    const size_t length = sequence.complete ? sequence.bytes : 1;
    out += sequence.complete ? text.substr(i, length) : kReplacement;
    i += length;
  }
  return out;
}

void append_string(std::string& out, std::string_view text) {
  if (!is_valid_utf8(text)) {
    const std::string repaired = replace_invalid_utf8(text);
    return append_string(out, repaired);
  }
  constexpr char hex[] = "0123456789abcdef";
  out.push_back('"');
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    switch (c) {
      case '"': out += "\\\""; break;
      case '\\': out += "\\\\"; break;
      case '\n': out += "\\n"; break;
      case '\r': out += "\\r"; break;
      case '\t': out += "\\t"; break;
      default:
        if (byte < 0x20 || byte == 0x7f) {
          out += "\\u00";
          out.push_back(hex[byte >> 4]);
          out.push_back(hex[byte & 15]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

void append_int(std::string& out, int64_t value) {
  char buffer[24];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

void append_float(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  char buffer[32];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  out.append(buffer, end);
}

void append_bytes(std::string& out, std::string_view text) {
  out.push_back('[');
  for (size_t i = 0; i < text.size(); ++i) {
    if (i) out.push_back(',');
    append_int(out, static_cast<unsigned char>(text[i]));
  }
  out.push_back(']');
}

}  // namespace slipstream::json_text
