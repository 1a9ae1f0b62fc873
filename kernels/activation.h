// What norms and activation functions produce and linear consumes. One rank's step memory.
#pragma once

#include <cstdint>

namespace slipstream {

/// Which forms an activation is kept in; a bit set, since merged weights may mix formats.
enum ActivationForm : uint8_t {
  kActF32 = 1,         // [rows, cols] float
  kActInt8Block32 = 2, // per 32 elements: 32 int8, one float scale = amax/127, one int32 sum of the int8 values
  kActBF16 = 4,        // [rows, cols] bfloat16, rounded to nearest even (cuda)
};

/// Borrowed storage, allocated once by Ops::make_activation for max_rows. Row r of each array is contiguous.
struct Activation {
  int32_t max_rows = 0;
  int32_t rows = 0;        // set by the op that fills it
  int64_t cols = 0;
  uint8_t forms = kActF32;
  float* f32 = nullptr;    // [max_rows, cols] or null
  int8_t* q = nullptr;     // [max_rows, cols] or null
  float* scale = nullptr;  // [max_rows, cols / 32] or null
  int32_t* sum = nullptr;  // [max_rows, cols / 32] or null
  uint16_t* bf16 = nullptr;  // [max_rows, cols] or null
};

}  // namespace slipstream
