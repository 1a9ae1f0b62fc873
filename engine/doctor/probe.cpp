// See probe.h.
#include "engine/doctor/probe.h"

namespace slipstream {
namespace {

constexpr int32_t kBlockTokens = 32;

}  // namespace

Result<std::unique_ptr<Probe>> Probe::load(Checkpoint& checkpoint, const ModelConfig& config, Ops& ops, const LoadOptions& load,
                                           int32_t max_tokens, DType cache_dtype) {
  std::unique_ptr<Probe> probe(new Probe(ops));
  LoadOptions options = load;
  options.max_rows = options.max_logit_rows = max_tokens;
  SLIP_TRY(probe->model_, load_model(checkpoint, config, ops, options));
  const int32_t each = (max_tokens + kBlockTokens - 1) / kBlockTokens;
  KvCacheShape shape;
  shape.groups = probe->model_->cache_groups();
  shape.blocks.assign(shape.groups.size(), kProbeSequences * each);
  shape.block_tokens = kBlockTokens;
  shape.dtype = cache_dtype;
  SLIP_TRY(probe->kv_, KvCache::create(ops, shape));
  // Blocks in descending order, sequences interleaved: a kernel that ignores the table reads another's.
  for (int32_t s = 0; s < kProbeSequences; ++s) {
    std::vector<int32_t> table;
    for (int32_t b = 0; b < each; ++b) table.push_back((each - 1 - b) * kProbeSequences + s);
    probe->tables_.push_back(std::move(table));
  }
  for (const auto& table : probe->tables_) probe->columns_.emplace_back(shape.groups.size(), table.data());
  ops.warm_up(max_tokens);
  return probe;
}

std::vector<float> Probe::step(std::span<const ProbeSpan> spans, std::span<const int32_t> logit_rows, Taps* taps) {
  std::vector<int32_t> tokens, positions;
  std::vector<SpanRows> rows;
  for (const ProbeSpan& span : spans) {
    const auto sequence = static_cast<size_t>(span.sequence);
    rows.push_back({static_cast<int32_t>(tokens.size()), static_cast<int32_t>(span.tokens.size()), span.context,
                    columns_[sequence].data(), static_cast<int32_t>(tables_[sequence].size())});
    for (size_t i = 0; i < span.tokens.size(); ++i) positions.push_back(span.context + static_cast<int32_t>(i));
    tokens.insert(tokens.end(), span.tokens.begin(), span.tokens.end());
  }
  StepInputs inputs{static_cast<int32_t>(tokens.size()), tokens.data(), positions.data(), rows, logit_rows};
  inputs.groups = kv_.groups();
  model_->forward(inputs, kv_, taps);
  logits_ = model_->head();
  std::vector<float> out(logit_rows.size() * static_cast<size_t>(config().vocab));
  ops_.download(out.data(), logits_, out.size() * sizeof(float));
  return out;
}

std::vector<float> Probe::run(std::span<const ProbeSpan> spans, std::span<const int32_t> logit_rows) {
  return step(spans, logit_rows, nullptr);
}

std::vector<float> Probe::run_taps(std::span<const int32_t> tokens, std::vector<float>* logits) {
  std::vector<int32_t> layers, rows;
  for (int32_t l = 0; l < config().layers; ++l) layers.push_back(l);
  for (size_t r = 0; r < tokens.size(); ++r) rows.push_back(static_cast<int32_t>(r));
  const size_t count = tokens.size() * layers.size() * static_cast<size_t>(config().hidden);
  Buffer memory = ops_.allocate(count * sizeof(float));
  Taps taps{layers, memory.as<float>()};
  const ProbeSpan span{0, 0, {tokens.begin(), tokens.end()}};
  *logits = step({&span, 1}, rows, &taps);
  std::vector<float> out(count);
  ops_.download(out.data(), memory.data(), count * sizeof(float));
  return out;
}

}  // namespace slipstream
