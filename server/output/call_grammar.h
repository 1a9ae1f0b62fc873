// What an answer may be where calls are forced or must keep to their schemas: a format for the grammar engine, for each way to
// write a call. The parser of the same format reads what it allows. Knows no automaton and no endpoint.
#pragma once

#include <set>

#include <nlohmann/json_fwd.hpp>

#include "engine/grammar/format.h"
#include "server/output/output_format.h"

namespace slipstream::output {

struct CallRules {
  bool forced = false;        // nothing but calls, at least one; otherwise text, in which calls keep to their schemas
  bool single = false;        // one call at most
  bool any_arguments = false; // functions that are not strict take any object: their schemas are not all enforced
};

/// `tools` as in a request: function.parameters is a schema. `strict`: functions for which any_arguments does not count. Schemas carry
/// their path in the request. kUnsupported: the format has no grammar (Python calls).
Result<grammar::Format> call_format(const OutputFormat& format, const Tokenizer& tokenizer, const nlohmann::ordered_json& tools,
                                    const std::set<std::string>& strict, CallRules rules);

}  // namespace slipstream::output
