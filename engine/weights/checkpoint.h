// One read-only view over a folder of safetensors (with index) or a GGUF file (with splits): tensor name -> dtype,
// shape, bytes, memory-mapped and bounds-checked. Owns the mappings; knows formats, but no architecture.
//
// Thread-safe after opening, except release().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "engine/base/result.h"
#include "kernels/tensor.h"

namespace slipstream {

/// A tensor inside a mapping. shape is in row-major order (GGUF dimensions are reversed on reading), so a matrix is
/// [out features, in features] in both containers. No alignment is promised: read through memcpy or dequantize_row.
struct TensorEntry {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<int64_t> shape;
  const std::byte* data = nullptr;
  uint64_t bytes = 0;
  /// Not empty: the name of a valid safetensors dtype that no kernel reads ("F8_E5M2"); dtype then means nothing.
  /// Such a tensor is listed, so that one that nobody needs does no harm; Checkpoint::require refuses it.
  std::string_view unserved = {};
};

/// A GGUF metadata value. Arrays hold one element type; nested arrays are refused on reading.
using MetaValue = std::variant<bool, int64_t, uint64_t, double, std::string, std::vector<int64_t>,
                               std::vector<double>, std::vector<std::string>>;

enum class CheckpointKind { kSafetensors, kGguf };

class Checkpoint {
 public:
  virtual ~Checkpoint() = default;

  /// `path`: a folder with config.json and *.safetensors, or a .gguf file (the first of its splits). Errors name
  /// file, key and reason.
  static Result<std::unique_ptr<Checkpoint>> open(const std::string& path);

  virtual CheckpointKind kind() const = 0;
  virtual const std::string& path() const = 0;
  /// Sorted by name.
  virtual const std::vector<TensorEntry>& tensors() const = 0;
  const TensorEntry* find(std::string_view name) const;
  /// The tensor that a consumer needs: kNotFound names what is missing, kUnsupported the dtype that is not served.
  Result<const TensorEntry*> require(std::string_view name) const;
  uint64_t total_bytes() const;

  /// GGUF metadata; empty for safetensors.
  virtual const std::map<std::string, MetaValue, std::less<>>& metadata() const = 0;
  /// A file beside the weights (config.json, tokenizer.json, …), whole, at most `max_bytes`. kNotFound when absent.
  /// Symlinks that leave the model folder are refused, except inside a hub cache's own blobs folder.
  virtual Result<std::string> read_side_file(std::string_view name, uint64_t max_bytes) const = 0;

  /// Tells the kernel that the pages of this tensor are no longer needed (they were repacked). The bytes stay readable.
  virtual void release(const TensorEntry& tensor) = 0;
  /// kCorrupt when a mapped file no longer has the size it had on opening. A file that shrinks under its mapping stops
  /// the process with SIGBUS when the lost part is read, and no check can prevent that: model files are replaced by
  /// rename, never overwritten. Called after loading, so that a file that grew or was rewritten is noticed.
  virtual Status check_unchanged() const { return Ok{}; }
};

/// A path, a .gguf, or a hub id ("org/name") found in the local hub cache (HF_HUB_CACHE, HF_HOME, ~/.cache/huggingface).
/// Otherwise kNotFound with the command that downloads it. Nothing is fetched.
Result<std::string> resolve_model_path(const std::string& model);

}  // namespace slipstream
