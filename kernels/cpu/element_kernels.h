// Row-wise kernels of the CPU backend: norms, rotary embedding, SwiGLU, quantisation of activations, cache rounding.
// One table per instruction set; all tables give equal bits (kernels/README.md). Rows only: threads are the caller's.
#pragma once

#include <cstdint>

#include "kernels/ops.h"

namespace slipstream {

/// Where one activation row goes; null members are forms that are not wanted.
struct ActivationRow {
  float* f32 = nullptr;      // [cols]
  int8_t* q = nullptr;       // [cols]
  float* scale = nullptr;    // [cols / 32]
  int32_t* sum = nullptr;    // [cols / 32]
};

inline ActivationRow activation_row(const Activation& x, int64_t row) {
  ActivationRow out;
  if (x.f32 != nullptr) out.f32 = x.f32 + row * x.cols;
  if (x.q != nullptr) {
    out.q = x.q + row * x.cols;
    out.scale = x.scale + row * (x.cols / 32);
    out.sum = x.sum + row * (x.cols / 32);
  }
  return out;
}

struct ElementKernels {
  const char* name;
  /// out = x / sqrt(mean(x^2) + eps) * weight
  void (*rms_norm)(const float* x, int64_t cols, const float* weight, float eps, ActivationRow out);
  /// out = silu(gate) * up
  void (*swiglu)(const float* gate, const float* up, int64_t cols, ActivationRow out);
  /// The forms of x itself.
  void (*store)(const float* x, int64_t cols, ActivationRow out);
  /// cosine[i], sine[i] of position * inv_freq[i], times factor.
  void (*rope_table)(int32_t position, const float* inv_freq, int32_t pairs, float factor, float* cosine, float* sine);
  /// Rotates the first 2 * pairs elements of one head in place.
  void (*rope)(float* head, const float* cosine, const float* sine, int32_t pairs, RopeStyle style);
  /// Rounds to a cache dtype (kF32, kF16, kBF16; kF8E4M3: codes of x / scale).
  void (*round_to)(const float* x, int64_t count, DType dtype, float scale, void* out);
  /// y += x, elementwise
  void (*add)(float* y, const float* x, int64_t count);
};

const ElementKernels& element_kernels_scalar();
const ElementKernels& element_kernels_avx2();

}  // namespace slipstream
