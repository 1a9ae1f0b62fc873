// Tiny models as in-memory checkpoints: a config.json (from tests/fixtures/golden) and weights from the dummy law, in
// both containers. The GGUF form permutes q and k of the llama architecture as llama.cpp's converter does.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/model/memory_checkpoint.h"

namespace slipstream::test {

struct GoldenPrompt {
  std::vector<int32_t> ids;
  std::vector<int32_t> positions;
  std::vector<std::vector<double>> logits;  // [positions.size()][vocab]
};

struct Golden {
  std::string name;
  nlohmann::json config;
  uint64_t seed = 0;
  double float32_error = 0;  // transformers' own float32 result against its float64 one
  std::vector<GoldenPrompt> prompts;
};

/// tests/fixtures/golden/tiny-<name>.json; fails the test when it is absent.
Golden read_golden(const std::string& name);
/// Every tiny model that scripts/make_golden writes.
std::vector<std::string> golden_names();

/// Those of them whose matrices are FP8, in the two spellings of config.json; they stand as safetensors only.
std::vector<std::string> golden_f8_names();

/// The model as Hugging Face stores it. Matrices are rounded to `dtype`, but for those that the config says are
/// FP8; vectors stay F32.
MemoryCheckpoint tiny_safetensors(const Golden& golden, DType dtype = DType::kF32);
/// The same model as GGUF: names, metadata, permuted q and k for llama, rope_freqs for Llama 3 scaling.
MemoryCheckpoint tiny_gguf(const Golden& golden, DType dtype = DType::kF32);

}  // namespace slipstream::test
