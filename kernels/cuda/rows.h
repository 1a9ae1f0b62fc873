// Row-wise composite ops: norms, SwiGLU, q/k norm with RoPE and the cache write, gathers. Each reads its inputs once and
// writes every form that the next product wants. Knows rows, no model.
//
// x, residual and qkv are float; column counts are multiples of 4 (of 32 when the int8 form is wanted).
#pragma once

#include <cstdint>
#include <span>

#include "kernels/cuda/context.h"
#include "kernels/cuda/step_view.h"
#include "kernels/ops.h"

namespace slipstream::cuda {

/// Why these column counts cannot be served; empty when they can.
std::string row_ops_unsupported_reason(int64_t cols, uint8_t forms);

/// out = x / sqrt(mean(x^2) + eps) * weight.  x [rows, out.cols]
void rms_norm(Context& context, const float* x, int32_t rows, const float* weight, float eps, const Activation& out);

/// residual += bias + partials[0] + … + partials[count - 1]; then, if norm is given, out = rms_norm(residual).
/// partials [count, rows, cols], bias [cols] or null, residual [rows, cols]
void add_norm(Context& context, const float* partials, int32_t count, int32_t rows, int64_t cols, const float* bias,
              float* residual, const float* norm, float eps, const Activation* out);

/// out = silu(gate) * up.  gate_up [rows, 2 * out.cols]: gate | up
void swiglu(Context& context, const float* gate_up, int32_t rows, const Activation& out);

/// Fills every form of x from x.f32.
void fill_forms(Context& context, const Activation& x);

/// q/k norm, RoPE of q and k, k and v rounded into the cache at their positions. params.step is not read.
void qkv_norm_rope_cache(Context& context, const QkvParams& params, const StepView& step);

/// out[i, :] = x[row_ids[i], :]; row_ids is host memory, copied into the launch.
void gather_rows(Context& context, const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out);

}  // namespace slipstream::cuda
