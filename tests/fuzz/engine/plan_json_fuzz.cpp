// plan_from_json on any bytes: a Result, never a crash; what parses prints and parses to itself.
#include <cstddef>
#include <cstdint>
#include <string>

#include "engine/schedule/step_plan.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto plan = slipstream::plan_from_json(std::string(reinterpret_cast<const char*>(data), size));
  if (!plan.ok()) return 0;
  const std::string line = slipstream::to_json(*plan);
  const auto again = slipstream::plan_from_json(line);
  if (!again.ok() || slipstream::to_json(*again) != line) __builtin_trap();
  return 0;
}
