// config.json and generation_config.json from anywhere: a config within its bounds, or an error of one line.
#include <cstdlib>

#include "engine/base/log.h"
#include "tests/fuzz/model/check_config.h"
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
  check_config(read_model_config(checkpoint));
  check_drafter(read_drafter_config(checkpoint));
  const auto defaults = read_generation_defaults(checkpoint);
  if (defaults.ok() && !(defaults->top_p <= 1)) std::abort();
  return 0;
}
