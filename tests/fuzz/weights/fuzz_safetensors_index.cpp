// read_safetensors_index on any bytes.
#include <string_view>

#include "engine/weights/safetensors_index.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  (void)slipstream::read_safetensors_index({reinterpret_cast<const char*>(data), size}).ok();
  return 0;
}
