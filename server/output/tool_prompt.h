// Tools for models whose chat template does not show them: described in words of our own, in the form that Hermes and Qwen use and
// most models follow. Knows no template.
#pragma once

#include <nlohmann/json_fwd.hpp>

namespace slipstream::output {

/// The conversation with `tools` (null: none) described in its first system message, or in its first message where
/// `system_role` is false; earlier calls and their results as text. `messages` are normalised.
nlohmann::ordered_json with_tools_as_text(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& tools, bool system_role);

/// Whether any message holds a call or a result.
bool has_tool_turns(const nlohmann::ordered_json& messages);

}  // namespace slipstream::output
