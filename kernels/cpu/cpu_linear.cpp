// Products of the CPU backend: which thread multiplies which tiles, shards and sums. Bits never depend on the split.
#include <algorithm>
#include <cstring>

#include "kernels/check.h"
#include "kernels/cpu/cpu_ops.h"
#include "kernels/cpu/cpu_scratch.h"

namespace slipstream {
namespace {

constexpr int64_t kClaimBytes = 128 * 1024;

/// Copies or adds finished sums of one pair of tiles: `width` of the 16 panel rows are real, from output row `first`.
template <typename Store>
void each_output(const float (*values)[kPanelRows], int32_t rows, int64_t width, const Store& store) {
  for (int32_t m = 0; m < rows; ++m)
    for (int64_t i = 0; i < width; ++i) store(m, i, values[m][i]);
}

}  // namespace

void CpuOps::prepare_sums(const PackedWeight& w, const Activation& x) {
  if (!w.needs_sum16 && !w.needs_scaled_sum) return;
  reserve_scratch(x.rows, x.cols);
  const int64_t blocks = x.cols / kBlock;
  for_rows(x.rows, x.cols, [&](int64_t r, int32_t) {
    for (int64_t b = r * blocks; b < (r + 1) * blocks; ++b) {
      scaled_sum_[b] = x.scale[b] * static_cast<float>(x.sum[b]);
      if (!w.needs_sum16) continue;
      int32_t first = 0;
      for (int i = 0; i < 16; ++i) first += x.q[b * kBlock + i];
      sum16_[2 * b] = first;
      sum16_[2 * b + 1] = x.sum[b] - first;
      for (int g = 0; g < 2; ++g) scaled_sum16_[2 * b + g] = x.scale[b] * static_cast<float>(sum16_[2 * b + g]);
    }
  });
}

void CpuOps::multiply(const PackedWeight& w, const Activation& x, const Epilogue& epilogue) {
  CHECK(x.cols == w.cols(), "activation and weight differ in columns");
  CHECK((x.forms & w.forms) == w.forms, "the activation lacks a form that the weight needs");
  if (x.rows == 0) return;
  prepare_sums(w, x);
  const int64_t row_blocks = (x.rows + kRowBlock - 1) / kRowBlock;
  // Claims of up to 128 KB stream well and hide the claim; small matrices still give each thread eight, for balance.
  const int64_t pair_bytes = 2 * w.parts.front().tile_bytes;
  const int64_t step = std::max<int64_t>(1, std::min(kClaimBytes / pair_bytes, w.pairs * row_blocks / (8 * pool_.threads())));
  const int64_t chunks = (w.pairs + step - 1) / step;
  pool_.parallel_for_worker(chunks * row_blocks, [&](int64_t item, int32_t worker) {
    const int64_t chunk = item / row_blocks;
    const int32_t row0 = static_cast<int32_t>(item % row_blocks) * kRowBlock;
    const int32_t rows = std::min(kRowBlock, x.rows - row0);
    size_t p = 0;
    for (int64_t pair = chunk * step; pair < std::min(w.pairs, (chunk + 1) * step); ++pair) {
      while (p + 1 < w.parts.size() && pair >= w.parts[p + 1].first_pair) ++p;
      multiply_pair(w, w.parts[p], pair - w.parts[p].first_pair, x, row0, rows, epilogue, *scratch_[static_cast<size_t>(worker)]);
    }
  });
}

void CpuOps::multiply_pair(const PackedWeight& w, const PackedPart& part, int64_t pair, const Activation& x,
                           int32_t row0, int32_t rows, const Epilogue& epilogue, WorkerScratch& scratch) {
  const uint8_t* a = part.tile(2 * pair);
  const uint8_t* b = 2 * pair + 1 < part.tiles ? part.tile(2 * pair + 1) : a;
  const int64_t first_row = pair * kPanelRows;
  const int64_t width = std::min<int64_t>(kPanelRows, part.rows - first_row);
  const int64_t stride = w.rows();
  const int64_t column = part.first_row + first_row;
  const bool quantised = is_block_quantised(part.dtype);
  const int32_t shards = w.spec().role == WeightRole::kRowLinear ? w.spec().local_shards : 1;
  const int64_t unit = quantised ? kBlock : 1;                 // elements of a step along K
  const int64_t shard_steps = x.cols / unit / shards;
  const int64_t panel_steps = quantised ? kPanelBlocks : x.cols;
  QuantRows xq;
  const PackedLayout* layout = nullptr;
  if (quantised) {
    layout = &packed_layout(part.dtype);
    const bool two = layout->kind.groups == 2;
    xq = {x.q, x.scale, two ? sum16_ : x.sum, two ? scaled_sum16_ : scaled_sum_, x.cols, layout->kind.groups};
  }
  const bool few = quantised && rows <= kernels_.quant->few_rows;
  std::memset(scratch.acc, 0, static_cast<size_t>(rows) * sizeof scratch.acc[0]);
  int64_t panel_first = 0, panel_end = 0;
  int64_t step = 0;
  for (int32_t shard = 0; shard < shards; ++shard) {
    const int64_t shard_end = (shard + 1) * shard_steps;
    if (few) {
      kernels_.quant->multiply_few(part.dtype, a, step, shard_end, xq, row0, rows, scratch.acc);
      if (b != a)
        kernels_.quant->multiply_few(part.dtype, b, step, shard_end, xq, row0, rows, reinterpret_cast<float (*)[kPanelRows]>(scratch.acc[0] + kTileRows));
      step = shard_end;
    }
    while (step < shard_end) {
      if (step == panel_end) {
        panel_first = step;
        panel_end = std::min(step + panel_steps, x.cols / unit);
        if (quantised)
          kernels_.quant->unpack(part.dtype, a, b, step, static_cast<int32_t>(panel_end - step), &scratch.panel);
      }
      int64_t end = std::min(shard_end, panel_end);
      if (quantised)
        kernels_.quant->multiply(layout->kind, scratch.panel, static_cast<int32_t>(step - panel_first),
                                 static_cast<int32_t>(end - panel_first), panel_first, xq, row0, rows, scratch.acc);
      else if (part.dtype == DType::kF8E4M3) {
        end = std::min(end, part.scale_end(step));
        const int64_t at = part.scales_offset + part.scale_block(step) * kTileRows * int64_t{sizeof(float)};
        float scales[kPanelRows];
        std::memcpy(scales, a + at, kTileRows * sizeof(float));
        std::memcpy(scales + kTileRows, b + at, kTileRows * sizeof(float));
        kernels_.floats->multiply_f8(a, b, scales, step, end, x.f32 + row0 * x.cols, x.cols, rows, scratch.acc);
      } else
        kernels_.floats->multiply(part.dtype, a, b, step, end, x.f32 + row0 * x.cols, x.cols, rows, scratch.acc);
      step = end;
    }
    if (epilogue.partials != nullptr) {
      float* out = epilogue.partials + (int64_t{shard} * x.rows + row0) * stride + column;
      each_output(scratch.acc, rows, width, [&](int32_t m, int64_t i, float v) { out[m * stride + i] = v; });
    } else if (shard == 0) {
      std::memcpy(scratch.total, scratch.acc, static_cast<size_t>(rows) * sizeof scratch.acc[0]);
    } else {
      for (int32_t m = 0; m < rows; ++m)
        for (int i = 0; i < kPanelRows; ++i) scratch.total[m][i] += scratch.acc[m][i];
    }
    if (shard + 1 < shards) std::memset(scratch.acc, 0, static_cast<size_t>(rows) * sizeof scratch.acc[0]);
  }
  if (epilogue.partials != nullptr) return;
  if (epilogue.bias != nullptr)
    for (int32_t m = 0; m < rows; ++m)
      for (int64_t i = 0; i < width; ++i) scratch.total[m][i] += epilogue.bias[column + i];
  float* out = epilogue.out + row0 * stride + column;
  if (epilogue.add)
    each_output(scratch.total, rows, width, [&](int32_t m, int64_t i, float v) { out[m * stride + i] += v; });
  else
    each_output(scratch.total, rows, width, [&](int32_t m, int64_t i, float v) { out[m * stride + i] = v; });
}

void CpuOps::linear(const Weight& w, const Activation& x, const float* bias, float* out) {
  Epilogue epilogue;
  epilogue.out = out;
  epilogue.bias = bias;
  multiply(static_cast<const PackedWeight&>(w), x, epilogue);
}

void CpuOps::row_linear_partials(const Weight& w, const Activation& x, float* partials) {
  CHECK(w.spec().role == WeightRole::kRowLinear, "partials need a row-parallel weight");
  Epilogue epilogue;
  epilogue.partials = partials;
  multiply(static_cast<const PackedWeight&>(w), x, epilogue);
}

void CpuOps::row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                                 const float* norm, float eps, Activation* out) {
  const WeightSpec& spec = w.spec();
  if (spec.local_shards != spec.virtual_shards) return Ops::row_linear_add_norm(w, x, bias, residual, norm, eps, out);
  Epilogue epilogue;
  epilogue.out = residual;
  epilogue.bias = bias;
  epilogue.add = true;
  multiply(static_cast<const PackedWeight&>(w), x, epilogue);
  if (norm != nullptr) rms_norm(residual, x.rows, norm, eps, out);
}

}  // namespace slipstream
