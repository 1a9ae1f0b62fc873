// See model_runner.h.
#include "tests/model/model_runner.h"

#include <algorithm>
#include <thread>

#include "engine/parallel/local_comm.h"
#include "tests/cuda/feature_level.h"

namespace slipstream::test {
namespace {

/// One buffer per layer for K and for V; blocks are handed out in descending order, so that a kernel that ignores the
/// block table is noticed.
class PlainCache final : public KvViews {
 public:
  PlainCache(Ops& ops, const std::vector<CacheGroupSpec>& groups, const RunnerOptions& options)
      : blocks_((options.max_tokens + options.block_tokens - 1) / options.block_tokens) {
    for (size_t group = 0; group < groups.size(); ++group) {
      const CacheGroupSpec& spec = groups[group];
      const size_t bytes = static_cast<size_t>(blocks_) * static_cast<size_t>(spec.kv_heads * options.block_tokens) *
                           static_cast<size_t>(row_bytes(options.cache_dtype, spec.head_dim));
      for (int32_t l = 0; l < spec.layers; ++l) {
        storage_.push_back(ops.allocate(bytes));
        storage_.push_back(ops.allocate(bytes));
        layers_.push_back({storage_[storage_.size() - 2].data(), storage_.back().data(), options.cache_dtype,
                           spec.kv_heads, spec.head_dim, options.block_tokens, static_cast<int32_t>(group)});
      }
      std::vector<int32_t> table(static_cast<size_t>(blocks_));
      for (int32_t b = 0; b < blocks_; ++b) table[static_cast<size_t>(b)] = blocks_ - 1 - b;
      tables_.push_back(std::move(table));
    }
    for (const auto& table : tables_) columns_.push_back(table.data());
  }
  KvLayer layer(int32_t index) const override { return layers_.at(static_cast<size_t>(index)); }
  const int32_t* const* block_tables() const { return columns_.data(); }
  int32_t blocks() const { return blocks_; }

 private:
  int32_t blocks_;
  std::vector<Buffer> storage_;
  std::vector<KvLayer> layers_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<const int32_t*> columns_;
};

}  // namespace

struct ModelRunner::Rank {
  std::unique_ptr<Ops> ops;
  std::unique_ptr<PlainCache> cache;
  std::unique_ptr<Model> model;
};

ModelRunner::ModelRunner(const ModelConfig& config, const RunnerOptions& options) : config_(config), options_(options) {
  if (options_.max_rows == 0) options_.max_rows = options_.max_tokens;
}
ModelRunner::~ModelRunner() {
  // Models and caches give their buffers back to their Ops.
  for (auto& rank : ranks_) {
    rank->model.reset();
    rank->cache.reset();
  }
}

Result<std::unique_ptr<ModelRunner>> ModelRunner::make(Checkpoint& checkpoint, const ModelConfig& config,
                                                       const RunnerOptions& options) {
  std::unique_ptr<ModelRunner> runner(new ModelRunner(config, options));
  const RunnerOptions& o = runner->options_;
  if (o.ranks > 1) runner->comms_ = make_local_comms(o.ranks);
  for (int32_t r = 0; r < o.ranks; ++r) {
    auto rank = std::make_unique<Rank>();
    rank->ops = o.backend == "cuda"  ? gpu_ops()
                : o.backend == "cpu" ? make_cpu_ops({.threads = o.threads, .isa = o.isa})
                                     : make_reference_ops();
    if (o.ranks > 1) rank->ops->set_comm(runner->comms_[static_cast<size_t>(r)].get());
    LoadOptions load;
    load.max_rows = load.max_logit_rows = o.max_rows;
    load.dummy = o.dummy;
    load.dummy_seed = o.dummy_seed;
    load.rank = r;
    load.ranks = o.ranks;
    SLIP_TRY(rank->model, load_model(checkpoint, config, *rank->ops, load));
    rank->cache = std::make_unique<PlainCache>(*rank->ops, rank->model->cache_groups(), o);
    rank->ops->warm_up(o.max_rows);
    runner->ranks_.push_back(std::move(rank));
  }
  return runner;
}

void ModelRunner::run_rank(Rank& rank, std::span<const int32_t> ids, std::span<const int32_t> wanted, int32_t chunk,
                           Taps* taps, std::vector<float>& out) {
  const auto tokens = static_cast<int32_t>(ids.size());
  CHECK(tokens <= options_.max_tokens, "sequence over RunnerOptions::max_tokens");
  if (chunk <= 0) chunk = options_.max_rows;
  out.clear();
  size_t next = 0;
  for (int32_t first = 0; first < tokens; first += chunk) {
    const int32_t rows = std::min(chunk, tokens - first);
    std::vector<int32_t> positions, logit_rows;
    for (int32_t i = 0; i < rows; ++i) positions.push_back(first + i);
    for (; next < wanted.size() && wanted[next] < first + rows; ++next) logit_rows.push_back(wanted[next] - first);
    const SpanRows span{0, rows, first, rank.cache->block_tables(), rank.cache->blocks()};
    StepInputs step{rows, ids.data() + first, positions.data(), {&span, 1}, logit_rows};
    step.groups = static_cast<int32_t>(rank.model->cache_groups().size());
    if (options_.device_owned) {
      rank.ops->begin_step(&step);
      step.device_owned = true;
      step.token_ids = step.positions = nullptr;
      step.spans = {};
    }
    rank.model->forward(step, *rank.cache, taps);
    const float* logits = rank.model->head();
    const size_t count = logit_rows.size() * static_cast<size_t>(config_.vocab);
    const size_t before = out.size();
    out.resize(before + count);
    if (count > 0) rank.ops->download(out.data() + before, logits, count * sizeof(float));
  }
}

std::vector<std::vector<float>> ModelRunner::run_ranks(std::span<const int32_t> ids, std::span<const int32_t> wanted,
                                                       int32_t chunk) {
  std::vector<std::vector<float>> out(ranks_.size());
  if (ranks_.size() == 1) {
    run_rank(*ranks_[0], ids, wanted, chunk, nullptr, out[0]);
    return out;
  }
  std::vector<std::thread> threads;
  for (size_t r = 0; r < ranks_.size(); ++r)
    threads.emplace_back([&, r] { run_rank(*ranks_[r], ids, wanted, chunk, nullptr, out[r]); });
  for (std::thread& thread : threads) thread.join();
  return out;
}

std::vector<float> ModelRunner::run(std::span<const int32_t> ids, std::span<const int32_t> wanted, int32_t chunk) {
  return run_ranks(ids, wanted, chunk)[0];
}

std::vector<float> ModelRunner::run_taps(std::span<const int32_t> ids, std::span<const int32_t> layers,
                                         std::span<const int32_t> wanted) {
  CHECK(ranks_.size() == 1, "taps run at one rank");
  std::vector<float> out(ids.size() * layers.size() * static_cast<size_t>(config_.hidden));
  Taps taps{layers, out.data()};
  std::vector<float> logits;
  run_rank(*ranks_[0], ids, wanted, 0, &taps, logits);
  return out;
}

const Model& ModelRunner::model() const { return *ranks_[0]->model; }
Ops& ModelRunner::ops() { return *ranks_[0]->ops; }

}  // namespace slipstream::test
