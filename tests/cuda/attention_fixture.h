// One attention step on the device with everything that a real one has: scattered blocks, NaN wherever nothing was written,
// bounds above what runs, a padding span; and its result in double arithmetic. Shared by the test and the bench.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "kernels/cuda/attention_kernels.h"
#include "kernels/formats.h"
#include "tests/cuda/device_array.h"
#include "tests/cuda/feature_level.h"

namespace slipstream::cuda::test {

struct AttentionShape {
  int32_t heads = 1, kv_heads = 1, head_dim = 64;
  int32_t block_tokens = 32, window = 0;
  bool causal = true;
  bool masked = false;  // a random ancestor mask
  DType dtype = DType::kBF16;
  float k_scale = 1.0f, v_scale = 1.0f;
};

struct SpanSpec {
  int32_t context, rows;
};

class AttentionStep {
 public:
  AttentionStep(Context& context, const AttentionShape& shape, const std::vector<SpanSpec>& decode,
                const std::vector<SpanSpec>& prefill, uint32_t seed = 1)
      : context_(context), shape_(shape), seed_(seed), random_(seed) {
    specs_ = decode;
    specs_.push_back({0, 0});  // a padding span between the runs, counted with the first
    specs_.insert(specs_.end(), prefill.begin(), prefill.end());
    make_rows(static_cast<int32_t>(decode.size()) + 1);
    make_cache();
    make_step(decode, prefill);
  }

  AttentionArgs args;  // ready to launch; outputs are out_f32 and out_bf16 below

  /// Poisons the outputs, runs `launch(context, args)`, returns out_f32 [rows, heads, head_dim]. The context may be another
  /// one of the same GPU.
  template <typename Launch>
  std::vector<float> run(Context& context, Launch&& launch) {
    const size_t count = size() + padding();
    check(cudaMemsetAsync(out_f32_.data(), 0xff, count * 4, context.stream()), "poison");
    check(cudaMemsetAsync(out_bf16_.data(), 0xff, count * 2, context.stream()), "poison");
    launch(context, args);
    context.synchronize();
    std::vector<float> out(count);
    bf16_.resize(count);
    check(cudaMemcpy(out.data(), out_f32_.data(), count * 4, cudaMemcpyDeviceToHost), "copy back");
    check(cudaMemcpy(bf16_.data(), out_bf16_.data(), count * 2, cudaMemcpyDeviceToHost), "copy back");
    return out;
  }
  /// The other output of the last run.
  const std::vector<uint16_t>& bf16() const { return bf16_; }
  /// Elements of rows that run; the padding row follows them.
  size_t size() const { return static_cast<size_t>(rows_) * width(); }
  size_t padding() const { return width(); }
  size_t width() const { return static_cast<size_t>(shape_.heads) * static_cast<size_t>(shape_.head_dim); }

  std::vector<double> reference() const {
    std::vector<double> out(size());
    const int32_t group = shape_.heads / shape_.kv_heads;
    const auto dim = static_cast<size_t>(shape_.head_dim);
    std::vector<double> weights;
    for (size_t s = 0; s < specs_.size(); ++s)
      for (int32_t r = 0; r < specs_[s].rows; ++r)
        for (int32_t h = 0; h < shape_.heads; ++h) {
          const auto row = static_cast<size_t>(first_row_[s] + r);
          const float* q = q_.data() + row * width() + static_cast<size_t>(h) * dim;
          const int32_t end = specs_[s].context + specs_[s].rows;
          weights.assign(static_cast<size_t>(end), 0.0);
          double top = -std::numeric_limits<double>::infinity(), sum = 0;
          for (int32_t t = 0; t < end; ++t) {
            if (!sees(s, r, t)) continue;
            const float* k = token(k_, s, h / group, t);
            double parts[4] = {};  // a sum of four chains, so that the test does not wait for one
            for (size_t d = 0; d < dim; ++d) parts[d % 4] += static_cast<double>(q[d]) * static_cast<double>(k[d]);
            const double score = parts[0] + parts[1] + parts[2] + parts[3];
            weights[static_cast<size_t>(t)] = score * static_cast<double>(args.scale);
            top = std::max(top, weights[static_cast<size_t>(t)]);
          }
          double* to = out.data() + row * width() + static_cast<size_t>(h) * dim;
          for (int32_t t = 0; t < end; ++t) {
            if (!sees(s, r, t)) continue;
            const double weight = std::exp(weights[static_cast<size_t>(t)] - top);
            const float* v = token(v_, s, h / group, t);
            sum += weight;
            for (size_t d = 0; d < dim; ++d) to[d] += weight * static_cast<double>(v[d]);
          }
          for (size_t d = 0; d < dim; ++d) to[d] = sum > 0 ? to[d] / sum : 0;
        }
    return out;
  }

 private:
  bool sees(size_t s, int32_t r, int32_t t) const {
    const int32_t context = specs_[s].context, position = context + r;
    if (shape_.window > 0 && t <= position - shape_.window) return false;
    if (shape_.masked) {
      const uint32_t mask = mask_[static_cast<size_t>(first_row_[s] + r)];
      return t < context || ((mask >> (t - context)) & 1u) != 0;
    }
    return shape_.causal ? t <= position : t < context + specs_[s].rows;
  }
  const float* token(const std::vector<std::vector<float>>& of, size_t s, int32_t kv_head, int32_t t) const {
    const int64_t at = (int64_t{kv_head} * (specs_[s].context + specs_[s].rows) + t) * shape_.head_dim;
    return of[s].data() + at;
  }
  static float rounded(float x, DType dtype, float scale = 1.0f) {
    if (dtype == DType::kF32) return x;
    if (dtype == DType::kF8E4M3) return e4m3_to_f32(f32_to_e4m3(x / scale)) * scale;
    return dtype == DType::kF16 ? f16_to_f32(f32_to_f16(x)) : bf16_to_f32(f32_to_bf16(x));
  }

  void make_rows(int32_t decode_spans) {
    for (const SpanSpec& spec : specs_) {
      first_row_.push_back(rows_);
      rows_ += spec.rows;
    }
    for (size_t s = 0; s < specs_.size(); ++s)
      for (int32_t r = 0; r < specs_[s].rows; ++r) {
        row_span_.push_back(static_cast<int32_t>(s));
        positions_.push_back(specs_[s].context + r);
      }
    row_span_.push_back(decode_spans - 1);  // the padding row belongs to the padding span
    positions_.push_back(-1);
    // Rounded to BF16 like the tensor-core kernels do, so that only the kernels' own rounding is seen.
    for (const SpanSpec& spec : specs_)
      for (int32_t r = 0; r < spec.rows; ++r) append_q(static_cast<uint32_t>(spec.context + r));
    append_q(0);
    for (int32_t i = 0; i <= rows_; ++i) mask_.push_back(static_cast<uint32_t>(random_()));
    mask_[0] = 0;  // a row that may see nothing
  }
  /// A row's queries depend on the seed and its position alone, so that steps can be compared row by row.
  void append_q(uint32_t position) {
    std::mt19937 random(seed_ * 1000003u + position);
    std::normal_distribution<float> normal;
    for (size_t i = 0; i < width(); ++i) q_.push_back(rounded(2.0f * normal(random), DType::kBF16));
  }

  void make_cache() {
    const AttentionShape& a = shape_;
    int32_t blocks = 1;  // block 0 stays NaN: a read through a wrong id shows
    for (const SpanSpec& spec : specs_) {
      const int32_t count = (spec.context + spec.rows + a.block_tokens - 1) / a.block_tokens;
      table_stride_ = std::max(table_stride_, count + 3);
      blocks += count;
    }
    std::vector<int32_t> ids;
    for (int32_t i = 1; i < blocks; ++i) ids.push_back(i);
    std::shuffle(ids.begin(), ids.end(), random_);
    const auto element = static_cast<size_t>(dtype_info(a.dtype).block_bytes);
    const size_t elements = static_cast<size_t>(blocks) * static_cast<size_t>(a.kv_heads * a.block_tokens * a.head_dim);
    std::vector<uint8_t> k_pages(elements * element, 0xff), v_pages = k_pages;  // NaN in each dtype
    const size_t group_entries = specs_.size() * static_cast<size_t>(table_stride_);
    tables_.assign(2 * group_entries, -1);  // two groups; the layer uses the second
    size_t next = 0;
    for (size_t s = 0; s < specs_.size(); ++s) {
      const int32_t tokens = specs_[s].context + specs_[s].rows;
      const int32_t low = a.window > 0 ? std::max(0, specs_[s].context - a.window + 1) : 0;
      k_.emplace_back(static_cast<size_t>(int64_t{a.kv_heads} * tokens * a.head_dim));
      v_.emplace_back(k_.back().size());
      std::mt19937 random(seed_ * 7919u + static_cast<uint32_t>(tokens));  // of the sequence's length alone
      std::normal_distribution<float> normal;
      for (float& x : k_.back()) x = rounded(normal(random), a.dtype, a.k_scale);
      for (float& x : v_.back()) x = rounded(normal(random), a.dtype, a.v_scale);
      for (int32_t b = 0; b * a.block_tokens < tokens; ++b) {
        const int32_t id = ids[next++];
        if ((b + 1) * a.block_tokens <= low) continue;  // behind the window: freed
        tables_[group_entries + s * static_cast<size_t>(table_stride_) + static_cast<size_t>(b)] = id;
        for (int32_t h = 0; h < a.kv_heads; ++h)
          for (int32_t t = std::max(low, b * a.block_tokens); t < std::min(tokens, (b + 1) * a.block_tokens); ++t) {
            const int64_t at = ((int64_t{id} * a.kv_heads + h) * a.block_tokens + t % a.block_tokens) * a.head_dim;
            store(k_pages, at, token(k_, s, h, t), a.k_scale);
            store(v_pages, at, token(v_, s, h, t), a.v_scale);
          }
      }
    }
    k_device_ = to_device(context_, k_pages);
    v_device_ = to_device(context_, v_pages);
    args.kv_blocks = blocks;
  }
  void store(std::vector<uint8_t>& pages, int64_t at, const float* from, float scale) const {
    for (int64_t d = 0; d < shape_.head_dim; ++d) {
      if (shape_.dtype == DType::kF8E4M3) {
        pages[static_cast<size_t>(at + d)] = f32_to_e4m3(from[d] / scale);
        continue;
      }
      if (shape_.dtype == DType::kF32) {
        std::memcpy(pages.data() + (at + d) * 4, from + d, 4);
        continue;
      }
      const uint16_t half = shape_.dtype == DType::kF16 ? f32_to_f16(from[d]) : f32_to_bf16(from[d]);
      std::memcpy(pages.data() + (at + d) * 2, &half, 2);
    }
  }

  void make_step(const std::vector<SpanSpec>& decode, const std::vector<SpanSpec>& prefill) {
    std::vector<int32_t> rows, contexts;
    for (const SpanSpec& spec : specs_) {
      rows.push_back(spec.rows);
      contexts.push_back(spec.context);
    }
    keep_.push_back(to_device(context_, positions_));
    keep_.push_back(to_device(context_, row_span_));
    keep_.push_back(to_device(context_, first_row_));
    keep_.push_back(to_device(context_, rows));
    keep_.push_back(to_device(context_, contexts));
    keep_.push_back(to_device(context_, tables_));
    keep_.push_back(to_device(context_, q_));
    keep_.push_back(to_device(context_, mask_));
    StepView& step = args.step;
    step.rows = rows_ + 1;
    step.spans = static_cast<int32_t>(specs_.size());
    step.positions = keep_[0].as<int32_t>();
    step.row_span = keep_[1].as<int32_t>();
    step.span_first_row = keep_[2].as<int32_t>();
    step.span_rows = keep_[3].as<int32_t>();
    step.span_context = keep_[4].as<int32_t>();
    step.block_tables = keep_[5].as<int32_t>();
    step.table_stride = table_stride_;
    step.max_spans = step.spans;
    step.decode_spans = static_cast<int32_t>(decode.size()) + 1;
    for (const SpanSpec& spec : decode) {
      step.max_decode_rows = std::max(step.max_decode_rows, spec.rows);
      step.max_context = std::max(step.max_context, spec.context + spec.rows);
    }
    for (const SpanSpec& spec : prefill) {
      step.max_prefill_rows = std::max(step.max_prefill_rows, spec.rows);
      step.max_prefill_context = std::max(step.max_prefill_context, spec.context + spec.rows);
    }
    // The host knows bounds, not lengths.
    if (step.max_context > 0) step.max_context += 70;
    if (step.max_prefill_context > 0) step.max_prefill_context += 70;

    args.q = keep_[6].as<float>();
    args.q_stride = static_cast<int64_t>(width());
    args.heads = shape_.heads;
    args.kv_heads = shape_.kv_heads;
    args.head_dim = shape_.head_dim;
    args.scale = 1.0f / std::sqrt(static_cast<float>(shape_.head_dim));
    args.window = shape_.window;
    args.causal = shape_.causal;
    args.ancestor_mask = shape_.masked ? keep_[7].as<uint32_t>() : nullptr;
    args.kv = {k_device_.data(), v_device_.data(), shape_.dtype, shape_.kv_heads, shape_.head_dim, shape_.block_tokens, 1};
    args.kv.k_scale = shape_.k_scale, args.kv.v_scale = shape_.v_scale;
    context_.synchronize();  // allocations are zeroed on the stream
    out_f32_ = context_.allocate((size() + padding()) * 4);
    out_bf16_ = context_.allocate((size() + padding()) * 2);
    args.out_f32 = out_f32_.as<float>();
    args.out_bf16 = out_bf16_.as<uint16_t>();
    // room for splits of 64 tokens side by side
    const int64_t packed = int64_t{std::max(step.max_decode_rows, step.max_prefill_rows)} * step.spans * shape_.heads;
    const int64_t splits = std::max(step.max_context, step.max_prefill_context) / 64 + 1;
    const size_t bytes =
        std::max(attention_scratch_bytes(step.rows, step.spans, shape_.heads, shape_.head_dim, context_.facts().multiprocessors),
                 kAttentionCounterBytes + static_cast<size_t>(splits * packed * (shape_.head_dim + 2) * 4));
    scratch_ = context_.allocate(bytes);
    args.scratch = scratch_.as<float>();
    args.scratch_bytes = bytes;
  }

  Context& context_;
  AttentionShape shape_;
  uint32_t seed_;
  std::mt19937 random_;
  std::vector<SpanSpec> specs_;
  std::vector<int32_t> first_row_, row_span_, positions_, tables_;
  std::vector<float> q_;
  std::vector<uint32_t> mask_;
  std::vector<std::vector<float>> k_, v_;  // per span [kv_heads, tokens, head_dim], rounded to the cache dtype
  int32_t rows_ = 0, table_stride_ = 0;
  Buffer k_device_, v_device_, out_f32_, out_bf16_, scratch_;
  std::vector<Buffer> keep_;
  std::vector<uint16_t> bf16_;
};

}  // namespace slipstream::cuda::test
