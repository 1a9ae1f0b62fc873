// Matrices as a backend keeps them. Built once at load by Ops::prepare_weight; immutable afterwards.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/tensor.h"

namespace slipstream {

/// The scales beside the codes of an F8_E4M3 matrix: element (r, c) of a part is its code times at(r, c), one rounding to
/// float. They stand once for each block_rows x block_cols of the whole stored matrix (128 x 128 in DeepSeek's and Qwen's
/// checkpoints; 1 x kWholeSide: one per output channel; kWholeSide on both: one in all), so that a slice that starts
/// inside a block reads the right one.
struct WeightScales {
  static constexpr int64_t kWholeSide = int64_t{1} << 40;

  const std::byte* data = nullptr;  // [row blocks, stride] of dtype, of the whole matrix; null for other formats
  DType dtype = DType::kF32;        // kF32, kBF16 or kF16
  int64_t stride = 1;               // scales of a row of blocks
  int64_t block_rows = 1, block_cols = kWholeSide;
  int64_t first_row = 0, first_col = 0;  // where the part starts in the whole matrix

  float at(int64_t row, int64_t col) const;
};

/// Values made by the dummy law (kernels/dummy_law.h) in place of stored ones, for backends whose
/// Ops::makes_dummy_weights() says so. Scales of F8_E4M3 are stored in any case.
struct DummyValues {
  uint64_t key = 0;     // of the whole tensor
  int64_t fan_in = 0;   // columns of the whole tensor; 0: the part has stored bytes
  int64_t first = 0;    // element of the whole tensor where the part begins; row r begins at first + r * fan_in
};

/// One stored matrix, or a slice of one, as it stands in the mapped file. Borrowed: the mapping must outlive
/// prepare_weight (and, for the reference backend, the Weight).
struct WeightPart {
  std::string name;                 // checkpoint name, for errors and reports
  DType dtype = DType::kF32;
  int64_t rows = 0;                 // output features of this part
  int64_t cols = 0;                 // input features; a multiple of the dtype's block
  const std::byte* data = nullptr;  // first row; row r starts at data + r * row_stride_bytes
  int64_t row_stride_bytes = 0;     // > row_bytes(dtype, cols) when the part is a column slice
  WeightScales scales = {};         // kF8E4M3 only
  DummyValues dummy = {};           // instead of data, which is then null
};

/// Row `row` of the part as floats, its scales applied.  out [part.cols]
void dequantize_part_row(const WeightPart& part, int64_t row, float* out);

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

/// What no backend does with F8_E4M3 parts, in one line that names the tensor; empty when there is nothing to say.
std::string f8_unsupported_reason(const WeightSpec& spec);

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
