// Short ways to compile formats and ask what they accept.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "engine/grammar/grammar.h"
#include "engine/grammar/matcher.h"
#include "tests/catch.h"

namespace slipstream::test {

using grammar::Format;

inline std::shared_ptr<const grammar::Grammar> compiled(const Format& format) {
  auto result = grammar::compile(format);
  INFO((result.ok() ? std::string() : result.error().message + " [" + result.error().param + "]"));
  REQUIRE(result.ok());
  return *result;
}

/// The whole text, read byte by byte.
inline bool accepts(const std::shared_ptr<const grammar::Grammar>& grammar, std::string_view text) {
  grammar::Stacks stacks(*grammar);
  REQUIRE(stacks.start());
  return stacks.read(text) && stacks.reading().complete;
}

/// "param: message" of a format that must not compile.
inline std::string refusal(const Format& format) {
  const auto result = grammar::compile(format);
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().code == ErrorCode::kInvalidArgument);
  return result.error().param + ": " + result.error().message;
}

inline bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace slipstream::test
