#include "engine/weights/mapped_checkpoint.h"

#include <algorithm>

namespace slipstream {

Error in_file(const std::string& path, Error error) {
  error.message = "'" + path + "': " + error.message;
  return error;
}

Result<std::unique_ptr<Checkpoint>> MappedCheckpoint::build(ModelFolder folder, Contents contents) {
  auto& tensors = contents.tensors;
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  for (size_t i = 1; i < tensors.size(); ++i) {
    if (tensors[i].name == tensors[i - 1].name) {
      return corrupt("'" + contents.path + "': tensor " + quote_name(tensors[i].name) + " occurs in two of its files");
    }
  }
  for (const auto& file : contents.files) SLIP_RETURN_IF_ERROR(file->check_size());
  for (const auto& file : contents.files) file->prefetch();
  return std::unique_ptr<Checkpoint>(new MappedCheckpoint(std::move(folder), std::move(contents)));
}

void MappedCheckpoint::release(const TensorEntry& tensor) {
  if (tensor.bytes == 0) return;
  for (const auto& file : contents_.files) {
    const auto bytes = file->bytes();
    // Compared as integers: the pointers may belong to different mappings.
    const auto first = reinterpret_cast<uintptr_t>(tensor.data);
    const auto begin = reinterpret_cast<uintptr_t>(bytes.data());
    if (first >= begin && first + tensor.bytes <= begin + bytes.size()) {
      file->drop_pages(tensor.data, tensor.bytes);
      return;
    }
  }
}

Status MappedCheckpoint::check_unchanged() const {
  for (const auto& file : contents_.files) SLIP_RETURN_IF_ERROR(file->check_size());
  return Ok{};
}

}  // namespace slipstream
