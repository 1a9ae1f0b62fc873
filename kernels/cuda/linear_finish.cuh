// What becomes of the sums of a product with few rows: stored, multiplied as gate and up, or added to the residual whose norm
// the next product finishes. Owns the last step of linear_float.cuh and linear_f8.cuh; knows no weight
// format.
//
// A norm is one factor for a row, so it may follow the product: the product before writes x = residual * weight and sums of
// squares of groups of columns, the next one multiplies its own sums by 1 / sqrt(mean + eps). No launch stands between them.
#pragma once

#include "kernels/cuda/linear_tile.cuh"

namespace slipstream::cuda {

enum class Finish : uint8_t {
  kStore,   // out = sum + bias
  kSwiglu,  // rows are n / 2 pairs of gate and up: rows 8.. of a 16-row tile are the up rows of its first eight
  kAdd,     // residual += sum + bias; rounded = residual * norm; squares
};

struct LinearFinish {
  Finish kind = Finish::kStore;
  // The factor that the input rows still lack: 1 / sqrt(sum of a row's squares / k + eps); null: none.
  const float* x_squares = nullptr;  // [m, x_groups]
  int32_t x_groups = 0;
  float eps = 0;
  uint16_t* rounded = nullptr;       // kSwiglu: [m, n / 2]; kAdd: [m, n] of residual * norm, with norm
  float* residual = nullptr;         // kAdd: [m, n]
  const float* norm = nullptr;       // kAdd: [n] or null
  float* squares = nullptr;          // kAdd: [m, n / kGroup] of the shape, with norm
};

/// Columns of the residual whose squares are summed together by a block of WR tiles.
constexpr int squares_group(int wr) { return wr == 1 ? 16 : 32; }

template <int NT, int WR, int WK>
struct FinishRows {
  static constexpr int kRows = 16 * WR;  // of a row block
  static constexpr int kCols = 8 * NT;
  static constexpr int kThreads = 32 * WR * WK;
  static constexpr int kGroup = squares_group(WR);

  /// scales[c] = the factor of row first_col + c. After wait_for_inputs; every thread of the block.
  __device__ static void load_scales(const LinearFinish& f, int32_t k, int first_col, int cols, float* scales) {
    const int lane = threadIdx.x % 32;
    for (int c = threadIdx.x / 32; c < cols; c += kThreads / 32) {
      float sum = 0;
      if (f.x_squares != nullptr)
        for (int g = lane; g < f.x_groups; g += 32) sum += f.x_squares[int64_t{first_col + c} * f.x_groups + g];
      for (int o = 16; o > 0; o /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, o);
      if (lane == 0) scales[c] = f.x_squares == nullptr ? 1.0f : 1.0f / sqrtf(sum / static_cast<float>(k) + f.eps);
    }
    __syncthreads();
  }

  /// value(row of the block, column of the block): the whole sum. A thread stays with one row; loads of several columns are in
  /// flight together.
  template <class Value>
  __device__ static void emit(const LinearFinish& f, const LinearOutput& o, int row_block, int first_col, int cols,
                              const float* scales, Value&& value) {
    if (f.kind == Finish::kSwiglu) emit_pairs(f, o, row_block, first_col, cols, scales, value);
    else emit_rows(f, o, row_block, first_col, cols, scales, value);
  }

  /// The sum over the WK warps, and the splits, that share K; then emit. `sums` has sum_bytes<NT, WR, WK>(). With WK 1
  /// the finish of a launch that is not split is a store. Every thread of the block calls it; `sums` may be in use by the call
  /// before.
  __device__ static void run(const float (&acc)[NT][4], float* sums, int wr, int wk, int row_block, int row_blocks, int first_col,
                             const LinearFinish& f, const LinearOutput& o, const float* scales) {
    const int lane = threadIdx.x % 32;
    const int cols = min(kCols, o.m - first_col);
    const int64_t split_size = int64_t{o.m} * o.n;
    const auto partial = [&](int split, int row, int col) {
      return o.partials + split * split_size + int64_t{first_col + col} * o.n + row_block * kRows + row;
    };
    if constexpr (WK == 1) {
#pragma unroll
      for (int nt = 0; nt < NT; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = wr * 16 + lane / 4 + 8 * (i / 2), col = nt * 8 + lane % 4 * 2 + i % 2, n = row_block * kRows + row;
          if (n >= o.n || col >= cols) continue;
          if (o.splits > 1) *partial(blockIdx.y, row, col) = acc[nt][i];
          else o.out[(first_col + col) * o.out_stride + n] = acc[nt][i] * scales[col] + (o.bias == nullptr ? 0.0f : o.bias[n]);
        }
      if (o.splits == 1) return;
    } else {
      __syncthreads();
      float* mine = sums + wk * kCols * kRows + wr * 16 + lane / 4;
#pragma unroll
      for (int nt = 0; nt < NT; ++nt)
#pragma unroll
        for (int i = 0; i < 4; ++i) mine[(nt * 8 + lane % 4 * 2 + i % 2) * kRows + 8 * (i / 2)] = acc[nt][i];
      __syncthreads();
      const auto sum_of = [&](int row, int col) {
        const float* from = sums + col * kRows + row;
        float sum = *from;
#pragma unroll
        for (int k = 1; k < WK; ++k) sum += from[k * kCols * kRows];
        return sum;
      };
      if (o.splits == 1) return emit(f, o, row_block, first_col, cols, scales, sum_of);
      for (int i = threadIdx.x; i < cols * kRows; i += kThreads)
        if (row_block * kRows + i % kRows < o.n) *partial(blockIdx.y, i % kRows, i / kRows) = sum_of(i % kRows, i / kRows);
    }
    // The last block to arrive adds the splits in order, so that the result does not depend on the arrival.
    if (!last_to_arrive(o, row_block, row_blocks)) return;
    emit(f, o, row_block, first_col, cols, scales, [&](int row, int col) {
      float part[kMaxSplits];
#pragma unroll
      for (int s = 0; s < kMaxSplits; ++s) part[s] = s < o.splits ? __ldcg(partial(s, row, col)) : 0.0f;
      float sum = part[0];
#pragma unroll
      for (int s = 1; s < kMaxSplits; ++s) sum += part[s];
      return sum;
    });
  }

 private:
  template <class Value>
  __device__ static void emit_pairs(const LinearFinish& f, const LinearOutput& o, int row_block, int first_col, int cols,
                                    const float* scales, Value&& value) {
    constexpr int kStep = 4 * WK, kBatch = batch(kStep, 4);  // columns of a round
    const int pair = threadIdx.x % (kRows / 2), row = pair / 8 * 16 + pair % 8;
    const int outs = o.n / 2, to = row_block * (kRows / 2) + pair;
    if (to >= outs) return;
    const float gate_bias = o.bias == nullptr ? 0.0f : o.bias[to], up_bias = o.bias == nullptr ? 0.0f : o.bias[outs + to];
    for (int col0 = threadIdx.x / (kRows / 2); col0 < cols; col0 += kBatch * kStep) {
      float gate[kBatch], up[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int col = col0 + j * kStep;
        if (col < cols) gate[j] = value(row, col), up[j] = value(row + 8, col);
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int col = col0 + j * kStep;
        if (col >= cols) break;
        const float g = gate[j] * scales[col] + gate_bias, u = up[j] * scales[col] + up_bias;
        f.rounded[int64_t{first_col + col} * outs + to] = bf16_bits(g / (1.0f + expf(-g)) * u);
      }
    }
  }

  template <class Value>
  __device__ static void emit_rows(const LinearFinish& f, const LinearOutput& o, int row_block, int first_col, int cols,
                                   const float* scales, Value&& value) {
    constexpr int kStep = 2 * WK, kBatch = batch(kStep, 8);
    const int row = threadIdx.x % kRows, n = row_block * kRows + row;
    const bool inside = n < o.n;
    const float bias = inside && o.bias != nullptr ? o.bias[n] : 0.0f, norm = inside && f.norm != nullptr ? f.norm[n] : 0.0f;
    // Whole warps go through the loop: lanes exchange squares. With 16 rows a warp has two columns.
    for (int col0 = threadIdx.x / kRows, odd = kRows < 32 ? col0 % 2 : 0; col0 - odd < cols; col0 += kBatch * kStep) {
      float sum[kBatch], before[kBatch];
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int col = col0 + j * kStep;
        const bool mine = inside && col < cols;
        sum[j] = mine ? value(row, col) : 0.0f;
        before[j] = mine && f.kind == Finish::kAdd ? f.residual[int64_t{first_col + col} * o.n + n] : 0.0f;
      }
#pragma unroll
      for (int j = 0; j < kBatch; ++j) {
        const int col = col0 + j * kStep;
        const bool mine = inside && col < cols;
        float squares = 0;
        if (mine) {
          // a store is the bare sum, whatever the shape: a deterministic context wants equal bits, of zeros too
          const float product = sum[j] * scales[col] + bias, whole = f.kind == Finish::kStore ? product : before[j] + product;
          const int64_t at = int64_t{first_col + col} * o.n + n;
          if (f.kind == Finish::kStore) o.out[(first_col + col) * o.out_stride + n] = whole;
          else f.residual[at] = whole;
          if (f.norm != nullptr) f.rounded[at] = bf16_bits(whole * norm);
          squares = whole * whole;
        }
        if (f.norm == nullptr) continue;
#pragma unroll
        for (int lanes = kGroup / 2; lanes > 0; lanes /= 2) squares += __shfl_xor_sync(0xffffffffu, squares, lanes);
        if (mine && row % kGroup == 0) f.squares[int64_t{first_col + col} * (o.n / kGroup) + n / kGroup] = squares;
      }
    }
  }

  /// Rounds of `step` columns whose loads are in flight together.
  __host__ __device__ static constexpr int batch(int step, int most) { return kCols / step >= most ? most : kCols > step ? kCols / step : 1; }

  __device__ static uint16_t bf16_bits(float v) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(v);
    return *reinterpret_cast<const uint16_t*>(&rounded);
  }
  __device__ static bool last_to_arrive(const LinearOutput& o, int row_block, int row_blocks) {
    __shared__ bool last;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) {
      int32_t* counter = o.counters + blockIdx.z * row_blocks + row_block;
      last = atomicAdd(counter, 1) == o.splits - 1;
      if (last) *counter = 0;
    }
    __syncthreads();
    if (!last) return false;
    __threadfence();
    return true;
  }
};

}  // namespace slipstream::cuda
