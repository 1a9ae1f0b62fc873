// Ids that answers carry. Knows nothing else.
#pragma once

#include <string>

namespace slipstream::api {

/// `prefix` and 24 random letters and digits.
std::string random_id(const char* prefix);

}  // namespace slipstream::api
