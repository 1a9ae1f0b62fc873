// The default compositions of Ops. Owns their scratch; everything else belongs to the backends.
#include "kernels/ops.h"

#include "kernels/check.h"

namespace slipstream {

float* Ops::partials_scratch(size_t floats) {
  if (partials_.data() == nullptr || partials_.bytes() < floats * sizeof(float)) {
    partials_.reset();
    partials_ = allocate(floats * sizeof(float));
  }
  return partials_.as<float>();
}

void check_ancestor_mask(const AttentionParams& params) {
  if (params.ancestor_mask == nullptr) return;
  for (const SpanRows& span : params.step->spans)
    CHECK(span.rows <= kMaskRows, "an ancestor mask over a span of " + std::to_string(span.rows) + " rows, above " +
                                      std::to_string(kMaskRows));
}

void Ops::linear_qkv(const Weight& w, const Activation& x, const float* bias, const QkvParams& params) {
  linear(w, x, bias, params.qkv);
  qkv_norm_rope_cache(params);
}

void Ops::linear_swiglu(const Weight& w, const Activation& x, const float* bias, float* scratch, Activation* out) {
  linear(w, x, bias, scratch);
  swiglu(scratch, x.rows, out);
}

void Ops::row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                              const float* norm, float eps, Activation* out) {
  const WeightSpec& spec = w.spec();
  CHECK(spec.role == WeightRole::kRowLinear, "row_linear_add_norm needs a row-parallel weight");
  const int64_t per_shard = static_cast<int64_t>(x.rows) * w.rows();
  float* all = partials_scratch(static_cast<size_t>(per_shard * spec.virtual_shards));
  float* mine = all + per_shard * spec.first_shard;
  row_linear_partials(w, x, mine);
  if (comm() != nullptr && comm()->size() > 1) comm()->all_gather(mine, all, per_shard * spec.local_shards);
  reduce_add_norm(all, spec.virtual_shards, x.rows, bias, residual, w.rows(), norm, eps, out);
}

}  // namespace slipstream
