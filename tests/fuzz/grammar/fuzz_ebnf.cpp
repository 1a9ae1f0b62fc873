// Grammars as text.
#include <cstddef>
#include <cstdint>
#include <string>

#include "tests/fuzz/grammar/check_grammar.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  slipstream::fuzz::check_format(slipstream::grammar::Format::ebnf(std::string(text)), text);
  return 0;
}
