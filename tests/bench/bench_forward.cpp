// Times the CPU backend on the shapes of a dense model, layer by layer, without a checkpoint: random Q4_1 matrices and a
// Q8_0 head of SmolLM2-135M's sizes. One JSON line per figure; the best of many passes, since other work disturbs.
//   bench_forward [threads] [passes] [isa]
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "kernels/cpu/thread_pool.h"
#include "kernels/formats.h"
#include "kernels/ops.h"

using namespace slipstream;

namespace {

constexpr int kLayers = 30, kHidden = 576, kHeads = 9, kKvHeads = 3, kHeadDim = 64, kFfn = 1536, kVocab = 49152;
constexpr int kBlockTokens = 32;

/// With one thread: its CPU time, which foreign load disturbs less than the wall clock.
bool cpu_clock = false;

double now_ms() {
  timespec t;
  clock_gettime(cpu_clock ? CLOCK_THREAD_CPUTIME_ID : CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) * 1e3 + static_cast<double>(t.tv_nsec) / 1e6;
}

struct Stored {
  std::vector<std::byte> bytes;
  WeightSpec spec;
};

Stored stored(DType dtype, int64_t rows, int64_t cols, WeightRole role, int32_t shards = 1) {
  Stored s;
  const int64_t row = row_bytes(dtype, cols);
  s.bytes.resize(static_cast<size_t>(rows * row));
  std::mt19937 rng(1);
  for (auto& b : s.bytes) b = static_cast<std::byte>(rng() & 0xff);
  const DTypeInfo& info = dtype_info(dtype);
  for (size_t at = 0; at < s.bytes.size(); at += static_cast<size_t>(info.block_bytes)) {
    const uint16_t d = f32_to_f16(0.01f), m = f32_to_f16(-0.07f);
    std::memcpy(s.bytes.data() + at, &d, 2);
    if (dtype == DType::kQ4_1) std::memcpy(s.bytes.data() + at + 2, &m, 2);
  }
  s.spec.role = role;
  s.spec.parts.push_back({"w", dtype, rows, cols, s.bytes.data(), row});
  s.spec.virtual_shards = s.spec.local_shards = shards;
  return s;
}

struct Layer {
  std::unique_ptr<Weight> qkv, o, gate_up, down;
  Buffer k, v;
};

/// A forward's ops in order, with a stopwatch per kind.
class Forward {
 public:
  Forward(Ops& ops, int32_t max_rows, int32_t tokens) : ops_(ops) {
    const Stored qkv = stored(DType::kQ4_1, (kHeads + 2 * kKvHeads) * kHeadDim, kHidden, WeightRole::kLinear);
    const Stored o = stored(DType::kQ4_1, kHidden, kHeads * kHeadDim, WeightRole::kRowLinear, 3);
    const Stored gate_up = stored(DType::kQ4_1, 2 * kFfn, kHidden, WeightRole::kLinear);
    const Stored down = stored(DType::kQ4_1, kHidden, kFfn, WeightRole::kRowLinear, 12);
    const Stored head = stored(DType::kQ8_0, kVocab, kHidden, WeightRole::kEmbeddingHead);
    const double begin = now_ms();
    blocks_ = (tokens + kBlockTokens - 1) / kBlockTokens;
    for (int i = 0; i < kLayers; ++i) {
      Layer layer;
      layer.qkv = ops.prepare_weight(qkv.spec);
      layer.o = ops.prepare_weight(o.spec);
      layer.gate_up = ops.prepare_weight(gate_up.spec);
      layer.down = ops.prepare_weight(down.spec);
      const size_t bytes = static_cast<size_t>(blocks_) * kKvHeads * kBlockTokens * kHeadDim * 2;
      layer.k = ops.allocate(bytes);
      layer.v = ops.allocate(bytes);
      layers_.push_back(std::move(layer));
    }
    head_ = ops.prepare_weight(head.spec);
    std::printf("{\"figure\": \"repack_ms\", \"value\": %.1f}\n", now_ms() - begin);
    const auto act = [&](int64_t cols, const Weight& w) { return ops.make_activation(max_rows, cols, ops.activation_forms(w)); };
    normed_ = act(kHidden, *layers_[0].qkv);
    attended_ = act(kHeads * kHeadDim, *layers_[0].o);
    ffn_ = act(kFfn, *layers_[0].down);
    const auto floats = [&](int64_t cols) { return std::vector<float>(static_cast<size_t>(max_rows * cols)); };
    residual_ = floats(kHidden);
    qkv_ = floats((kHeads + 2 * kKvHeads) * kHeadDim);
    gate_up_ = floats(2 * kFfn);
    logits_.resize(static_cast<size_t>(std::min(max_rows, 64)) * kVocab);
    norm_.assign(kHidden, 1.0f);
    for (int i = 0; i < kHeadDim / 2; ++i) inv_freq_.push_back(std::pow(100000.0f, -2.0f * static_cast<float>(i) / kHeadDim));
    for (int32_t b = 0; b < blocks_; ++b) table_.push_back(b);
    column_ = table_.data();
    ops.warm_up(max_rows);
  }

  /// spans of equal rows; `all_logits` false: the head of the last row only.
  void run(int32_t sequences, int32_t rows_each, int32_t context, bool all_logits) {
    const int32_t rows = sequences * rows_each;
    std::vector<SpanRows> spans;
    std::vector<int32_t> positions, ids(static_cast<size_t>(rows), 5);
    for (int32_t i = 0; i < sequences; ++i) {
      spans.push_back({i * rows_each, rows_each, context, &column_});
      for (int32_t r = 0; r < rows_each; ++r) positions.push_back(context + r);
    }
    const StepInputs step{rows, ids.data(), positions.data(), spans, {}};
    clock(nullptr);
    ops_.embed(*head_, step, 1.0f, residual_.data());
    clock("embed");
    ops_.rms_norm(residual_.data(), rows, norm_.data(), 1e-5f, &normed_);
    clock("norm");
    for (Layer& layer : layers_) {
      ops_.linear(*layer.qkv, normed_, nullptr, qkv_.data());
      clock("qkv");
      QkvParams q;
      q.step = &step, q.qkv = qkv_.data(), q.heads = kHeads, q.kv_heads = kKvHeads, q.head_dim = kHeadDim;
      q.rope = {RopeStyle::kInterleaved, kHeadDim, inv_freq_.data(), 1.0f};
      q.kv = {layer.k.data(), layer.v.data(), DType::kBF16, kKvHeads, kHeadDim, kBlockTokens, 0};
      ops_.qkv_norm_rope_cache(q);
      clock("rope");
      AttentionParams a;
      a.step = &step, a.q = qkv_.data(), a.q_stride = (kHeads + 2 * kKvHeads) * kHeadDim;
      a.heads = kHeads, a.kv_heads = kKvHeads, a.head_dim = kHeadDim, a.scale = 0.125f, a.kv = q.kv, a.out = &attended_;
      ops_.attention(a);
      clock("attention");
      ops_.row_linear_add_norm(*layer.o, attended_, nullptr, residual_.data(), norm_.data(), 1e-5f, &normed_);
      clock("o");
      ops_.linear(*layer.gate_up, normed_, nullptr, gate_up_.data());
      clock("gate_up");
      ops_.swiglu(gate_up_.data(), rows, &ffn_);
      clock("swiglu");
      ops_.row_linear_add_norm(*layer.down, ffn_, nullptr, residual_.data(), norm_.data(), 1e-5f, &normed_);
      clock("down");
    }
    if (!all_logits) ops_.rms_norm(residual_.data() + (rows - 1) * kHidden, 1, norm_.data(), 1e-5f, &normed_);
    ops_.linear(*head_, normed_, nullptr, logits_.data());
    clock("head");
  }

  void time(const char* name, int32_t sequences, int32_t rows_each, int32_t context, bool all_logits, int passes) {
    double best = 1e9;
    std::vector<std::pair<std::string, double>> best_parts;
    for (int i = 0; i < passes; ++i) {
      parts_.clear();
      const double begin = now_ms();
      run(sequences, rows_each, context, all_logits);
      const double ms = now_ms() - begin;
      if (ms < best) best = ms, best_parts = parts_;
    }
    const int32_t rows = sequences * rows_each;
    std::printf("{\"figure\": \"%s\", \"rows\": %d, \"context\": %d, \"ms\": %.3f, \"tokens_per_s\": %.0f, \"parts_ms\": {", name,
                rows, context, best, rows / best * 1000);
    for (size_t i = 0; i < best_parts.size(); ++i)
      std::printf("%s\"%s\": %.3f", i == 0 ? "" : ", ", best_parts[i].first.c_str(), best_parts[i].second);
    std::printf("}}\n");
    std::fflush(stdout);
  }

 private:
  void clock(const char* part) {
    const double t = now_ms();
    if (part != nullptr) {
      auto at = std::find_if(parts_.begin(), parts_.end(), [&](const auto& p) { return p.first == part; });
      if (at == parts_.end()) at = parts_.insert(parts_.end(), {part, 0.0});
      at->second += t - last_;
    }
    last_ = t;
  }

  Ops& ops_;
  int32_t blocks_ = 0;
  std::vector<Layer> layers_;
  std::unique_ptr<Weight> head_;
  Activation normed_, attended_, ffn_;
  std::vector<float> residual_, qkv_, gate_up_, logits_, norm_, inv_freq_;
  std::vector<int32_t> table_;
  const int32_t* column_ = nullptr;
  std::vector<std::pair<std::string, double>> parts_;
  double last_ = 0;
};

/// Read bandwidth over a buffer far larger than the caches: the ceiling of decode.
void bandwidth(int32_t threads) {
  ThreadPool pool(threads);
  const int64_t words = int64_t{32} << 20;  // 256 MiB
  std::vector<uint64_t> data(static_cast<size_t>(words), 1);
  double best = 0;
  std::vector<uint64_t> sums(64);
  for (int pass = 0; pass < 10; ++pass) {
    const double begin = now_ms();
    pool.parallel_for(64, [&](int64_t i) {
      uint64_t a[8] = {};
      const uint64_t* p = data.data() + i * (words / 64);
      for (int64_t k = 0; k < words / 64; k += 8)
        for (int j = 0; j < 8; ++j) a[j] += p[k + j];
      sums[static_cast<size_t>(i)] = a[0] + a[1] + a[2] + a[3] + a[4] + a[5] + a[6] + a[7];
    });
    best = std::max(best, static_cast<double>(words) * 8 / (now_ms() - begin) / 1e6);
  }
  std::printf("{\"figure\": \"read_bandwidth_gb_s\", \"threads\": %d, \"value\": %.1f, \"check\": %d}\n", pool.threads(), best,
              static_cast<int>(sums[0] != 0));
}

}  // namespace

int main(int argc, char** argv) {
  const int32_t threads = argc > 1 ? std::atoi(argv[1]) : 2;
  const int passes = argc > 2 ? std::max(1, std::atoi(argv[2])) : 30;
  CpuOptions options;
  options.threads = threads;
  cpu_clock = threads == 1;
  if (argc > 3) options.isa = argv[3];
  bandwidth(threads);
  auto ops = make_cpu_ops(options);
  Forward forward(*ops, 512, 1024 + 32);
  for (const int32_t rows : {1, 2, 3, 4, 8, 16}) forward.time("rows_of_one_sequence", 1, rows, 128, true, passes);
  forward.time("one_row_long_context", 1, 1, 1000, true, passes);
  forward.time("eight_sequences", 8, 1, 128, true, passes);
  for (const int32_t rows : {64, 256, 512}) forward.time("prefill", 1, rows, 0, false, std::max(2, passes / 6));
  return 0;
}
