// What a client may send as a request's id, in the X-Request-Id header or in a body: it is echoed in headers and log
// lines. Knows neither of the two.
#pragma once

#include <algorithm>
#include <cctype>
#include <string_view>

#include "config/limits.h"

namespace slipstream {

/// Short and plain: letters, digits, and - _ . :
inline bool is_request_id(std::string_view text) {
  return !text.empty() && text.size() <= static_cast<size_t>(limits::kRequestIdBytes) &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return c < 128 && (std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.' || c == ':');
         });
}

}  // namespace slipstream
