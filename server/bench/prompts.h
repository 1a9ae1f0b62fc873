// Prompts of a load: different from request to request, the same from run to run.
#pragma once

#include <cstdint>
#include <string>

namespace slipstream::bench {

/// Prompt of request `index`. words = 0: a short built-in question; otherwise that many short English words, close to
/// one token each, drawn from (seed, index), so that no prefix cache knows it.
std::string prompt_text(int64_t index, int words, uint64_t seed);

}  // namespace slipstream::bench
