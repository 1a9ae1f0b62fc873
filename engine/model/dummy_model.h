// The tensors of a model's full shape, and a checkpoint of them without trained values (--load-format dummy). Knows
// names and shapes; the law of the values is engine/weights/dummy_weights.h.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/weights/dummy_weights.h"

namespace slipstream {

/// Every tensor of the config's model under its Hugging Face name, stored as config.weights_dtype. Under an FP8 scheme the
/// matrices of the layers are F8_E4M3 with their scales (BF16 where a block has one, as Qwen stores them, otherwise F32).
std::vector<DummyTensor> decoder_tensors(const ModelConfig& config);

/// A checkpoint in memory for a folder that holds config.json and no weights.
Result<std::unique_ptr<Checkpoint>> open_dummy_model(const std::string& folder, uint64_t seed);

}  // namespace slipstream
