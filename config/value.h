// Text to typed values, with bounds. Knows one flag at a time; must never know files or the environment.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.h"
#include "config/flag.h"
#include "engine/base/result.h"

namespace slipstream::config {

/// "32768", "32k" (32,000), "32K" (32,768), "1.5M", "-1": as vLLM reads them, lower case decimal, upper case binary.
/// With `bytes` also "4GiB", "4GB", "512MB". Errors: kInvalidArgument.
Result<int64_t> parse_integer(std::string_view text, bool bytes);

/// true/false, yes/no, on/off, 1/0, in any case.
Result<bool> parse_bool(std::string_view text);

/// Finite decimal number.
Result<double> parse_number(std::string_view text);

/// Sets `flag`'s field from `values` (one, unless it is a list). `where` starts the message of an error, e.g.
/// "config.yaml:12: port" or "--port".
Status set_field(const Flag& flag, const std::vector<std::string>& values, const std::string& where, Config& config);

/// The field's present value as text; a list is comma-separated; secrets are only counted.
std::string field_text(const Flag& flag, Config& config);

/// The user's words between quotes, control characters escaped, cut after 80 bytes.
std::string in_quotes(std::string_view text);

}  // namespace slipstream::config
