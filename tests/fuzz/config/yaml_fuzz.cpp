// Any bytes as a config file: an error of one line, or settings that load the same way twice.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "config/checks.h"
#include "config/load.h"
#include "config/settings.h"
#include "config/yaml_settings.h"

using namespace slipstream;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto layer = config::parse_yaml_settings({reinterpret_cast<const char*>(data), size}, "fuzz.yaml");
  if (!layer.ok()) return 0;
  Config first, second;
  const auto applied = config::apply_layer(*layer, first);
  if (!applied.ok()) {
    if (applied.error().message.empty() || applied.error().message.find('\n') != std::string::npos) std::abort();
    return 0;
  }
  if (!config::apply_layer(*layer, second).ok()) std::abort();
  if (!config::check_config(first).ok()) return 0;
  if (!config::check_config(second).ok()) std::abort();
  if (describe_config(first, true) != describe_config(second, true)) std::abort();
  return 0;
}
