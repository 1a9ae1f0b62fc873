// read_safetensors_header on any bytes: half of the inputs as they are, half as JSON to which a fitting length is put
// in front, so that the fuzzer need not learn that field first.
#include <cstring>
#include <string>

#include "engine/weights/safetensors_header.h"
#include "tests/fuzz/weights/touch_tensors.h"

namespace {

void read(std::span<const std::byte> file) {
  const auto tensors = slipstream::read_safetensors_header(file);
  if (tensors.ok()) slipstream::touch_tensors(file, *tensors);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || data[0] != '{') {
    read({reinterpret_cast<const std::byte*>(data), size});
    return 0;
  }
  // The header ends at the last brace; what follows is data.
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const uint64_t header = text.rfind('}') == std::string_view::npos ? size : text.rfind('}') + 1;
  std::string file(8, '\0');
  std::memcpy(file.data(), &header, 8);
  file += text;
  read({reinterpret_cast<const std::byte*>(file.data()), file.size()});
  return 0;
}
