// The two readers behind read_drafter_config. Internal to engine/model.
#pragma once

#include "engine/model/drafter_config.h"

namespace slipstream {

Result<DrafterConfig> read_safetensors_drafter(const Checkpoint& checkpoint);
Result<DrafterConfig> read_gguf_drafter(const Checkpoint& checkpoint);

}  // namespace slipstream
