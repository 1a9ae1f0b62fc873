// Random matrices, activations and caches for the op tables, and error bounds that follow from the arithmetic.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/formats.h"
#include "kernels/ops.h"

namespace slipstream::test {

inline const std::vector<DType>& all_weight_formats() {
  static const std::vector<DType> formats = {
      DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,   DType::kQ4_1,   DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
      DType::kQ2_K, DType::kQ3_K, DType::kQ4_K, DType::kQ5_K,   DType::kQ6_K,   DType::kIQ4_NL, DType::kIQ4_XS,
      DType::kMXFP4, DType::kF8E4M3};
  return formats;
}

inline std::vector<float> random_floats(std::mt19937& rng, size_t count, float scale = 1.0f) {
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> v(count);
  for (float& x : v) x = normal(rng);
  return v;
}

/// Random valid bytes of any format: K and IQ blocks are random bits with scales of a sane size.
inline std::vector<std::byte> random_matrix(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
  std::mt19937 rng(seed);
  const int64_t bytes = row_bytes(dtype, cols);
  std::vector<std::byte> data(static_cast<size_t>(rows * bytes));
  if (can_quantize(dtype)) {
    for (int64_t r = 0; r < rows; ++r)
      quantize_row(dtype, random_floats(rng, static_cast<size_t>(cols), 0.05f).data(), data.data() + r * bytes, cols);
    return data;
  }
  for (std::byte& b : data) b = static_cast<std::byte>(rng() & 255u);
  const DTypeInfo& info = dtype_info(dtype);
  for (size_t at = 0; at < data.size(); at += static_cast<size_t>(info.block_bytes)) {
    const auto put = [&](size_t offset, float value) {
      const uint16_t half = f32_to_f16(value);
      std::memcpy(data.data() + at + offset, &half, 2);
    };
    const float d = 0.001f * static_cast<float>(1 + rng() % 8);
    switch (dtype) {
      case DType::kQ2_K: put(80, d), put(82, d / 2); break;
      case DType::kQ3_K: put(108, d); break;
      case DType::kQ4_K:
      case DType::kQ5_K: put(0, d / 8), put(2, d / 16); break;
      case DType::kQ6_K: put(208, d / 16); break;
      case DType::kIQ4_NL: put(0, d); break;
      case DType::kIQ4_XS: put(0, d / 16); break;
      case DType::kMXFP4: data[at] = static_cast<std::byte>(116 + rng() % 8); break;
      default: break;
    }
  }
  return data;
}

/// How the scales of an F8_E4M3 matrix stand, and where a part of it begins.
struct ScaleLayout {
  int64_t block_rows = 128, block_cols = 128;
  DType dtype = DType::kBF16;
  int64_t first_row = 0, first_col = 0;
};

/// A stacked weight and the bytes behind it.
struct Matrix {
  std::vector<std::vector<std::byte>> bytes;
  WeightSpec spec;
  int64_t rows = 0, cols = 0;

  void add(DType dtype, int64_t part_rows, int64_t part_cols, uint32_t seed) {
    if (dtype == DType::kF8E4M3) return add_f8(part_rows, part_cols, seed, {});
    bytes.push_back(random_matrix(dtype, part_rows, part_cols, seed));
    spec.parts.push_back({"w" + std::to_string(spec.parts.size() + 1), dtype, part_rows, part_cols, bytes.back().data(),
                          row_bytes(dtype, part_cols), {}});
    rows += part_rows;
    cols = part_cols;
  }
  /// Any code but NaN, and scales that make the values about 0.05, of both signs.
  void add_f8(int64_t part_rows, int64_t part_cols, uint32_t seed, const ScaleLayout& layout) {
    std::mt19937 rng(seed);
    std::vector<std::byte>& codes = bytes.emplace_back(static_cast<size_t>(part_rows * part_cols));
    for (std::byte& code : codes) {
      code = static_cast<std::byte>(rng() & 255u);
      if ((code & std::byte{0x7f}) == std::byte{0x7f}) code ^= std::byte{1};
    }
    const int64_t stride = (layout.first_col + part_cols - 1) / layout.block_cols + 1;
    const int64_t count = ((layout.first_row + part_rows - 1) / layout.block_rows + 1) * stride;
    const auto size = static_cast<size_t>(dtype_info(layout.dtype).block_bytes);
    std::vector<std::byte>& scales = bytes.emplace_back(static_cast<size_t>(count) * size);
    for (int64_t i = 0; i < count; ++i) {
      const float scale = 0.0002f * static_cast<float>(1 + rng() % 16) * (rng() % 2 == 0 ? 1.0f : -1.0f);
      quantize_row(layout.dtype, &scale, scales.data() + static_cast<size_t>(i) * size, 1);
    }
    spec.parts.push_back({"w" + std::to_string(spec.parts.size() + 1), DType::kF8E4M3, part_rows, part_cols,
                          bytes[bytes.size() - 2].data(), part_cols,
                          {scales.data(), layout.dtype, stride, layout.block_rows, layout.block_cols, layout.first_row,
                           layout.first_col}});
    rows += part_rows;
    cols = part_cols;
  }
  std::vector<float> row(int64_t r) const {
    size_t p = 0;
    for (; r >= spec.parts[p].rows; ++p) r -= spec.parts[p].rows;
    std::vector<float> values(static_cast<size_t>(cols));
    dequantize_part_row(spec.parts[p], r, values.data());
    return values;
  }
};

inline Matrix matrix(DType dtype, int64_t rows, int64_t cols, uint32_t seed) {
  Matrix m;
  m.add(dtype, rows, cols, seed);
  return m;
}

/// Cuts columns [first, first + count) of every part: a rank's slice of a row-parallel weight.
inline WeightSpec column_slice(const WeightSpec& whole, int64_t first, int64_t count) {
  WeightSpec slice = whole;
  for (WeightPart& part : slice.parts) {
    part.data += row_bytes(part.dtype, first);
    part.scales.first_col += first;
    part.cols = count;
  }
  return slice;
}

/// Fills an activation in every form of `forms`. Identity norm: x comes through rms_norm only in its own tests.
inline void fill_activation(Ops& ops, Activation* x, const std::vector<float>& values, int32_t rows) {
  // swiglu of (gate, up) cannot be the identity, so the forms are written by hand from their definition.
  x->rows = rows;
  (void)ops;
  if (x->f32 != nullptr) std::memcpy(x->f32, values.data(), static_cast<size_t>(rows * x->cols) * sizeof(float));
  if (x->q == nullptr) return;
  for (int64_t b = 0; b < rows * x->cols / 32; ++b) {
    float amax = 0;
    for (int i = 0; i < 32; ++i) amax = std::fmax(amax, std::fabs(values[static_cast<size_t>(b * 32 + i)]));
    x->scale[b] = amax / 127.0f;
    x->sum[b] = 0;
    for (int i = 0; i < 32; ++i) {
      const float level = amax > 0 ? values[static_cast<size_t>(b * 32 + i)] * (127.0f / amax) : 0.0f;
      x->q[b * 32 + i] = static_cast<int8_t>(std::nearbyint(level));
      x->sum[b] += x->q[b * 32 + i];
    }
  }
}

/// What the int8 form stands for.
inline std::vector<float> dequantised(const Activation& x) {
  std::vector<float> v(static_cast<size_t>(x.rows * x.cols));
  for (size_t i = 0; i < v.size(); ++i) v[i] = static_cast<float>(x.q[i]) * x.scale[i / 32];
  return v;
}

inline std::unique_ptr<Ops> cpu(int32_t threads = 2, const std::string& isa = "") {
  CpuOptions options;
  options.threads = threads;
  options.isa = isa;
  return make_cpu_ops(options);
}

/// Instruction sets that run here, slowest first.
inline std::vector<std::string> instruction_sets() {
  std::vector<std::string> sets;
  for (const char* isa : {"scalar", "avx2", "avx512vnni"}) try {
      cpu(1, isa);
      sets.emplace_back(isa);
    } catch (const std::exception&) {
    }
  return sets;
}

inline bool same_bits(const float* a, const float* b, size_t count) {
  return std::memcmp(a, b, count * sizeof(float)) == 0;
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && same_bits(a.data(), b.data(), a.size());
}

}  // namespace slipstream::test
