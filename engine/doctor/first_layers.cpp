// See first_layers.h.
#include "engine/doctor/first_layers.h"

#include <algorithm>
#include <cctype>

namespace slipstream {

int32_t layer_of_tensor(std::string_view name) {
  // "model.layers.12.mlp.…" and "blk.12.ffn_…": the first number between dots
  for (size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.', dot + 1)) {
    size_t end = dot + 1;
    int32_t layer = 0;
    while (end < name.size() && end < dot + 7 && std::isdigit(static_cast<unsigned char>(name[end])) != 0)
      layer = 10 * layer + (name[end++] - '0');
    if (end > dot + 1 && end < name.size() && name[end] == '.') return layer;
  }
  return -1;
}

ModelConfig first_layers(ModelConfig config, int32_t layers) {
  config.layers = std::min(config.layers, layers);
  config.first_window_layer = std::min(config.first_window_layer, config.layers);
  return config;
}

FirstLayers::FirstLayers(Checkpoint& whole, int32_t layers) : whole_(whole) {
  for (const TensorEntry& tensor : whole.tensors())
    if (layer_of_tensor(tensor.name) < layers) tensors_.push_back(tensor);
}

}  // namespace slipstream
