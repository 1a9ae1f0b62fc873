// See cuda_ops.h.
#include "kernels/cuda/cuda_ops.h"

#include <algorithm>

#include "kernels/check.h"
#include "kernels/cuda/cuda_weight.h"
#include "kernels/cuda/embed.h"
#include "kernels/cuda/linear_limits.h"
#include "kernels/cuda/rows.h"

namespace slipstream::cuda {
namespace {

const StepView& view_of(const StepInputs& step) {
  CHECK(step.device != nullptr, "an op of the CUDA backend before begin_step");
  return *static_cast<const StepView*>(step.device);
}

const CudaWeight& own(const Weight& weight) { return static_cast<const CudaWeight&>(weight); }

}  // namespace

CudaOps::CudaOps(const CudaOptions& options)
    : context_(options.device, options.feature_arch, options.deterministic),
      resident_steps_(options.resident_steps),
      uploads_(context_),
      narrow_(context_),
      stream_(context_),
      linear_scratch_(context_),
      samples_(context_),
      squares_(context_.allocate(kFusedSquares * sizeof(float))) {
  if (context_.deterministic()) attention_shape_.split_tokens = kExactSplitTokens;
}

CudaOps::CudaOps(const CudaOps& real, Context::DryRun dry)
    : context_(real.context_, dry), resident_steps_(real.resident_steps_), uploads_(context_), narrow_(context_), stream_(context_), linear_scratch_(context_), samples_(context_),
      squares_(context_.allocate(kFusedSquares * sizeof(float))) {
  attention_shape_.split_tokens = real.attention_shape_.split_tokens;
}

CudaOps::~CudaOps() {
  if (context_.stream() != nullptr && !context_.dry()) cudaStreamSynchronize(context_.stream());
}

Buffer CudaOps::allocate(size_t bytes) { return context_.allocate(bytes); }

void CudaOps::upload(void* device, const void* host, size_t bytes) {
  if (bytes == 0 || context_.dry()) return;
  // By way of the weights' staging: vectors between matrices must not make the loading wait for the device.
  if (warm_allocations_ < 0 && bytes <= WeightStream::kChunkBytes)
    return stream_.copy(static_cast<const std::byte*>(host), static_cast<int64_t>(bytes), 1, static_cast<int64_t>(bytes),
                        static_cast<std::byte*>(device));
  check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, context_.stream()), "upload");
  context_.synchronize();
}

void CudaOps::download(void* host, const void* device, size_t bytes) {
  if (bytes == 0) return;
  check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, context_.stream()), "download");
  context_.synchronize();
}

std::string CudaOps::unsupported_reason(const WeightSpec& spec) const { return cuda::unsupported_reason(spec); }

std::unique_ptr<Weight> CudaOps::prepare_weight(WeightSpec spec) {
  const std::string reason = unsupported_reason(spec);
  CHECK(reason.empty(), reason);
  const bool row_parallel = spec.role == WeightRole::kRowLinear;
  auto weight = make_cuda_weight(context_, stream_, std::move(spec));
  if (row_parallel) widest_row_output_ = std::max(widest_row_output_, weight->rows());
  linear_scratch_.plan(own(*weight));
  return weight;
}

uint8_t CudaOps::activation_forms(const Weight& weight) const { return cuda::activation_forms(own(weight)); }

Activation CudaOps::make_activation(int32_t max_rows, int64_t cols, uint8_t forms) {
  const std::string reason = row_ops_unsupported_reason(cols, forms);
  CHECK(reason.empty(), "CUDA activations: " + reason);
  Activation x;
  x.max_rows = max_rows;
  x.cols = cols;
  x.forms = forms;
  const size_t elements = static_cast<size_t>(max_rows) * static_cast<size_t>(cols);
  const auto take = [&](size_t bytes) {
    owned_.push_back(allocate(bytes));
    return owned_.back().data();
  };
  // attention writes floats first when the int8 form is wanted
  if ((forms & (kActF32 | kActInt8Block32)) != 0) x.f32 = static_cast<float*>(take(elements * sizeof(float)));
  if ((forms & kActBF16) != 0) x.bf16 = static_cast<uint16_t*>(take(elements * sizeof(uint16_t)));
  if ((forms & kActInt8Block32) != 0) {
    x.q = static_cast<int8_t*>(take(elements));
    x.scale = static_cast<float*>(take(elements / 32 * sizeof(float)));
    x.sum = static_cast<int32_t*>(take(elements / 32 * sizeof(int32_t)));
  }
  return x;
}

void CudaOps::plan_attention(int32_t max_rows, int32_t heads, int32_t kv_heads, int32_t head_dim) {
  attention_shape_.heads = heads;
  attention_shape_.kv_heads = kv_heads;
  attention_shape_.head_dim = head_dim;
  ensure(context_, &attention_scratch_,
         attention_scratch_bytes(max_rows, max_rows, heads, head_dim, context_.facts().multiprocessors));
}

Ops::MemoryFacts CudaOps::memory() const {
  size_t free = 0, total = 0;
  check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
  return {static_cast<int64_t>(total), static_cast<int64_t>(free)};
}

void CudaOps::begin_step(StepInputs* step) {
  if (step->device == nullptr) step->device = &uploads_.upload(*step);
}

bool CudaOps::narrow_step(const StepInputs& step, StepInputs* narrow) {
  if (!StepNarrow::supports(view_of(step), step.logit_rows)) return false;
  const StepView& view = narrow_.build(view_of(step), step.logit_rows);
  *narrow = {};
  narrow->rows = view.rows;
  narrow->groups = step.groups;
  narrow->device = &view;
  narrow->device_owned = true;
  return true;
}

void CudaOps::embed(const Weight& table, const StepInputs& step, float scale, float* out) {
  cuda::embed(context_, own(table), view_of(step).token_ids, step.rows, scale, out);
}

void CudaOps::rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
  if (out->bf16 == pending_of_) pending_of_ = nullptr;
  cuda::rms_norm(context_, x, rows, weight, eps, read_forms(*out, rows));
}

void CudaOps::store_rows(const float* x, int32_t rows, Activation* out) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
  if (out->bf16 == pending_of_) pending_of_ = nullptr;
  cuda::store_rows(context_, x, read_forms(*out, rows));
}

void CudaOps::linear(const Weight& w, const Activation& x, const float* bias, float* out) {
  cuda::linear(context_, linear_scratch_, own(w), x, bias, out, take_pending(own(w), x));
}

void CudaOps::row_linear_partials(const Weight& w, const Activation& x, float* partials) {
  // the sum of the local shards stands in the first one; any order of the sum is within this backend's bound
  const size_t floats = static_cast<size_t>(x.rows) * static_cast<size_t>(w.rows());
  const auto others = static_cast<size_t>(w.spec().local_shards - 1);
  linear(w, x, nullptr, partials);
  if (others > 0)
    check(cudaMemsetAsync(partials + floats, 0, others * floats * sizeof(float), context_.stream()), "cudaMemsetAsync");
}

void CudaOps::qkv_norm_rope_cache(const QkvParams& params) {
  cuda::qkv_norm_rope_cache(context_, params, view_of(*params.step));
}

void CudaOps::attention(const AttentionParams& p) {
  Activation& out = *p.out;
  out.rows = p.step->rows;
  AttentionArgs args;
  args.step = view_of(*p.step);
  args.q = p.q;
  args.q_stride = p.q_stride;
  args.heads = p.heads;
  args.kv_heads = p.kv_heads;
  args.head_dim = p.head_dim;
  args.scale = p.scale;
  args.window = p.window;
  args.causal = p.causal;
  args.ancestor_mask = p.ancestor_mask;
  CHECK(p.ancestor_mask == nullptr || std::max(args.step.max_decode_rows, args.step.max_prefill_rows) <= kMaskRows,
        "an ancestor mask over spans of more rows than it has bits");
  args.kv = p.kv;
  args.split_tokens = attention_shape_.split_tokens;
  if (p.kv.blocks > 0) args.kv_blocks = p.kv.blocks;
  const bool floats = (read_forms(out, out.rows).forms & (kActF32 | kActInt8Block32)) != 0;  // the int8 form is made of them
  args.out_f32 = floats ? out.f32 : nullptr;
  args.out_bf16 = floats ? nullptr : out.bf16;
  plan_attention(out.max_rows, p.heads, p.kv_heads, p.head_dim);
  args.scratch = attention_scratch_.as<float>();
  args.scratch_bytes = attention_scratch_.bytes();
  cuda::attention(context_, args);
  if (floats) fill_forms(context_, out);
}

void CudaOps::swiglu(const float* gate_up, int32_t rows, Activation* out) {
  CHECK(rows <= out->max_rows, "more rows than the activation holds");
  out->rows = rows;
  cuda::swiglu(context_, gate_up, rows, read_forms(*out, rows));
}

void CudaOps::gather_rows(const float* x, std::span<const int32_t> row_ids, int64_t cols, float* out) {
  cuda::gather_rows(context_, x, row_ids, cols, out);
}

void CudaOps::sample(const SampleBatch& batch) { samples_.sample(batch); }

void CudaOps::copy_kv_block(const KvLayer& kv, int32_t source, int32_t target) {
  const auto bytes = static_cast<size_t>(row_bytes(kv.dtype, kv.head_dim)) * static_cast<size_t>(kv.kv_heads) *
                     static_cast<size_t>(kv.block_tokens);
  for (void* base : {kv.k, kv.v})
    check(cudaMemcpyAsync(static_cast<std::byte*>(base) + bytes * static_cast<size_t>(target),
                          static_cast<std::byte*>(base) + bytes * static_cast<size_t>(source), bytes,
                          cudaMemcpyDeviceToDevice, context_.stream()),
          "copy of a cache block");
}

PendingNorm CudaOps::take_pending(const CudaWeight& w, const Activation& x) {
  if (x.bf16 == nullptr || x.bf16 != pending_of_) return {};
  if (linear_takes(linear_scratch_, w, x)) return pending_;  // another product of x may follow
  finish_norm(context_, x, pending_.squares, pending_.groups, pending_.eps);
  pending_of_ = nullptr;
  return {};
}

bool CudaOps::leaves_bf16(const CudaWeight& w, const Activation& x) const {
  return x.rows > kFewRowsFloat && blas_serves(linear_scratch_, w, x) &&
         std::ranges::none_of(w.segments(), [](const WeightSegment& s) { return s.dtype == DType::kF16; });
}

Activation CudaOps::read_forms(const Activation& out, int32_t rows) const {
  Activation read = out;
  if (out.bf16 == nullptr || !linear_scratch_.leaves_int8(rows)) return read;
  read.forms &= static_cast<uint8_t>(~kActInt8Block32);
  read.q = nullptr;
  return read;
}

void CudaOps::linear_qkv(const Weight& w, const Activation& x, const float* bias, const QkvParams& p) {
  if (!leaves_bf16(own(w), x) || !rope_bf16_supports(p)) return Ops::linear_qkv(w, x, bias, p);
  // the second half of each row's floats
  linear_to_bf16(context_, linear_scratch_, own(w), x, reinterpret_cast<uint16_t*>(p.qkv) + w.rows(), 2 * w.rows());
  qkv_norm_rope_cache_bf16(context_, p, bias, view_of(*p.step));
}

void CudaOps::linear_swiglu(const Weight& w, const Activation& x, const float* bias, float* scratch, Activation* out) {
  if (swiglu_fuses(linear_scratch_, own(w), x, *out)) {
    out->rows = x.rows;
    return fused_swiglu(context_, linear_scratch_, own(w), x, take_pending(own(w), x), bias, *out);
  }
  const Activation read = read_forms(*out, x.rows);
  if (!leaves_bf16(own(w), x) || read.q != nullptr || out->cols % 8 != 0) return Ops::linear_swiglu(w, x, bias, scratch, out);
  CHECK(x.rows <= out->max_rows, "more rows than the activation holds");
  out->rows = x.rows;
  linear_to_bf16(context_, linear_scratch_, own(w), x, reinterpret_cast<uint16_t*>(scratch), w.rows());
  swiglu_bf16(context_, reinterpret_cast<const uint16_t*>(scratch), bias, x.rows, read);
}

void CudaOps::row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual,
                                  const float* norm, float eps, Activation* out) {
  if (comm() != nullptr && comm()->size() > 1)
    return Ops::row_linear_add_norm(w, x, bias, residual, norm, eps, out);
  if (add_norm_fuses(linear_scratch_, own(w), x, norm == nullptr ? nullptr : out)) {
    pending_ = fused_add_norm(context_, linear_scratch_, own(w), x, bias, residual, norm, eps, out, squares_.as<float>());
    pending_of_ = norm == nullptr ? nullptr : out->bf16;
    if (out != nullptr) out->rows = x.rows;
    return;
  }
  if (x.rows > kFewRowsFloat && blas_serves(linear_scratch_, own(w), x)) {
    linear_add(context_, linear_scratch_, own(w), x, bias, residual);
    if (norm != nullptr) rms_norm(residual, x.rows, norm, eps, out);
    else if (out != nullptr) out->rows = x.rows;
    return;
  }
  ensure(context_, &row_output_, static_cast<size_t>(x.rows) * static_cast<size_t>(w.rows()) * sizeof(float));
  cuda::linear(context_, linear_scratch_, own(w), x, nullptr, row_output_.as<float>());
  reduce_add_norm(row_output_.as<float>(), 1, x.rows, bias, residual, w.rows(), norm, eps, out);
}

void CudaOps::reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual,
                              int64_t cols, const float* norm, float eps, Activation* out) {
  if (out != nullptr) out->rows = rows;
  if (out != nullptr && out->bf16 == pending_of_) pending_of_ = nullptr;
  const Activation read = out != nullptr ? read_forms(*out, rows) : Activation{};
  cuda::add_norm(context_, partials, shards, rows, cols, bias, residual, norm, eps, out != nullptr ? &read : nullptr);
}

void CudaOps::ensure(Context& context, Buffer* buffer, size_t bytes) {
  if (buffer->data() != nullptr && buffer->bytes() >= bytes) return;
  context.synchronize();
  buffer->reset();
  *buffer = context.allocate(bytes);
}

void CudaOps::warm_up(int32_t max_rows) {
  ensure(context_, &row_output_, static_cast<size_t>(max_rows) * static_cast<size_t>(widest_row_output_) * sizeof(float));
  linear_scratch_.reserve(max_rows);
  // Eager steps of tests and tools; a serving engine's steps live in ResidentSlots. Longer sequences grow it.
  constexpr int32_t kEagerBlocks = 64;
  if (!resident_steps_) uploads_.reserve(max_rows, max_rows, 2, std::min(kEagerBlocks, (1 << 22) / std::max(max_rows, 1)));
  stream_.release();
  context_.synchronize();
  warm_allocations_ = context_.allocations();
}

int64_t CudaOps::allocations_after_warm_up() const {
  return warm_allocations_ < 0 ? 0 : context_.allocations() - warm_allocations_;
}

}  // namespace slipstream::cuda

namespace slipstream {

std::unique_ptr<Ops> make_cuda_ops(const CudaOptions& options) { return std::make_unique<cuda::CudaOps>(options); }

bool cuda_available(std::string* why) { return !cuda::devices(why).empty(); }

}  // namespace slipstream
