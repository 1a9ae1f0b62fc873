// Earlier turns as the templates of particular families want them, where that is not what clients send. Knows no template engine.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "server/output/output_format.h"

namespace slipstream::output {

/// `messages` are normalised. gpt-oss: thoughts of a turn as its `thinking`; Mistral: as a block of its content, and ids of calls
/// with nine letters and digits, the same for the same id.
void adapt_history(const OutputFormat& format, nlohmann::ordered_json* messages);

}  // namespace slipstream::output
