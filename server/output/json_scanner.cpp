// See json_scanner.h.
#include "server/output/json_scanner.h"

#include "server/output/part_sink.h"
#include "server/output/value_text.h"

namespace slipstream::output {

size_t JsonScanner::feed(std::string_view text, std::string* out) {
  size_t used = 0;
  while (used < text.size() && !complete_ && !broken_ && step(text[used], out)) ++used;
  return used;
}

/// False when `c` is not part of the value.
bool JsonScanner::step(char c, std::string* out) {
  if (c == kMark) {
    broken_ = true;
    return false;
  }
  if (in_string_) {
    if (!escaped_ && static_cast<unsigned char>(c) < 0x20)
      append_escaped(out, std::string_view(&c, 1));
    else
      out->push_back(c);
    const bool quote = c == '"' && !escaped_;
    escaped_ = c == '\\' && !escaped_;
    if (quote) {
      in_string_ = false;
      complete_ = depth_ == 0;
    }
    return true;
  }
  const bool scalar = first_ != 0 && depth_ == 0;
  if (scalar && (is_space(c) || c == ',' || c == '}' || c == ']' || c == ';')) {
    complete_ = true;
    return false;
  }
  if (c == '<') {  // opens a tag; nothing outside of strings holds one
    (scalar ? complete_ : broken_) = true;
    return false;
  }
  if (first_ == 0 && (c == '}' || c == ']' || c == ',' || c == ':')) {
    broken_ = true;
    return false;
  }
  if (first_ == 0 && is_space(c)) return true;
  if (first_ == 0) first_ = c;
  out->push_back(c);
  if (c == '"') {
    in_string_ = true;
  } else if (c == '{' || c == '[') {
    ++depth_;
  } else if ((c == '}' || c == ']') && depth_ > 0 && --depth_ == 0) {
    complete_ = true;
  }
  return true;
}

}  // namespace slipstream::output
