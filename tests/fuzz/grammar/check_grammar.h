// What must hold of any description: it compiles or is refused in one line, within its time, and what compiles can be read.
#pragma once

#include <string_view>

#include "engine/grammar/grammar.h"
#include "engine/grammar/matcher.h"

namespace slipstream::fuzz {

/// Reads `text` with what compiled, then goes on with the lowest byte that fits: a reading that is not complete can.
inline void check_format(const grammar::Format& format, std::string_view text) {
  const auto compiled = grammar::compile(format, std::chrono::milliseconds(300));
  if (!compiled.ok()) {
    CHECK(compiled.error().code == ErrorCode::kInvalidArgument, "an error of another kind");
    CHECK(!compiled.error().message.empty() && compiled.error().message.find('\n') == std::string::npos, "an error of one line");
    return;
  }
  grammar::Stacks stacks(**compiled);
  CHECK(stacks.start(), "compile() lets no such grammar through");
  for (const char c : text.substr(0, 200))
    if (!stacks.read(std::string_view(&c, 1))) break;
  for (int i = 0; i < 50 && !stacks.reading().tops.empty(); ++i) {
    bool read = false;
    for (int byte = 0; byte < 256 && !read; ++byte) {
      const char c = static_cast<char>(byte);
      read = stacks.read(std::string_view(&c, 1));
    }
    if (!read) break;
  }
}

}  // namespace slipstream::fuzz
