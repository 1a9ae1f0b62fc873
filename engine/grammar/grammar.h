// A compiled description of outputs: a byte-level pushdown automaton. Const and shared between threads. Knows bytes and
// the ids of control tokens; no vocabulary, no masks.
#pragma once

#include <chrono>
#include <memory>

#include "config/limits.h"
#include "engine/base/result.h"
#include "engine/grammar/format.h"

namespace slipstream::grammar {

struct Pushdown;
using Grammar = Pushdown;

/// kInvalidArgument: not a valid description, or over a bound of config/limits.h; param says which part. kUnsupported:
/// a keyword or construct that is not enforced, by name. Runs at most `budget`, plus a little.
Result<std::shared_ptr<const Grammar>> compile(
    const Format& format, std::chrono::milliseconds budget = std::chrono::milliseconds(limits::kGrammarCompileMs));

}  // namespace slipstream::grammar
