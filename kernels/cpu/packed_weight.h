// A matrix as the CPU backend keeps it: parts packed in tiles of 8 rows (packed_layout.h), in one anonymous mapping.
#pragma once

#include <string>
#include <vector>

#include "kernels/cpu/packed_layout.h"
#include "kernels/ops.h"

namespace slipstream {

/// One format's rows of the stacked output.
struct PackedPart {
  DType dtype = DType::kF32;
  int64_t first_row = 0;   // in the stacked output
  int64_t rows = 0;
  int64_t first_pair = 0;  // pairs of tiles before this part, over all parts
  int64_t tiles = 0;       // ceil(rows / 8); the last one is padded with zero rows
  int64_t tile_bytes = 0;
  // F8_E4M3 only: behind a tile's codes stand its scales, [scale blocks along K, 8 rows] floats.
  int64_t scales_offset = 0;      // in a tile
  int64_t scale_cols = 0;         // elements of K that share a scale
  int64_t scale_first = 0;        // of those, how many lie before the part's first column
  const uint8_t* data = nullptr;

  int64_t pairs() const { return (tiles + 1) / 2; }
  const uint8_t* tile(int64_t index) const { return data + index * tile_bytes; }
  /// The scale block of element k, and the first element of the next one.
  int64_t scale_block(int64_t k) const { return (scale_first + k) / scale_cols; }
  int64_t scale_end(int64_t k) const { return (scale_block(k) + 1) * scale_cols - scale_first; }
};

class PackedWeight : public Weight {
 public:
  PackedWeight(WeightSpec spec, std::string isa);

  std::vector<PackedPart> parts;
  int64_t pairs = 0;             // over all parts
  Buffer storage;
  uint8_t forms = 0;             // activation forms that linear wants
  bool needs_sum16 = false;      // a part has two scales per 32 elements
  bool needs_scaled_sum = false; // a part has minima

  int64_t storage_bytes() const;  // what `storage` must hold
  int64_t resident_bytes() const override { return static_cast<int64_t>(storage.bytes()); }
  std::string description() const override;
  /// Row index (of the stacked output) -> its part.
  const PackedPart& part_of_row(int64_t row) const;

 private:
  std::string isa_;
};

}  // namespace slipstream
