// Figures as a table, as JSON and as a progress line.
#pragma once

#include <string>
#include <vector>

#include "server/bench/load.h"
#include "server/bench/measure.h"
#include "server/bench/options.h"

namespace slipstream::bench {

/// synthetic_length: of Target; every line says it.
std::string table_text(const std::vector<Summary>& summaries, double synthetic_length);
std::string json_text(const Target& target, const Options& options, const std::vector<Summary>& summaries);
std::string progress_text(const Progress& progress);

}  // namespace slipstream::bench
