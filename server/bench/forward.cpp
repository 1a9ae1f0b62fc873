// See forward.h.
#include "server/bench/forward.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>

#include "engine/cache/kv_cache.h"
#include "engine/model/model.h"
#include "engine/run/backend.h"
#include "engine/weights/checkpoint.h"
#include "kernels/ops.h"

namespace slipstream::bench {

namespace {

constexpr int32_t kBlockTokens = 32;

// Members are destroyed from the last to the first: cache and model before the Ops that owns their buffers.
struct Loaded {
  std::unique_ptr<Checkpoint> checkpoint;
  std::unique_ptr<Ops> ops;
  std::unique_ptr<Model> model;
  KvCache kv;
  std::vector<int32_t> blocks;              // 0, 1, 2 …
  std::vector<const int32_t*> block_tables;  // [cache groups]
};

Result<std::unique_ptr<Loaded>> load(const ForwardOptions& options) {
  auto out = std::make_unique<Loaded>();
  SLIP_TRY(const std::string path, resolve_model_path(options.model));
  SLIP_TRY(out->checkpoint, Checkpoint::open(path));
  SLIP_TRY(const ModelConfig config, read_model_config(*out->checkpoint));
  SLIP_TRY(out->ops, make_backend({.backend = options.backend, .threads = options.threads, .cpu_isa = {},
                                   .cuda_feature_level = options.cuda_feature_level}));
  const int32_t widest = std::max(options.context, *std::max_element(options.rows.begin(), options.rows.end()));
  LoadOptions wanted;
  wanted.max_rows = wanted.max_logit_rows = widest;
  SLIP_TRY(out->model, load_model(*out->checkpoint, config, *out->ops, wanted));
  KvCacheShape shape;
  shape.groups = out->model->cache_groups();
  const int32_t blocks = (options.context + widest + kBlockTokens - 1) / kBlockTokens;
  shape.blocks.assign(shape.groups.size(), blocks);
  shape.block_tokens = kBlockTokens;
  SLIP_TRY(out->kv, KvCache::create(*out->ops, shape));
  for (int32_t b = 0; b < blocks; ++b) out->blocks.push_back(b);
  out->block_tables.assign(shape.groups.size(), out->blocks.data());
  out->ops->warm_up(widest);
  return out;
}

/// Milliseconds of one forward and head over `rows` rows behind `context` tokens, with the logits of all or none.
double forward_ms(Loaded& loaded, int32_t context, int32_t rows) {
  std::vector<int32_t> tokens, positions, logit_rows;
  for (int32_t i = 0; i < rows; ++i) {
    tokens.push_back((17 + 31 * (context + i)) % loaded.model->config().vocab);
    positions.push_back(context + i);
    logit_rows.push_back(i);
  }
  const SpanRows span{0, rows, context, loaded.block_tables.data(), static_cast<int32_t>(loaded.blocks.size())};
  const StepInputs step{rows, tokens.data(), positions.data(), {&span, 1}, logit_rows};
  const auto start = std::chrono::steady_clock::now();
  loaded.model->forward(step, loaded.kv, nullptr);
  float last = 0;
  loaded.ops->download(&last, loaded.model->head(), sizeof last);  // waits for a device
  return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<int64_t>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

}  // namespace

int run_forward(const ForwardOptions& options) {
  auto opened = load(options);
  if (!opened.ok()) {
    std::fprintf(stderr, "bench: %s\n", opened.error().message.c_str());
    return 2;
  }
  Loaded& loaded = **opened;
  forward_ms(loaded, 0, options.context);  // fills the cache
  // The row counts take turns, so that a machine whose speed drifts treats them alike.
  std::map<int32_t, std::vector<double>> times;
  for (int32_t repeat = -2; repeat < options.repeats; ++repeat)
    for (const int32_t rows : options.rows) {
      const double ms = forward_ms(loaded, options.context, rows);
      if (repeat >= 0) times[rows].push_back(ms);
    }
  const double one = median(times.begin()->second);
  nlohmann::ordered_json report;
  if (!options.json)
    std::printf("%s, context %d, median of %d\n\n  rows       ms   of %d row\n", loaded.ops->name().c_str(), options.context,
                options.repeats, times.begin()->first);
  for (const auto& [rows, ms] : times) {
    report["rows"][std::to_string(rows)] = median(ms);
    if (!options.json) std::printf("%6d %8.2f %8.2fx\n", rows, median(ms), median(ms) / one);
  }
  if (options.json) std::printf("%s\n", report.dump().c_str());
  return 0;
}

}  // namespace slipstream::bench
