// Regular expressions, alone and as the pattern of a schema.
#include <nlohmann/json.hpp>
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/grammar/check_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  slipstream::fuzz::check_format(slipstream::grammar::Format::regex(std::string(text)), text);
  const std::string schema = nlohmann::json({{"pattern", text}}).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  slipstream::fuzz::check_format(slipstream::grammar::Format::json_schema(schema), text);
  return 0;
}
