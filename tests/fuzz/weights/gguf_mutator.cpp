// Mutations of GGUF files. Fields are mostly 64-bit counts, so words are overwritten with the values at which checks turn,
// besides libFuzzer's own mutations.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>

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
