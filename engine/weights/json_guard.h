// Bounds on a JSON text before a parser sees it: what nlohmann's lexer would otherwise buffer whole.
#pragma once

#include <string_view>

#include "engine/base/result.h"

namespace slipstream {

/// kCorrupt when braces and brackets nest deeper than max_depth, a string has more than max_string_bytes (as
/// written), or another token more than 64 bytes. Says nothing about whether the text is valid JSON.
Status check_json_bounds(std::string_view text, int max_depth, size_t max_string_bytes);

}  // namespace slipstream
