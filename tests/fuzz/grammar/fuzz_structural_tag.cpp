// The request field structural_tag.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/grammar/check_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto format = slipstream::grammar::parse_structural_tag(text, "structural_tag");
  if (format.ok()) slipstream::fuzz::check_format(*format, "some text <call");
  return 0;
}
