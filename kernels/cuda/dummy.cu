// See dummy.h. Loading only.
//
// Plain formats: one thread an element, grid (column blocks, rows), 1, 2 or 4 bytes stored by each. Block formats: one thread
// a word of 8 bytes of a block, grid (words of a row, rows), single bytes stored; the word that holds a scale field makes it from
// the block's last word. 256 threads, no shared memory.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cuda/dummy.h"
#include "kernels/dummy_law.h"

namespace slipstream::cuda {
namespace {

namespace law = dummy_law;

constexpr int kThreads = 256;
constexpr int64_t kMaxGridRows = 65535;

struct PlainParams {
  uint64_t key;
  int64_t first, fan_in;  // element of the tensor where row 0 begins; elements between rows
  int64_t rows, cols;
  float scale;
  void* out;              // [rows, cols]
};

__device__ void store(float* out, float value) { *out = value; }
__device__ void store(__half* out, float value) { *out = __float2half_rn(value); }
__device__ void store(__nv_bfloat16* out, float value) { *out = __float2bfloat16_rn(value); }

__device__ void store(__nv_fp8_e4m3* out, float value) {
  out->__x = __nv_cvt_float_to_fp8(value * law::kF8Factor, __NV_SATFINITE, __NV_E4M3);
}

template <class T>
__global__ void plain_kernel(PlainParams p) {
  const int64_t col = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (col >= p.cols) return;
  for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
    const uint64_t w = law::word(p.key, static_cast<uint64_t>(p.first + row * p.fan_in + col));
    store(static_cast<T*>(p.out) + row * p.cols + col, __fmul_rn(law::centred(w), p.scale));
  }
}

struct BlockParams {
  uint64_t key;
  int64_t first, fan_in;       // in blocks
  int64_t rows, row_blocks;
  int32_t block_bytes, words;  // words: of a block, the scales' included
  int32_t d_at, m_at;          // -1: none
  float base, m_ratio;
  int32_t exponent_width;      // > 0: MXFP4
  uint8_t* out;                // [rows, row_blocks, block_bytes]
};

__device__ void patch_half(uint8_t* bytes, int at, float value) {
  const unsigned short half = __half_as_ushort(__float2half_rn(value));
  bytes[at] = static_cast<uint8_t>(half & 255u);
  bytes[at + 1] = static_cast<uint8_t>(half >> 8);
}

__global__ void block_kernel(BlockParams p) {
  const int data_words = p.words - 1;
  const int64_t index = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (index >= p.row_blocks * data_words) return;
  const int64_t block = index / data_words;
  const int at = 8 * static_cast<int>(index % data_words);
  for (int64_t row = blockIdx.y; row < p.rows; row += gridDim.y) {
    const uint64_t first_word = static_cast<uint64_t>(p.first + row * p.fan_in + block) * static_cast<uint64_t>(p.words);
    const uint64_t w = law::word(p.key, first_word + static_cast<uint64_t>(at / 8));
    uint8_t bytes[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) bytes[i] = static_cast<uint8_t>(w >> (8 * i));
    const bool has_d = p.d_at >= at && p.d_at < at + 8;
    const bool has_m = p.m_at >= at && p.m_at < at + 8;
    const bool has_exponent = p.exponent_width > 0 && at == 0;
    if (has_d || has_m || has_exponent) {
      const uint64_t last = law::word(p.key, first_word + static_cast<uint64_t>(data_words));
      const law::BlockLevels levels = law::block_levels(last, p.base, p.m_ratio);
      // fields are at even bytes, so none is cut by a word's end
      for (int i = 0; i < 8; i += 2) {
        if (p.d_at == at + i) patch_half(bytes, i, levels.d);
        if (p.m_at == at + i) patch_half(bytes, i, levels.m);
      }
      if (has_exponent) bytes[0] = law::block_exponent(last, p.exponent_width);
    }
    uint8_t* out = p.out + (row * p.row_blocks + block) * p.block_bytes + at;
    const int count = min(8, p.block_bytes - at);
#pragma unroll
    for (int i = 0; i < 8; ++i)
      if (i < count) out[i] = bytes[i];
  }
}

dim3 grid_of(int64_t row_threads, int64_t rows) {
  return dim3(static_cast<unsigned>((row_threads + kThreads - 1) / kThreads),
              static_cast<unsigned>(std::min(rows, kMaxGridRows)));
}

}  // namespace

void fill_dummy(Context& context, DType dtype, const DummyValues& values, int64_t first_row, int64_t rows, int64_t cols,
                std::byte* out) {
  const DTypeInfo& info = dtype_info(dtype);
  const int64_t first = values.first + first_row * values.fan_in;
  if (info.block_elements == 1) {
    const PlainParams p{values.key, first, values.fan_in, rows, cols, law::matrix_scale(values.fan_in), out};
    const dim3 grid = grid_of(cols, rows);
    if (dtype == DType::kF32)
      plain_kernel<float><<<grid, kThreads, 0, context.stream()>>>(p);
    else if (dtype == DType::kF16)
      plain_kernel<__half><<<grid, kThreads, 0, context.stream()>>>(p);
    else if (dtype == DType::kBF16)
      plain_kernel<__nv_bfloat16><<<grid, kThreads, 0, context.stream()>>>(p);
    else if (dtype == DType::kF8E4M3)
      plain_kernel<__nv_fp8_e4m3><<<grid, kThreads, 0, context.stream()>>>(p);
    else
      CHECK(false, "no dummy law for this format");
  } else {
    CHECK(first % info.block_elements == 0 && values.fan_in % info.block_elements == 0 && cols % info.block_elements == 0,
          "dummy weights come in whole blocks");
    const law::BlockScales scales = law::block_scales(dtype);
    const bool exponent = dtype == DType::kMXFP4;
    CHECK(exponent || scales.d_at >= 0, "no dummy law for this format");
    BlockParams p{};
    p.key = values.key;
    p.first = first / info.block_elements;
    p.fan_in = values.fan_in / info.block_elements;
    p.rows = rows;
    p.row_blocks = cols / info.block_elements;
    p.block_bytes = info.block_bytes;
    p.words = static_cast<int32_t>(law::block_words(info.block_bytes));
    p.d_at = scales.d_at;
    p.m_at = scales.m_at;
    p.base = exponent ? 0.0f : law::block_base(dtype, values.fan_in);
    p.m_ratio = scales.m_ratio;
    p.exponent_width = exponent ? std::bit_width(static_cast<uint64_t>(values.fan_in)) : 0;
    p.out = reinterpret_cast<uint8_t*>(out);
    block_kernel<<<grid_of(p.row_blocks * (p.words - 1), rows), kThreads, 0, context.stream()>>>(p);
  }
  context.check_launch("dummy weights");
}

}  // namespace slipstream::cuda
