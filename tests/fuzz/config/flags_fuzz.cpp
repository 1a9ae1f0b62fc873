// Any words as a command line (split at newlines): an error of one line, or a Config that can be shown.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "config/cli.h"
#include "config/load.h"

using namespace slipstream;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  std::vector<std::string> words(1);
  for (size_t i = 0; i < size; ++i) {
    if (data[i] == '\n') {
      words.emplace_back();
    } else {
      words.back() += static_cast<char>(data[i]);
    }
  }
  // Not load(): a fuzzer must not open the files that it makes up.
  const auto line = config::parse_command_line(words);
  if (!line.ok()) {
    if (line.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  Config config;
  if (config::apply_layer(line->settings, config).ok() && describe_config(config, true).empty()) std::abort();
  return 0;
}
