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

/// x.bf16 *= 1 / sqrt(sum of squares[row, :] / x.cols + eps): what a product that takes no pending norm needs first.
/// squares [x.rows, groups]; x.cols is even
void finish_norm(Context& context, const Activation& x, const float* squares, int32_t groups, float eps);

/// Writes every form of out from x.  x [out.rows, out.cols]
void store_rows(Context& context, const float* x, const Activation& out);

/// Fills every other form of x from x.f32.
void fill_forms(Context& context, const Activation& x);

/// q/k norm, RoPE of q and k, k and v rounded into the cache at their positions. params.step is not read.
void qkv_norm_rope_cache(Context& context, const QkvParams& params, const StepView& step);

/// The same two over rows that a product left as BF16, without its bias, which is added here if not null. out has no int8 form;
/// out.cols is a multiple of 8. Row r of q|k|v stands in the second half of the floats of row r of params.qkv; q is left as floats.
void swiglu_bf16(Context& context, const uint16_t* gate_up, const float* bias, int32_t rows, const Activation& out);
void qkv_norm_rope_cache_bf16(Context& context, const QkvParams& params, const float* bias, const StepView& step);
bool rope_bf16_supports(const QkvParams& params);

/// out[i, :] = x[row_ids[i], :]; row_ids is host memory, copied into the launch.
void gather_rows(Context& context, const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out);

}  // namespace slipstream::cuda
