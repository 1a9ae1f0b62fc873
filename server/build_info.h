// The program's version, for --version, /version, logs and fingerprints.
#pragma once

#include <string_view>

namespace slipstream {
inline constexpr std::string_view kVersion = SLIPSTREAM_VERSION;
}
