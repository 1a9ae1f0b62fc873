// Block-quantised products in plain C++: any processor, and the readable form of the law.
#include <cmath>
#include <cstring>

#include "kernels/cpu/pack.h"
#include "kernels/cpu/quant_kernels.h"

namespace slipstream {
namespace {

void unpack(DType dtype, const uint8_t* a, const uint8_t* b, int64_t first, int32_t count, QuantPanel* panel) {
  const PackedLayout& layout = packed_layout(dtype);
  const int groups = layout.kind.groups;
  const uint8_t* tiles[2] = {a, b};
  for (int32_t block = 0; block < count; ++block)
    for (int t = 0; t < 2; ++t) {
      PlainBlock plain;
      unpack_plain(layout, tiles[t], first + block, &plain);
      for (int q = 0; q < 8; ++q) std::memcpy(&panel->code[block][q][32 * t], plain.code[q], 32);
      for (int g = 0; g < groups; ++g) {
        std::memcpy(&panel->scale[block * groups + g][kTileRows * t], plain.scale[g], sizeof plain.scale[g]);
        std::memcpy(&panel->min[block * groups + g][kTileRows * t], plain.min[g], sizeof plain.min[g]);
      }
    }
}

/// Exact: at most 32 * 128 * 127.
int32_t group_dot(const QuantClass& kind, const uint8_t (*code)[kPanelRows * 4], int q0, int q1, int row,
                  const int8_t* x) {
  int32_t dot = 0;
  for (int q = q0; q < q1; ++q)
    for (int i = 0; i < 4; ++i) {
      const uint8_t c = code[q][4 * row + i];
      dot += (kind.is_signed ? static_cast<int8_t>(c) : c) * x[4 * q + i];
    }
  return dot;
}

void multiply(const QuantClass& kind, const QuantPanel& panel, int32_t begin, int32_t end, int64_t first,
              const QuantRows& x, int64_t row0, int32_t rows, float (*acc)[kPanelRows]) {
  const int groups = kind.groups;
  const int64_t blocks = x.cols / kBlock;
  for (int32_t m = 0; m < rows; ++m)
    for (int32_t block = begin; block < end; ++block) {
      const int64_t b = (row0 + m) * blocks + first + block;
      for (int g = 0; g < groups; ++g) {
        const float* scale = panel.scale[block * groups + g];
        const float* min = panel.min[block * groups + g];
        for (int row = 0; row < kPanelRows; ++row) {
          int32_t dot = group_dot(kind, panel.code[block], g * 8 / groups, (g + 1) * 8 / groups, row, x.q + b * kBlock);
          if (kind.zero_shift >= 0) dot -= x.sum[b * groups + g] * (1 << kind.zero_shift);
          acc[m][row] = std::fma(static_cast<float>(dot), scale[row] * x.scale[b], acc[m][row]);
          if (kind.has_min) acc[m][row] = std::fma(min[row], x.scaled_sum[b * groups + g], acc[m][row]);
        }
      }
    }
}

}  // namespace

const QuantKernels& quant_kernels_scalar() {
  static constexpr QuantKernels table = {"scalar", unpack, multiply, nullptr, 0};
  return table;
}

}  // namespace slipstream
