// FP8 (E4M3) matrices of safetensors checkpoints: what the config says of them, and which scale belongs to which element.
// Knows shapes and names; no JSON and no backend.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "engine/weights/checkpoint.h"
#include "kernels/weight.h"

namespace slipstream {

/// How the scales of a checkpoint's FP8 matrices are stored. Which matrices are FP8 is told by each tensor's own dtype.
struct Fp8Scheme {
  enum class Scales : uint8_t {
    kNone,     // the config speaks of no FP8 matrix
    kTensor,   // one of the whole matrix: [], [1] or [1, 1]
    kChannel,  // one of each output row: [rows] or [rows, 1]
    kBlock,    // [ceil(rows / block_rows), ceil(cols / block_cols)]
  };
  Scales scales = Scales::kNone;
  int64_t block_rows = 0, block_cols = 0;  // kBlock
  std::string_view suffix = {};            // "weight_scale_inv" or "weight_scale", beside "weight"
  bool cache = false;                      // the checkpoint brings the scales of an FP8 K/V cache

  /// The shape that is written for a [rows, cols] matrix; the shorter ones above are read too.
  std::vector<int64_t> scale_shape(int64_t rows, int64_t cols) const;
};

/// "model.layers.0.mlp.up_proj.weight" -> "model.layers.0.mlp.up_proj.<suffix>".
std::string sibling_name(std::string_view weight_name, std::string_view suffix);

/// The scales of the matrix `codes` [rows, cols], whole; slices set first_row and first_col. Errors name the tensor, what
/// was found and what is wanted.
Result<WeightScales> weight_scales(const Fp8Scheme& scheme, const TensorEntry& codes, const TensorEntry& scales);

/// "[32, 1]"
std::string shape_text(const std::vector<int64_t>& shape);

}  // namespace slipstream
