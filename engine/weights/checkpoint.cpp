// Which container a path is, and what all checkpoints can do.
#include "engine/weights/checkpoint.h"

#include <algorithm>

#include <sys/stat.h>

#include "engine/weights/gguf.h"
#include "engine/weights/model_folder.h"
#include "engine/weights/safetensors.h"

namespace slipstream {
namespace {

bool ends_with(std::string_view text, std::string_view suffix) {
  return text.size() >= suffix.size() && text.substr(text.size() - suffix.size()) == suffix;
}

/// A folder without safetensors: the one GGUF model in it, or what is wrong.
Result<std::unique_ptr<Checkpoint>> open_only_gguf(const ModelFolder& folder) {
  std::vector<std::string> models;
  for (std::string& name : folder.names_ending_with(".gguf")) {
    const size_t of = name.rfind("-of-");
    const bool later_split = of != std::string::npos && of >= 6 && name[of - 6] == '-' &&
                             name.substr(of - 5, 5) != "00001" && name.size() == of + 14;
    if (!later_split) models.push_back(std::move(name));
  }
  if (models.size() == 1) return open_gguf(folder.path() + "/" + models[0]);
  if (models.size() > 1) {
    std::string list;
    for (size_t i = 0; i < models.size() && i < 8; ++i) list += (i == 0 ? "" : ", ") + models[i];
    return invalid_argument("'" + folder.path() + "' holds " + std::to_string(models.size()) +
                            " GGUF models; pass the path of one: " + list + (models.size() > 8 ? ", ..." : ""));
  }
  const bool pickled = folder.contains("pytorch_model.bin") || folder.contains("pytorch_model.bin.index.json");
  return not_found("'" + folder.path() + "' holds neither " + std::string(kSafetensorsFile) + " nor " +
                   std::string(kSafetensorsIndex) + " nor a .gguf file" +
                   (pickled ? "; pickled pytorch_model.bin weights are not read, convert them to safetensors" : ""));
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> Checkpoint::open(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) return file_error("open", path, errno);
  if (!S_ISDIR(status.st_mode)) {
    if (ends_with(path, ".safetensors")) {
      return invalid_argument("'" + path + "' is one file of a safetensors model; pass its folder");
    }
    return open_gguf(path);
  }
  SLIP_TRY(ModelFolder folder, ModelFolder::open(path));
  if (folder.contains(kSafetensorsFile) || folder.contains(kSafetensorsIndex)) {
    return open_safetensors(std::move(folder));
  }
  return open_only_gguf(folder);
}

const TensorEntry* Checkpoint::find(std::string_view name) const {
  const auto& all = tensors();
  const auto at = std::lower_bound(all.begin(), all.end(), name,
                                   [](const TensorEntry& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != all.end() && at->name == name ? &*at : nullptr;
}

Result<const TensorEntry*> Checkpoint::require(std::string_view name) const {
  const TensorEntry* tensor = find(name);
  if (tensor == nullptr) return not_found("'" + path() + "': tensor " + quote_name(name) + " is missing");
  if (!tensor->unserved.empty()) {
    return unsupported("'" + path() + "': tensor " + quote_name(name) + " has dtype " + std::string(tensor->unserved) +
                       ", which is recognised but not served; use a checkpoint in BF16, F16 or F32, or a GGUF");
  }
  return tensor;
}

uint64_t Checkpoint::total_bytes() const {
  uint64_t total = 0;
  for (const TensorEntry& tensor : tensors()) total += tensor.bytes;  // each lies in a file: no overflow
  return total;
}

}  // namespace slipstream
