// Where a step's time goes, for the shape of cuda_bench_step. Launched one by one with events around each op: what an op takes
// alone. From a graph without the ops of one kind: what that kind adds to a step, where launches overlap.
//
//   cuda_bench_profile [bf16|fp8|q4_k|q8_0] [--rows N] [--prompt N] [--context N] [--layers N] [--arch N] [--composed] [--ncu]
// --arch hides what that architecture lacks: at 89, Hopper's products and the overlap of launches. --composed runs the default
// composition of fused ops. --ncu runs one eager step of each kind between cudaProfilerStart and
// cudaProfilerStop, for `ncu --profile-from-start off`.
#include <cuda_profiler_api.h>

#include <cstdio>
#include <numeric>

#include "engine/cache/kv_cache.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/ops_decorators.h"
#include "tests/cuda/bench_clock.h"
#include "tests/cuda/bench_model.h"

using namespace slipstream;
using namespace slipstream::cuda::bench;

namespace {

/// Times or leaves out the ops of a step by kind.
class ProfiledOps final : public ForwardingOps {
 public:
  ProfiledOps(cuda::CudaOps& ops, bool composed) : ForwardingOps(ops), ops_(ops), composed_(composed) {}

  std::string skip;     // the kind that is left out
  bool timed = false;
  std::map<std::string, std::vector<double>> us;  // of each kind, launch by launch

  void embed(const Weight& w, const StepInputs& step, float scale, float* out) override {
    run("embed", [&] { ops_.embed(w, step, scale, out); });
  }
  void rms_norm(const float* x, int32_t rows, const float* weight, float eps, Activation* out) override {
    run("norm", [&] { ops_.rms_norm(x, rows, weight, eps, out); });
  }
  void linear(const Weight& w, const Activation& x, const float* bias, float* out) override {
    run("linear " + shape(w), [&] { ops_.linear(w, x, bias, out); });
  }
  void qkv_norm_rope_cache(const QkvParams& p) override {
    run("rope", [&] { ops_.qkv_norm_rope_cache(p); });
  }
  void attention(const AttentionParams& p) override {
    p.out->rows = p.step->rows;
    run("attention", [&] { ops_.attention(p); });
  }
  void swiglu(const float* gate_up, int32_t rows, Activation* out) override {
    out->rows = rows;
    run("swiglu", [&] { ops_.swiglu(gate_up, rows, out); });
  }
  void linear_qkv(const Weight& w, const Activation& x, const float* bias, const QkvParams& p) override {
    if (composed_) return Ops::linear_qkv(w, x, bias, p);
    run("qkv+rope " + shape(w), [&] { ops_.linear_qkv(w, x, bias, p); });
  }
  void linear_swiglu(const Weight& w, const Activation& x, const float* bias, float* scratch, Activation* out) override {
    if (composed_) return Ops::linear_swiglu(w, x, bias, scratch, out);
    run("gate|up+swiglu " + shape(w), [&] { ops_.linear_swiglu(w, x, bias, scratch, out); });
    out->rows = x.rows;
  }
  void row_linear_add_norm(const Weight& w, const Activation& x, const float* bias, float* residual, const float* norm, float eps,
                           Activation* out) override {
    if (composed_) return Ops::row_linear_add_norm(w, x, bias, residual, norm, eps, out);
    if (out != nullptr) out->rows = x.rows;
    run("add+norm " + shape(w), [&] { ops_.row_linear_add_norm(w, x, bias, residual, norm, eps, out); });
  }
  void row_linear_partials(const Weight& w, const Activation& x, float* partials) override {
    run("linear " + shape(w), [&] { ops_.row_linear_partials(w, x, partials); });
  }
  void reduce_add_norm(const float* partials, int32_t shards, int32_t rows, const float* bias, float* residual, int64_t cols,
                       const float* norm, float eps, Activation* out) override {
    run("norm", [&] { ops_.reduce_add_norm(partials, shards, rows, bias, residual, cols, norm, eps, out); });
  }

 private:
  static std::string shape(const Weight& w) { return std::to_string(w.rows()) + "x" + std::to_string(w.cols()); }
  template <class Launch>
  void run(const std::string& kind, Launch&& launch) {
    if (kind == skip) return;
    if (!timed) return launch();
    us[kind].push_back(median_us(ops_.context(), 1, launch));
  }

  cuda::CudaOps& ops_;
  const bool composed_;
};

/// `rows` sequences of `context` tokens with a row each, or one prompt.
struct Step {
  std::vector<int32_t> ids, positions, logit_rows;
  std::vector<std::vector<int32_t>> blocks;
  std::vector<const int32_t*> tables;
  std::vector<SpanRows> spans;
  StepInputs inputs;

  Step(int32_t sequences, int32_t rows, int32_t context, int32_t block_tokens) {
    const int32_t each = (context + rows) / block_tokens + 1;
    for (int32_t s = 0; s < sequences; ++s) {
      blocks.emplace_back(static_cast<size_t>(each));
      std::iota(blocks.back().begin(), blocks.back().end(), s * each);
      for (int32_t r = 0; r < rows; ++r) ids.push_back((r * 7919 + s * 131) % 150000), positions.push_back(context + r);
      logit_rows.push_back((s + 1) * rows - 1);
    }
    for (const auto& table : blocks) tables.push_back(table.data());
    for (int32_t s = 0; s < sequences; ++s) spans.push_back({s * rows, rows, context, &tables[static_cast<size_t>(s)], each});
    inputs = {sequences * rows, ids.data(), positions.data(), spans, logit_rows};
  }
};

/// Edges of the graph of what `launch` puts on the stream, and those among them that let a launch overlap the one before.
std::pair<size_t, size_t> count_edges(cuda::Context& context, const std::function<void()>& launch) {
  using cuda::check;
  check(cudaStreamBeginCapture(context.stream(), cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  launch();
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(context.stream(), &graph), "cudaStreamEndCapture");
  size_t count = 0;
  check(cudaGraphGetEdges(graph, nullptr, nullptr, nullptr, &count), "cudaGraphGetEdges");
  std::vector<cudaGraphNode_t> from(count), to(count);
  std::vector<cudaGraphEdgeData> data(count);
  check(cudaGraphGetEdges(graph, from.data(), to.data(), data.data(), &count), "cudaGraphGetEdges");
  cudaGraphDestroy(graph);
  return {count, static_cast<size_t>(std::ranges::count_if(data, [](const auto& edge) { return edge.type == cudaGraphDependencyTypeProgrammatic; }))};
}

}  // namespace

int main(int argc, char** argv) try {
  DType dtype = DType::kBF16;
  int32_t rows = 1, prompt = 0, context = 1024, layers = 12, arch = 0;
  bool composed = false, ncu = false;
  for (int i = 1; i < argc; ++i) {
    const std::string a = argv[i];
    if (a == "bf16") dtype = DType::kBF16;
    else if (a == "q4_k") dtype = DType::kQ4_K;
    else if (a == "q8_0") dtype = DType::kQ8_0;
    else if (a == "fp8") dtype = DType::kF8E4M3;
    else if (a == "--composed") composed = true;
    else if (a == "--ncu") ncu = true;
    else if (i + 1 < argc && a == "--rows") rows = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--prompt") prompt = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--context") context = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--layers") layers = std::stoi(argv[++i]);
    else if (i + 1 < argc && a == "--arch") arch = std::stoi(argv[++i]);
    else return std::fprintf(stderr, "unknown argument %s\n", a.c_str()), 2;
  }
  std::string why;
  if (!cuda_available(&why)) return std::fprintf(stderr, "no GPU: %s\n", why.c_str()), 1;
  constexpr int32_t kBlock = 32;
  const ModelConfig config = stored_as(qwen3_8b(layers), dtype);
  SharedBytesCheckpoint checkpoint(config, dtype);
  const auto inner = make_cuda_ops({.feature_arch = arch});
  auto& device = static_cast<cuda::CudaOps&>(*inner);
  ProfiledOps ops(device, composed);
  LoadOptions load;
  load.max_rows = std::max(prompt, 512);
  load.max_logit_rows = std::max(rows, 1);
  auto model = load_model(checkpoint, config, ops, load);
  if (!model.ok()) return std::fprintf(stderr, "%s\n", model.error().message.c_str()), 1;
  Step step = prompt > 0 ? Step(1, prompt, 0, kBlock) : Step(rows, 1, context - 1, kBlock);
  KvCacheShape shape;
  shape.groups = (*model)->cache_groups();
  shape.blocks = {static_cast<int32_t>(step.spans.size()) * step.spans[0].blocks};
  shape.block_tokens = kBlock;
  auto cache = KvCache::create(ops, shape);
  if (!cache.ok()) return std::fprintf(stderr, "%s\n", cache.error().message.c_str()), 1;
  inner->warm_up(load.max_rows);
  const auto forward = [&] {
    (*model)->forward(step.inputs, *cache, nullptr);
    (*model)->head();
  };
  const auto renew = [&] { step.inputs.device = nullptr, inner->begin_step(&step.inputs); };
  renew();
  forward();
  if (ncu) {
    device.context().synchronize();
    cudaProfilerStart();
    forward();
    device.context().synchronize();
    cudaProfilerStop();
    return 0;
  }
  ops.timed = true;
  forward();
  ops.timed = false;
  std::map<std::string, double> alone;
  for (const auto& [kind, times] : ops.us) alone[kind] = std::accumulate(times.begin(), times.end(), 0.0);
  // A prompt's narrowed last layer is uploaded in the middle: no graph, and none is needed where launches are short.
  const auto whole = [&] {
    if (prompt > 0) return median_us(device.context(), 3, [&] { renew(), forward(); });
    renew();
    const cuda::Graph graph(device.context(), forward);
    return median_us(device.context(), 15, [&] { graph.replay(device.context()); });
  };
  if (prompt == 0) {
    renew();
    const auto [edges, overlapping] = count_edges(device.context(), forward);
    std::printf("%zu launches wait for one before, %zu of them overlap it\n", edges, overlapping);
  }
  const double all = whole();
  std::printf("%s, %d layers, %s: %.1f us a step\n", std::string(dtype_info(dtype).name).c_str(), layers,
              prompt > 0 ? ("a prompt of " + std::to_string(prompt)).c_str() : (std::to_string(rows) + " rows at " + std::to_string(context)).c_str(), all);
  for (const auto& [kind, times] : ops.us) {
    ops.skip = kind;
    const double without = whole();
    std::printf("  %-32s %3zu times: alone %7.2f us each, adds %7.2f us each, %5.1f %% of the step\n", kind.c_str(), times.size(),
                alone[kind] / static_cast<double>(times.size()), (all - without) / static_cast<double>(times.size()), 100 * (all - without) / all);
  }
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "bench_profile: %s\n", error.what());
  return 1;
}
