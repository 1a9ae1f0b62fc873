#include "kernels/cpu/packed_weight.h"

#include "kernels/check.h"

namespace slipstream {

PackedWeight::PackedWeight(WeightSpec spec, std::string isa) : Weight(std::move(spec)), isa_(std::move(isa)) {
  int64_t row = 0;
  for (const WeightPart& source : this->spec().parts) {
    PackedPart part;
    part.dtype = source.dtype;
    part.first_row = row;
    part.rows = source.rows;
    part.first_pair = pairs;
    part.tiles = (source.rows + kTileRows - 1) / kTileRows;
    if (is_block_quantised(source.dtype)) {
      const PackedLayout& layout = packed_layout(source.dtype);
      part.tile_bytes = layout.tile_bytes(cols() / kBlock);
      forms |= kActInt8Block32;
      needs_sum16 = needs_sum16 || layout.kind.groups == 2;
      needs_scaled_sum = needs_scaled_sum || layout.kind.has_min;
    } else {
      part.tile_bytes = cols() * kTileRows * dtype_info(source.dtype).block_bytes;
      if (source.dtype == DType::kF8E4M3) {
        part.scale_cols = source.scales.block_cols;
        part.scale_first = source.scales.first_col % part.scale_cols;
        part.scales_offset = part.tile_bytes;
        part.tile_bytes += (part.scale_block(cols() - 1) + 1) * kTileRows * int64_t{sizeof(float)};
      }
      forms |= kActF32;
    }
    row += source.rows;
    pairs += part.pairs();
    parts.push_back(part);
  }
}

int64_t PackedWeight::storage_bytes() const {
  int64_t bytes = 64;  // the widest load may read past the last tile
  for (const PackedPart& part : parts) bytes += part.tiles * part.tile_bytes;
  return bytes;
}

const PackedPart& PackedWeight::part_of_row(int64_t row) const {
  for (const PackedPart& part : parts)
    if (row < part.first_row + part.rows) return part;
  check_failed(__FILE__, __LINE__, "part_of_row", "row is outside of the weight");
}

std::string PackedWeight::description() const {
  std::string text;
  for (const PackedPart& part : parts) {
    const std::string name(dtype_info(part.dtype).name);
    if (text.find(name) == std::string::npos) text += (text.empty() ? "" : "+") + name;
  }
  text += " 8-row interleaved, ";
  text += forms == kActInt8Block32 ? "int8 activations" : forms == kActF32 ? "float activations" : "int8 and float activations";
  return text + ", " + isa_;
}

}  // namespace slipstream
