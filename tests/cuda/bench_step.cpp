// Whole steps of the Qwen3-8B shape (or SmolLM2-135M's) on one GPU: decode at several batch sizes from captured graphs, and a long prompt. Every
// tensor of a format shares one buffer of random valid bytes, since time does not depend on values (zeros would run faster).
//
//   cuda_bench_step [bf16|fp8|q4_k|q8_0|q4_1 …] [--smollm2] [--layers N] [--context TOKENS] [--steps N] [--eager] [--deterministic]
// Prints median ms of a step over the stream's own clock (events around the step) and over the host's, and the host's share.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <random>
#include <string>

#include "engine/model/model.h"
#include "engine/run/cuda_executor.h"
#include "kernels/formats.h"
#include "tests/cuda/bench_clock.h"

using namespace slipstream;

namespace {

/// Tensors of the Qwen3-8B shape by their Hugging Face names.
class SharedBytesCheckpoint final : public Checkpoint {
 public:
  SharedBytesCheckpoint(const ModelConfig& c, DType dtype) {
    vector_.assign(static_cast<size_t>(std::max(c.hidden, c.ffn)), 1.0f);
    codes_.resize(static_cast<size_t>(int64_t{c.ffn} * c.hidden));  // codes of 2^-9 to 0.06, and scales of 1
    std::mt19937 rng(11);
    for (uint8_t& code : codes_) code = static_cast<uint8_t>(rng() & 0x9fu);
    const DType ends = dtype == DType::kF8E4M3 ? DType::kBF16 : dtype;
    fill(ends, int64_t{c.vocab} * c.hidden);
    add("model.embed_tokens.weight", ends, {c.vocab, c.hidden});
    if (!c.tied_embedding) add("lm_head.weight", ends, {c.vocab, c.hidden});
    add("model.norm.weight", DType::kF32, {c.hidden});
    for (int32_t l = 0; l < c.layers; ++l) {
      const std::string at = "model.layers." + std::to_string(l) + '.';
      add(at + "input_layernorm.weight", DType::kF32, {c.hidden});
      add(at + "post_attention_layernorm.weight", DType::kF32, {c.hidden});
      if (c.qk_norm) {
        add(at + "self_attn.q_norm.weight", DType::kF32, {c.head_dim});
        add(at + "self_attn.k_norm.weight", DType::kF32, {c.head_dim});
      }
      add(at + "self_attn.q_proj.weight", dtype, {int64_t{c.heads} * c.head_dim, c.hidden});
      add(at + "self_attn.k_proj.weight", dtype, {int64_t{c.kv_heads} * c.head_dim, c.hidden});
      add(at + "self_attn.v_proj.weight", dtype, {int64_t{c.kv_heads} * c.head_dim, c.hidden});
      add(at + "self_attn.o_proj.weight", dtype, {c.hidden, int64_t{c.heads} * c.head_dim});
      add(at + "mlp.gate_proj.weight", dtype, {c.ffn, c.hidden});
      add(at + "mlp.up_proj.weight", dtype, {c.ffn, c.hidden});
      add(at + "mlp.down_proj.weight", dtype, {c.hidden, c.ffn});
    }
    for (size_t i = 0; dtype == DType::kF8E4M3 && i < entries_.size(); ++i) {
      if (entries_[i].dtype != dtype) continue;
      const std::vector<int64_t> shape = c.fp8.scale_shape(entries_[i].shape[0], entries_[i].shape[1]);
      add(sibling_name(entries_[i].name, c.fp8.suffix), DType::kF32, shape);
    }
    std::ranges::sort(entries_, {}, &TensorEntry::name);
  }
  CheckpointKind kind() const override { return CheckpointKind::kSafetensors; }
  const std::string& path() const override { return path_; }
  const std::vector<TensorEntry>& tensors() const override { return entries_; }
  const std::map<std::string, MetaValue, std::less<>>& metadata() const override { return metadata_; }
  Result<std::string> read_side_file(std::string_view name, uint64_t) const override { return not_found(std::string(name)); }
  void release(const TensorEntry&) override {}

 private:
  void fill(DType dtype, int64_t elements) {
    const DTypeInfo& info = dtype_info(dtype);
    // a few thousand random blocks, repeated
    std::mt19937 rng(7);
    std::normal_distribution<float> normal(0, 0.02f);
    std::vector<std::byte> pattern(static_cast<size_t>(info.block_bytes) * 4099);
    for (size_t at = 0; at < pattern.size(); at += static_cast<size_t>(info.block_bytes)) {
      if (can_quantize(dtype)) {
        std::vector<float> values(static_cast<size_t>(info.block_elements));
        for (float& v : values) v = normal(rng);
        quantize_row(dtype, values.data(), pattern.data() + at, info.block_elements);
        continue;
      }
      for (int32_t i = 0; i < info.block_bytes; ++i) pattern[at + static_cast<size_t>(i)] = static_cast<std::byte>(rng() & 255u);
      const uint16_t d = f32_to_f16(0.0005f), m = f32_to_f16(0.00025f);  // Q4_K: d, dmin lead the block
      std::memcpy(pattern.data() + at, &d, 2);
      std::memcpy(pattern.data() + at + 2, &m, 2);
    }
    bytes_.resize(static_cast<size_t>(row_bytes(dtype, elements)));
    for (size_t at = 0; at < bytes_.size(); at += pattern.size())
      std::memcpy(bytes_.data() + at, pattern.data(), std::min(pattern.size(), bytes_.size() - at));
  }
  void add(const std::string& name, DType dtype, std::vector<int64_t> shape) {
    TensorEntry entry;
    entry.name = name;
    entry.dtype = dtype;
    int64_t elements = 1;
    for (const int64_t n : shape) elements *= n;
    entry.shape = std::move(shape);
    entry.data = dtype == DType::kF32 ? reinterpret_cast<const std::byte*>(vector_.data())
                 : dtype == DType::kF8E4M3 ? reinterpret_cast<const std::byte*>(codes_.data()) : bytes_.data();
    entry.bytes = static_cast<uint64_t>(row_bytes(dtype, elements));
    entries_.push_back(std::move(entry));
  }
  std::string path_ = "shared bytes";
  std::vector<TensorEntry> entries_;
  std::vector<float> vector_;
  std::vector<std::byte> bytes_;
  std::vector<uint8_t> codes_;
  std::map<std::string, MetaValue, std::less<>> metadata_;
};

ModelConfig qwen3_8b(int32_t layers) {
  ModelConfig c;
  c.architecture = "qwen3";
  c.name = "Qwen3-8B shape";
  c.layers = layers, c.hidden = 4096, c.heads = 32, c.kv_heads = 8, c.head_dim = 128, c.ffn = 12288, c.vocab = 151936;
  c.context_length = 40960, c.norm_eps = 1e-6f, c.qk_norm = true, c.rope_dim = 128, c.rope_theta = 1e6f;
  c.first_window_layer = layers;
  return c;
}

ModelConfig smollm2(int32_t) {
  ModelConfig c;
  c.architecture = "llama";
  c.name = "SmolLM2-135M shape";
  c.layers = 30, c.hidden = 576, c.heads = 9, c.kv_heads = 3, c.head_dim = 64, c.ffn = 1536, c.vocab = 49152;
  c.context_length = 8192, c.norm_eps = 1e-5f, c.tied_embedding = true, c.rope_dim = 64, c.rope_theta = 1e5f;
  c.first_window_layer = c.layers;
  return c;
}

double since_ms(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

}  // namespace

int main(int argc, char** argv) try {
  std::vector<DType> formats;
  int32_t layers = 36, context = 1024, steps = 40, prompt = 8192;
  bool eager = false, small = false, deterministic = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "bf16") formats.push_back(DType::kBF16);
    else if (a == "fp8") formats.push_back(DType::kF8E4M3);
    else if (a == "q4_k") formats.push_back(DType::kQ4_K);
    else if (a == "q8_0") formats.push_back(DType::kQ8_0);
    else if (a == "q4_1") formats.push_back(DType::kQ4_1);
    else if (a == "--smollm2") small = true;
    else if (a == "--eager") eager = true;
    else if (a == "--deterministic") deterministic = true;
    else if (i + 1 < argc && a == "--layers") layers = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--context") context = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--steps") steps = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--prompt") prompt = std::stoi(argv[++i]);
    else return std::fprintf(stderr, "unknown argument %s\n", a.c_str()), 2;
  }
  if (formats.empty()) formats = {DType::kBF16};
  std::string why;
  if (!cuda_available(&why)) return std::fprintf(stderr, "no GPU: %s\n", why.c_str()), 1;
  constexpr int32_t kSlots = 64, kBlock = 32;
  for (const DType dtype : formats) {
    ModelConfig config = small ? smollm2(layers) : qwen3_8b(layers);
    if (dtype == DType::kF8E4M3) config.fp8 = {Fp8Scheme::Scales::kBlock, 128, 128, "weight_scale_inv"};
    const auto load_start = std::chrono::steady_clock::now();
    SharedBytesCheckpoint checkpoint(config, dtype);
    RankParts parts;
    parts.ops = make_cuda_ops({.deterministic = deterministic});
    LoadOptions load;
    load.max_rows = std::max(prompt, 512);
    load.max_logit_rows = kSlots;
    auto model = load_model(checkpoint, config, *parts.ops, load);
    if (!model.ok()) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
    parts.model = std::move(*model);
    KvCacheShape kv;
    kv.groups = parts.model->cache_groups();
    const int32_t each = (std::max(context, 0) + steps * 4 + 64) / kBlock + 2;
    kv.blocks = {std::max(kSlots * each, prompt / kBlock + 8)};
    kv.block_tokens = kBlock;
    auto cache = KvCache::create(*parts.ops, kv);
    if (!cache.ok()) return std::fprintf(stderr, "%s\n", cache.error().message.c_str()), 1;
    parts.kv = std::move(*cache);
    parts.ops->warm_up(load.max_rows);
    DeviceShape shape;
    shape.slots = kSlots, shape.block_tokens = kBlock, shape.max_rows = load.max_rows;
    auto* ops = parts.ops.get();
    auto executor = make_cuda_executor(std::move(parts), shape,
                                       {.context_tokens = std::max(prompt + 64, each * kBlock), .eager = eager});
    std::printf("%s: loaded in %.1f s\n", std::string(dtype_info(dtype).name).c_str(), since_ms(load_start) / 1e3);
    for (const KernelChoice& choice : ops->kernel_report())
      std::printf("  %-28s %s%s%s\n", choice.op.c_str(), choice.kernel.c_str(), choice.why.empty() ? "" : "; ", choice.why.c_str());

    uint64_t number = 0;
    uint32_t generation = 0;
    const auto open = [&](StepPlan& plan, int32_t slot, int32_t tokens, int32_t cached, int32_t budget) {
      OpenSlot o;
      o.slot = slot, o.generation = ++generation;
      for (int32_t t = 0; t < tokens; ++t) o.history.push_back((t * 7919 + slot * 131) % config.vocab);
      o.prompt_tokens = tokens, o.cached_tokens = cached, o.remaining_tokens = budget;
      o.sampling.temperature = 0;
      plan.commands.push_back(o);
      GrantBlocks grant;
      grant.slot = slot;
      for (int32_t b = 0; b < (tokens + budget) / kBlock + 1; ++b) grant.blocks.push_back(slot * each + b);
      plan.commands.push_back(grant);
    };
    for (const int32_t batch : {1, 8, 16, 32, 64}) {
      // the cache holds noise of earlier steps or zeros: values do not matter, and nothing is prefilled
      std::vector<double> wall, host;
      std::vector<uint32_t> generations;
      for (int32_t step = 0; step < steps; ++step) {
        StepPlan plan;
        plan.step = ++number;
        for (int32_t s = 0; s < batch; ++s) {
          if (step == 0) open(plan, s, context, context - 1, 2 * steps), generations.push_back(generation);
          Span span;
          span.slot = s, span.generation = generations[static_cast<size_t>(s)];
          span.kind = SpanKind::kDecode, span.start = context + step, span.rows = 1, span.logits = LogitsWanted::kLast;
          plan.spans.push_back(span);
        }
        plan.total_rows = batch;
        const auto start = std::chrono::steady_clock::now();
        executor->forward(plan);
        executor->launch_commit(plan, StepMasks{});
        const double launched = since_ms(start);
        const StepResult result = executor->take_result();
        if (result.spans.at(0).emitted.size() != 1) return std::fprintf(stderr, "a decode step emitted nothing\n"), 1;
        if (step >= 4) wall.push_back(since_ms(start)), host.push_back(launched);
      }
      std::printf("  decode, %2d sequences at %d: %.3f ms a step (best %.3f), host launches %.3f ms, %.0f tok/s\n", batch, context,
                  cuda::bench::median(wall), *std::ranges::min_element(wall), cuda::bench::median(host), batch / cuda::bench::median(wall) * 1e3);
      StepPlan release;
      release.step = ++number;
      for (int32_t s = 0; s < batch; ++s) release.commands.push_back(ReleaseSlot{s, generations[static_cast<size_t>(s)]});
      executor->forward(release);
      executor->commit(release, StepMasks{});
    }
    if (prompt > 0) {
      std::vector<double> wall;
      for (int32_t round = 0; round < 4; ++round) {
        StepPlan plan;
        plan.step = ++number;
        OpenSlot o;
        o.slot = 0, o.generation = ++generation;
        for (int32_t t = 0; t < prompt; ++t) o.history.push_back((t * 7919 + round) % config.vocab);
        o.prompt_tokens = prompt, o.remaining_tokens = 8, o.sampling.temperature = 0;
        plan.commands.push_back(o);
        GrantBlocks grant;
        for (int32_t b = 0; b < prompt / kBlock + 1; ++b) grant.blocks.push_back(b);
        plan.commands.push_back(grant);
        Span span;
        span.slot = 0, span.generation = generation, span.kind = SpanKind::kPrefill, span.rows = prompt, span.logits = LogitsWanted::kLast;
        plan.spans.push_back(span);
        plan.total_rows = prompt;
        const auto start = std::chrono::steady_clock::now();
        executor->forward(plan);
        executor->commit(plan, StepMasks{});
        if (round > 0) wall.push_back(since_ms(start));
        StepPlan release;
        release.step = ++number;
        release.commands.push_back(ReleaseSlot{0, generation});
        executor->forward(release);
        executor->commit(release, StepMasks{});
      }
      std::printf("  prompt of %d tokens in one step: %.1f ms\n", prompt, cuda::bench::median(wall));
    }
    std::fflush(stdout);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_step: %s\n", error.what());
  return 1;
}
