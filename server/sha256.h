// SHA-256 (FIPS 180-4), for API keys and salts. Not a fast path.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace slipstream {

using Sha256 = std::array<uint8_t, 32>;
Sha256 sha256(std::string_view bytes);
std::string to_hex(const Sha256& hash);
/// Same time whatever the difference.
bool equal_constant_time(const Sha256& a, const Sha256& b);

}  // namespace slipstream
