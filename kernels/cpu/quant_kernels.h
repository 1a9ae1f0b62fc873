// Products of block-quantised weights with int8 activations: two tiles (16 output rows) are unpacked once into a panel
// and multiplied with any number of activation rows. One table per instruction set, all with equal bits:
// per 32-block (or 16-group) the integer dot is exact, then acc = fma(dot, w_scale * x_scale, acc) and, with minima,
// acc = fma(w_min, x_scale * x_sum, acc), blocks in ascending order. Threads and shards are the caller's.
#pragma once

#include <cstdint>

#include "kernels/cpu/packed_layout.h"
#include "kernels/tensor.h"

namespace slipstream {

inline constexpr int kPanelRows = 2 * kTileRows;
inline constexpr int kPanelBlocks = 48;  // 1536 elements: 31 KB, half of an L1 + L2 footprint on small cores

/// Unpacked blocks of two tiles. groups = 1 or 2 as in the weight's class.
struct QuantPanel {
  alignas(64) uint8_t code[kPanelBlocks][8][kPanelRows * 4];  // [block][group q][row * 4 + i]
  alignas(64) float scale[kPanelBlocks * 2][kPanelRows];      // [block * groups + g][row]
  alignas(64) float min[kPanelBlocks * 2][kPanelRows];
};

/// Activations as the products want them; strides in elements of each array.
struct QuantRows {
  const int8_t* q = nullptr;        // [rows, cols]
  const float* scale = nullptr;     // [rows, cols / 32]
  const int32_t* sum = nullptr;     // [rows, cols / 32 * groups]
  const float* scaled_sum = nullptr;  // same shape: scale * sum
  int64_t cols = 0;
  int32_t groups = 1;
};

struct QuantKernels {
  const char* name;
  /// Blocks [first, first + count) of tiles a and b into panel rows 0..7 and 8..15; count <= kPanelBlocks. b may equal a.
  void (*unpack)(DType dtype, const uint8_t* a, const uint8_t* b, int64_t first, int32_t count, QuantPanel* panel);
  /// acc[m][row] continues its chain over panel blocks [begin, end), which are the weight's blocks
  /// [first + begin, first + end), for activation rows [row0, row0 + rows).
  void (*multiply)(const QuantClass& kind, const QuantPanel& panel, int32_t begin, int32_t end, int64_t first,
                   const QuantRows& x, int64_t row0, int32_t rows, float (*acc)[kPanelRows]);
  /// Few activation rows, no panel: acc[m][0..8) over blocks [begin, end) of one tile. Null: always use the panel.
  void (*multiply_few)(DType dtype, const uint8_t* tile, int64_t begin, int64_t end, const QuantRows& x, int64_t row0,
                       int32_t rows, float (*acc)[kPanelRows]);
  int32_t few_rows;  // up to this many rows multiply_few is the faster way
};

const QuantKernels& quant_kernels_scalar();
const QuantKernels& quant_kernels_avx2();
const QuantKernels& quant_kernels_avx512vnni();

}  // namespace slipstream
