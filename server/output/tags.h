// How a format's tags look inside the parsers: as text, or as marks where the vocabulary has them as special tokens.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "server/output/part_sink.h"

namespace slipstream::output {

/// `tag` itself, or its mark: then only the special token counts, never text that spells it.
inline std::string tag_text(std::string_view tag, const std::vector<std::string>& marks) {
  const auto found = std::find(marks.begin(), marks.end(), tag);
  if (found == marks.end() || tag.empty()) return std::string(tag);
  return {kMark, static_cast<char>(found - marks.begin())};
}

}  // namespace slipstream::output
