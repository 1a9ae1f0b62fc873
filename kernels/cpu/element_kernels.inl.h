// The row-wise kernels over a lane type V; included once per instruction set. Tails run the same formulas on one lane,
// so a row's bits do not depend on the width.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "kernels/cpu/element_kernels.h"
#include "kernels/formats.h"
#include "kernels/law.h"

namespace slipstream {
namespace {

using law::Lane1;

/// Below this an activation block counts as zero: 127 / amax would leave the float range.
constexpr float kSmallestAmax = 0x1p-100f;

/// 32 floats -> int8, scale = amax / 127 and sum. A block that is not finite gets a NaN scale, so that the row's
/// outputs are NaN and the sampler sees it.
inline void quantize_block_scalar(const float* x, int8_t* q, float* scale, int32_t* sum) {
  uint32_t amax_bits = 0;
  for (int i = 0; i < 32; ++i) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(x[i]) & 0x7fffffffu;
    amax_bits = magnitude > amax_bits ? magnitude : amax_bits;
  }
  const float amax = std::bit_cast<float>(amax_bits);
  if (amax_bits >= 0x7f800000u || amax < kSmallestAmax) {
    *scale = amax_bits >= 0x7f800000u ? std::bit_cast<float>(0x7fc00000u) : 0.0f;
    *sum = 0;
    std::memset(q, 0, 32);
    return;
  }
  *scale = amax / 127.0f;
  const float inverse = 127.0f / amax;
  int32_t total = 0;
  for (int i = 0; i < 32; ++i) {
    const float shifted = x[i] * inverse + law::kRoundMagic;  // round to nearest even
    const int32_t value = static_cast<int32_t>(std::bit_cast<uint32_t>(shifted) - std::bit_cast<uint32_t>(law::kRoundMagic));
    q[i] = static_cast<int8_t>(value);
    total += value;
  }
  *sum = total;
}

template <class V>
struct ElementRows {
  using F = typename V::F;
  static void quantize_block(const float* x, int8_t* q, float* scale, int32_t* sum);

  /// Applies body<W>(i) over [0, count): whole vectors, then single lanes.
  template <typename Wide, typename Narrow>
  static void lanes(int64_t count, const Wide& wide, const Narrow& narrow) {
    int64_t i = 0;
    for (; i + V::kWidth <= count; i += V::kWidth) wide(i);
    for (; i < count; ++i) narrow(i);
  }

  /// Emits values block by block: produce(begin, count, float* block) fills count <= 32 values.
  template <typename Produce>
  static void emit(int64_t cols, ActivationRow out, const Produce& produce) {
    float block[32];
    for (int64_t begin = 0; begin < cols; begin += 32) {
      const int64_t count = cols - begin < 32 ? cols - begin : 32;
      produce(begin, count, block);
      if (out.f32 != nullptr) std::memcpy(out.f32 + begin, block, static_cast<size_t>(count) * sizeof(float));
      if (out.q != nullptr) quantize_block(block, out.q + begin, out.scale + begin / 32, out.sum + begin / 32);
    }
  }

  /// Sum of squares in kNormLanes interleaved chains, added pairwise.
  static float sum_of_squares(const float* x, int64_t cols) {
    constexpr int kVectors = kNormLanes / V::kWidth;
    F chain[kVectors];
    for (int v = 0; v < kVectors; ++v) chain[v] = V::set(0.0f);
    int64_t i = 0;
    for (; i + kNormLanes <= cols; i += kNormLanes)
      for (int v = 0; v < kVectors; ++v) {
        const F value = V::load(x + i + v * V::kWidth);
        chain[v] = V::fma(value, value, chain[v]);
      }
    float lane[kNormLanes];
    for (int v = 0; v < kVectors; ++v) V::store(lane + v * V::kWidth, chain[v]);
    for (int j = 0; i + j < cols; ++j) lane[j] = std::fma(x[i + j], x[i + j], lane[j]);
    for (int half = kNormLanes / 2; half > 0; half /= 2)
      for (int j = 0; j < half; ++j) lane[j] += lane[j + half];
    return lane[0];
  }

  static void rms_norm(const float* x, int64_t cols, const float* weight, float eps, ActivationRow out) {
    const float mean = sum_of_squares(x, cols) / static_cast<float>(cols);
    const float inverse = 1.0f / std::sqrt(mean + eps);
    emit(cols, out, [&](int64_t begin, int64_t count, float* block) {
      lanes(
          count,
          [&](int64_t i) {
            const F scaled = V::mul(V::load(x + begin + i), V::set(inverse));
            V::store(block + i, V::mul(scaled, V::load(weight + begin + i)));
          },
          [&](int64_t i) { block[i] = x[begin + i] * inverse * weight[begin + i]; });
    });
  }

  static void swiglu(const float* gate, const float* up, int64_t cols, ActivationRow out) {
    emit(cols, out, [&](int64_t begin, int64_t count, float* block) {
      lanes(
          count,
          [&](int64_t i) {
            V::store(block + i, law::silu_mul<V>(V::load(gate + begin + i), V::load(up + begin + i)));
          },
          [&](int64_t i) { block[i] = law::silu_mul<Lane1>(gate[begin + i], up[begin + i]); });
    });
  }

  static void store(const float* x, int64_t cols, ActivationRow out) {
    if (out.f32 != nullptr) std::memcpy(out.f32, x, static_cast<size_t>(cols) * sizeof(float));
    if (out.q == nullptr) return;
    for (int64_t begin = 0; begin < cols; begin += 32)
      quantize_block(x + begin, out.q + begin, out.scale + begin / 32, out.sum + begin / 32);
  }

  static void rope_table(int32_t position, const float* inv_freq, int32_t pairs, float factor, float* cosine,
                         float* sine) {
    const float p = static_cast<float>(position);
    lanes(
        pairs,
        [&](int64_t i) {
          F s, c;
          law::sincos<V>(V::mul(V::set(p), V::load(inv_freq + i)), &s, &c);
          V::store(sine + i, V::mul(s, V::set(factor)));
          V::store(cosine + i, V::mul(c, V::set(factor)));
        },
        [&](int64_t i) {
          float s, c;
          law::sincos<Lane1>(p * inv_freq[i], &s, &c);
          sine[i] = s * factor;
          cosine[i] = c * factor;
        });
  }

  /// (a, b) -> (a cos - b sin, b cos + a sin), each as fma(first, cos, -+ second * sin).
  static void rope_half_split(float* head, const float* cosine, const float* sine, int32_t pairs) {
    float* second = head + pairs;
    lanes(
        pairs,
        [&](int64_t i) {
          const F a = V::load(head + i), b = V::load(second + i), c = V::load(cosine + i), s = V::load(sine + i);
          const F minus = V::sub(V::set(0.0f), V::mul(b, s));
          V::store(head + i, V::fma(a, c, minus));
          V::store(second + i, V::fma(b, c, V::mul(a, s)));
        },
        [&](int64_t i) {
          const float a = head[i], b = second[i];
          head[i] = std::fma(a, cosine[i], 0.0f - b * sine[i]);
          second[i] = std::fma(b, cosine[i], a * sine[i]);
        });
  }

  static void rope(float* head, const float* cosine, const float* sine, int32_t pairs, RopeStyle style) {
    if (style == RopeStyle::kHalfSplit) return rope_half_split(head, cosine, sine, pairs);
    for (int32_t i = 0; i < pairs; ++i) {
      const float a = head[2 * i], b = head[2 * i + 1];
      head[2 * i] = std::fma(a, cosine[i], 0.0f - b * sine[i]);
      head[2 * i + 1] = std::fma(b, cosine[i], a * sine[i]);
    }
  }

  static void round_to(const float* x, int64_t count, DType dtype, float scale, void* out) {
    if (dtype == DType::kF32) {
      std::memcpy(out, x, static_cast<size_t>(count) * sizeof(float));
      return;
    }
    if (dtype == DType::kF8E4M3) {
      auto* code = static_cast<uint8_t*>(out);
      for (int64_t i = 0; i < count; ++i) code[i] = f32_to_e4m3(x[i] / scale);
      return;
    }
    auto* half = static_cast<uint16_t*>(out);
    if (dtype == DType::kBF16)
      for (int64_t i = 0; i < count; ++i) half[i] = f32_to_bf16(x[i]);
    else
      for (int64_t i = 0; i < count; ++i) half[i] = f32_to_f16(x[i]);
  }

  static void add(float* y, const float* x, int64_t count) {
    lanes(
        count, [&](int64_t i) { V::store(y + i, V::add(V::load(y + i), V::load(x + i))); },
        [&](int64_t i) { y[i] += x[i]; });
  }

  static constexpr ElementKernels table(const char* name) {
    return {name, rms_norm, swiglu, store, rope_table, rope, round_to, add};
  }
};

}  // namespace
}  // namespace slipstream
