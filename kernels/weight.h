// Matrices as a backend keeps them. Built once at load by Ops::prepare_weight; immutable afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.h"

namespace slipstream {

/// One stored matrix, or a slice of one, as it stands in the mapped file. Borrowed: the mapping must outlive
/// prepare_weight (and, for the reference backend, the Weight).
struct WeightPart {
  std::string name;                 // checkpoint name, for errors and reports
  DType dtype = DType::kF32;
  int64_t rows = 0;                 // output features of this part
  int64_t cols = 0;                 // input features; a multiple of the dtype's block
  const std::byte* data = nullptr;  // first row; row r starts at data + r * row_stride_bytes
  int64_t row_stride_bytes = 0;     // > row_bytes(dtype, cols) when the part is a column slice
};

enum class WeightRole : uint8_t {
  kLinear,         // column-parallel or replicated: each rank owns whole rows
  kRowLinear,      // row-parallel: input features are split in virtual shards (engine/README.md, exactness)
  kEmbedding,      // looked up by row only
  kEmbeddingHead,  // tied: looked up by row, and used as the output head
};

/// Parts are stacked along the output dimension (q|k|v, gate|up) so that one pass computes all of them;
/// their formats may differ.
struct WeightSpec {
  WeightRole role = WeightRole::kLinear;
  std::vector<WeightPart> parts;  // equal cols
  int32_t virtual_shards = 1;     // S of the whole matrix; only for kRowLinear
  int32_t first_shard = 0;        // this rank holds shards [first_shard, first_shard + local_shards)
  int32_t local_shards = 1;
};

/// A prepared matrix. Backends derive from it; only the backend that made it may use it.
class Weight {
 public:
  explicit Weight(WeightSpec spec);
  virtual ~Weight() = default;
  Weight(const Weight&) = delete;
  Weight& operator=(const Weight&) = delete;

  int64_t rows() const { return rows_; }  // sum over the parts
  int64_t cols() const { return cols_; }
  const WeightSpec& spec() const { return spec_; }
  /// Bytes that this weight keeps in memory beside the mapped file (0 for the reference backend).
  virtual int64_t resident_bytes() const = 0;
  /// "Q4_1 8-row interleaved, int8 activations, avx2": for the load report and /v1/info.
  virtual std::string description() const = 0;

 private:
  WeightSpec spec_;
  int64_t rows_ = 0;
  int64_t cols_ = 0;
};

}  // namespace slipstream
