// The wall in front of the JSON library: one linear pass that proves a body to be strict, bounded JSON. Owns depth,
// UTF-8, duplicate keys and number range; builds nothing and knows no field.
#pragma once

#include <string_view>

#include "engine/base/result.h"

namespace slipstream {

/// kInvalidArgument with a fixed reason and the byte offset; the message never holds bytes of the body, `param` is the
/// dotted path of the value that broke the rule where it consists of plain names. After success
/// a JSON library accepts the text, recurses at most limits::kJsonDepth deep and sees finite numbers.
Status check_json(std::string_view text);

}  // namespace slipstream
