// read_gguf_header on any bytes.
#include "engine/weights/gguf_header.h"
#include "tests/fuzz/weights/touch_tensors.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = slipstream::read_gguf_header(file);
  if (header.ok()) slipstream::touch_tensors(file, header->tensors);
  return 0;
}
