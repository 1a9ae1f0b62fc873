// Recognises drafters that are not DFlash, by the names they give themselves, their config keys and their tensors, so that
// each is refused by name: dropping what is not understood would leave a drafter that looks well and drafts badly. Knows
// names only.
#pragma once

#include <functional>
#include <optional>
#include <string_view>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"

namespace slipstream {

/// kUnsupported when `name` (of an architecture, a model type or a projector, found as `where`) is another family's.
std::optional<Error> foreign_family_name(std::string_view where, std::string_view name);
/// The same for config keys that only another family has; `is_on` says whether a key is there and not switched off.
std::optional<Error> foreign_family_key(std::string_view where, const std::function<bool(const char* key)>& is_on);
/// The same for the first tensor that no DFlash drafter has.
Status refuse_foreign_tensors(const Checkpoint& checkpoint);

/// kUnsupported for a model that is no drafter at all.
Error not_a_drafter(std::string_view where, std::string_view name);

}  // namespace slipstream
