// Shorthand for the template tests: compile, render, and look at the segments.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "engine/text/chat_template.h"

namespace slipstream {

using Json = nlohmann::ordered_json;

struct Rendered {
  std::string text;
  std::string error;
  ErrorCode code = ErrorCode::kInternal;
  std::vector<PromptSegment> segments;

  /// All bytes of one provenance, joined.
  std::string part(bool trusted) const {
    std::string out;
    for (const PromptSegment& segment : segments)
      if (segment.trusted == trusted) out += segment.text;
    return out;
  }
};

inline Rendered render_case(const std::string& source, const RenderInput& input, RenderLimits limits = {}) {
  Rendered out;
  const auto compiled = ChatTemplate::compile(source, "<s>", "</s>", limits);
  if (!compiled.ok()) {
    out.error = "compile: " + compiled.error().message;
    out.code = compiled.error().code;
    return out;
  }
  const auto segments = (*compiled)->render(input);
  if (!segments.ok()) {
    out.error = segments.error().message;
    out.code = segments.error().code;
    return out;
  }
  out.segments = *segments;
  out.text = joined_text(*segments);
  return out;
}

/// Renders with variables of the request.
inline Rendered render_with(const std::string& source, const char* variables, RenderLimits limits = {}) {
  RenderInput input;
  input.extra = Json::parse(variables);
  return render_case(source, input, limits);
}

}  // namespace slipstream
