// Small files that an operator names. Knows no format.
#pragma once

#include <cstdint>
#include <string>

#include "engine/base/result.h"

namespace slipstream {

/// The whole file, at most `limit_bytes`; pipes and endless files are read no further. Errors begin with `what` and the path,
/// and say whether the file is absent, a folder or too large.
Result<std::string> read_text_file(const std::string& path, const std::string& what, int64_t limit_bytes);

}  // namespace slipstream
