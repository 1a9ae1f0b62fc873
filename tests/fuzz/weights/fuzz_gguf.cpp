// read_gguf_header on any bytes. Fields are mostly 64-bit counts, so a custom mutator overwrites aligned words with the
// values at which checks turn, besides libFuzzer's own mutations.
#include <cstring>
#include <random>

#include "engine/weights/gguf_header.h"
#include "tests/fuzz/weights/touch_tensors.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  std::minstd_rand random(seed);
  if (size < 16 || random() % 4 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const uint64_t values[] = {0,          1,          2,         8,    9,  32, 39, 64, 65, 255, 256, 65536, size, size / 8,
                             1ull << 31, 1ull << 32, INT64_MAX, 1ull << 63, UINT64_MAX, UINT64_MAX - 31};
  const uint64_t value = values[random() % (sizeof values / sizeof *values)];
  const size_t width = random() % 2 == 0 ? 8 : 4;
  std::memcpy(data + random() % (size - width), &value, width);
  return size;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::span<const std::byte> file(reinterpret_cast<const std::byte*>(data), size);
  const auto header = slipstream::read_gguf_header(file);
  if (header.ok()) slipstream::touch_tensors(file, header->tensors);
  return 0;
}
