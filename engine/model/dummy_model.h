// The tensors of a model's full shape, and a checkpoint of them without trained values (--load-format dummy). Knows
// names and shapes; the law of the values is engine/weights/dummy_weights.h.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/model/model_config.h"
#include "engine/weights/dummy_weights.h"

namespace slipstream {

/// Every tensor of the config's model under its Hugging Face name: matrices as `matrices`, vectors as
/// config.weights_dtype. Under an FP8 scheme the matrices of the layers are F8_E4M3 with their scales (BF16 where a block has
/// one, as Qwen stores them, otherwise F32).
std::vector<DummyTensor> decoder_tensors(const ModelConfig& config, DType matrices);
/// The same, all else as config.weights_dtype.
std::vector<DummyTensor> decoder_tensors(const ModelConfig& config);

/// --dummy-format: sets the format of matrices, and in the config whether those of the layers are FP8 (128 x 128 blocks, as
/// Qwen stores them). "auto" leaves both to the config, otherwise the format's name in lower case, or fp8.
/// kInvalidArgument with the list for another word.
Status choose_dummy_format(const std::string& name, ModelConfig* config, std::optional<DType>* matrices);

/// A folder that holds config.json and no weights as a checkpoint without tensors, for load_model with
/// LoadOptions::dummy.
Result<std::unique_ptr<Checkpoint>> open_dummy_model(const std::string& folder);

}  // namespace slipstream
