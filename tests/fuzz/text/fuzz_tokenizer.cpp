// tokenizer.json, then encode and decode with whatever was accepted. The input is the file, a zero byte, and the text.
#include <string_view>

#include "tests/fuzz/text/check_tokenizer.h"

using namespace slipstream;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const size_t zero = input.find('\0');
  const std::string_view text = zero == std::string_view::npos ? std::string_view("a <s>b") : input.substr(zero + 1);
  const auto tokenizer = Tokenizer::from_json(input.substr(0, zero));
  if (tokenizer.ok()) check_encoding(*tokenizer, text);
  return 0;
}
