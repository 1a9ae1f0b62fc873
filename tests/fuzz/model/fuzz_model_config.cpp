// config.json and generation_config.json from anywhere: a config within its bounds, or an error of one line.
#include <cstdlib>

#include "engine/base/log.h"
#include "engine/model/dummy_model.h"
#include "engine/model/model_config.h"
#include "engine/model/rope.h"
#include "tests/model/memory_checkpoint.h"

using namespace slipstream;

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  log::init("error", "text");
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  test::MemoryCheckpoint checkpoint(CheckpointKind::kSafetensors);
  checkpoint.set_file("config.json", text);
  checkpoint.set_file("generation_config.json", text);
  const auto config = read_model_config(checkpoint);
  if (config.ok()) {
    if (config->layers < 1 || config->heads % config->kv_heads != 0 || config->head_dim % 2 != 0) std::abort();
    for (const int32_t id : config->eos_ids)
      if (id < 0 || id >= config->vocab) std::abort();
    for (const float f : rope_inverse_frequencies(*config))
      if (!(f >= 0 && f <= 1e6f)) std::abort();
    if (decoder_tensors(*config).empty()) std::abort();
  } else if (config.error().message.empty() || config.error().message.find('\n') != std::string::npos) {
    std::abort();
  }
  const auto defaults = read_generation_defaults(checkpoint);
  if (defaults.ok() && !(defaults->top_p <= 1)) std::abort();
  return 0;
}
