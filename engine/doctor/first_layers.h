// A model cut to its first layers: a view of a checkpoint without the tensors of the others. Knows tensor names; no data.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

/// The layer that a tensor's name says, in both containers; -1 for none.
int32_t layer_of_tensor(std::string_view name);

/// The config of the first `layers` layers.
ModelConfig first_layers(ModelConfig config, int32_t layers);

/// `whole` is borrowed.
class FirstLayers final : public Checkpoint {
 public:
  FirstLayers(Checkpoint& whole, int32_t layers);

  CheckpointKind kind() const override { return whole_.kind(); }
  const std::string& path() const override { return whole_.path(); }
  const std::vector<TensorEntry>& tensors() const override { return tensors_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return whole_.metadata(); }
  Result<std::string> read_side_file(std::string_view name, uint64_t max_bytes) const override {
    return whole_.read_side_file(name, max_bytes);
  }
  void release(const TensorEntry& tensor) override { whole_.release(tensor); }
  Status check_unchanged() const override { return whole_.check_unchanged(); }

 private:
  Checkpoint& whole_;
  std::vector<TensorEntry> tensors_;
};

}  // namespace slipstream
