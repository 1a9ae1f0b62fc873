// See checks.h: the executor that serves, against plain forward passes.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "engine/doctor/checks.h"
#include "engine/model/cache_scales.h"
#include "engine/run/cuda_executor.h"
#include "engine/run/model_executor.h"

namespace slipstream {
namespace {

constexpr int32_t kBlockTokens = 32;
constexpr int32_t kSequences = 2;

/// Drives one executor as the scheduler would, one result at a time.
class Driver {
 public:
  Driver(StepExecutor& executor, int32_t groups, int32_t blocks_each) : executor_(executor), groups_(groups), blocks_(blocks_each) {}

  void open(EngineText& text) {
    const auto slot = static_cast<int32_t>(texts_.size());
    OpenSlot open;
    open.slot = slot;
    open.generation = 1;
    open.history = text.tokens;
    open.prompt_tokens = text.prompt_tokens;
    open.remaining_tokens = kEngineTokens;
    open.sampling.temperature = 0;
    open.sampling.top_logprobs = 0;
    plan_.commands.push_back(open);
    for (int32_t group = 0; group < groups_; ++group) {
      GrantBlocks grant;
      grant.slot = slot;
      grant.group = group;
      for (int32_t b = 0; b < blocks_; ++b) grant.blocks.push_back(b * kSequences + slot);
      plan_.commands.push_back(grant);
    }
    texts_.push_back(&text);
    span(slot, SpanKind::kPrefill, 0, text.prompt_tokens);
  }
  void decode(int32_t slot) { span(slot, SpanKind::kDecode, static_cast<int32_t>(texts_[static_cast<size_t>(slot)]->tokens.size()) - 1, 1); }

  /// Runs what was planned; an error where a span did not draw its token.
  Status step() {
    plan_.commit = CommitVariant::kFull;
    plan_.rows_class = plan_.spans.back().kind == SpanKind::kPrefill ? 0 : 1;
    executor_.forward(plan_);
    const StepResult result = executor_.commit(plan_, StepMasks{});
    for (const SpanResult& span : result.spans) {
      EngineText& text = *texts_[static_cast<size_t>(span.slot)];
      if (span.non_finite) return internal_error("the logits of sequence " + std::to_string(span.slot) + " are not finite");
      if (span.emitted.size() != 1 || span.logprobs.size() != 1)
        return internal_error("sequence " + std::to_string(span.slot) + " drew " + std::to_string(span.emitted.size()) + " tokens in a step");
      text.tokens.push_back(span.emitted[0]);
      text.logprobs.push_back(span.logprobs[0].logprob);
    }
    const uint64_t next = plan_.step + 1;
    plan_ = {};
    plan_.step = next;
    return Ok{};
  }

 private:
  void span(int32_t slot, SpanKind kind, int32_t start, int32_t rows) {
    Span s;
    s.slot = slot;
    s.generation = 1;
    s.kind = kind;
    s.start = start;
    s.rows = rows;
    s.logits = LogitsWanted::kLast;
    plan_.spans.push_back(s);
    plan_.total_rows += rows;
  }

  StepExecutor& executor_;
  const int32_t groups_, blocks_;
  StepPlan plan_;
  std::vector<EngineText*> texts_;
};

/// Log probability of `token`, and the best of the row.
std::pair<double, double> logprobs_of(const float* logits, int32_t vocab, int32_t token) {
  const float top = *std::max_element(logits, logits + vocab);
  double sum = 0;
  for (int32_t i = 0; i < vocab; ++i) sum += std::exp(double{logits[i]} - top);
  const double base = top + std::log(sum);
  return {logits[token] - base, top - base};
}

}  // namespace

Result<std::vector<EngineText>> run_engine(Checkpoint& checkpoint, const ModelConfig& config, const DoctorOptions& options,
                                           const LoadOptions& load, std::span<const int32_t> tokens) {
  SLIP_TRY(auto backend, make_backend(options.backend));
  std::unique_ptr<Ops> under_fault;  // outlives the parts
  RankParts parts;
  if (options.fault && backend->name() != "cuda") {  // the CUDA executor takes CudaOps alone
    under_fault = std::move(backend);
    parts.ops = options.fault(*under_fault);
  } else {
    parts.ops = std::move(backend);
  }
  const bool cuda = parts.ops->name() == "cuda";
  const auto count = static_cast<int32_t>(tokens.size());
  DeviceShape shape;
  shape.slots = kSequences;
  shape.block_tokens = kBlockTokens;
  shape.max_rows = count + kSequences;
  LoadOptions wanted = load;
  wanted.max_logit_rows = cuda ? padded_rows(shape.max_logit_rows()) : shape.max_logit_rows();
  wanted.max_rows = shape.max_rows;
  SLIP_TRY(parts.model, load_model(checkpoint, config, *parts.ops, wanted));
  KvCacheShape kv;
  kv.groups = parts.model->cache_groups();
  const int32_t blocks = (count + kEngineTokens + kBlockTokens - 1) / kBlockTokens + 1;
  kv.blocks.assign(kv.groups.size(), kSequences * blocks);
  kv.block_tokens = kBlockTokens;
  kv.dtype = cache_dtype(options.kv_cache_dtype, config);
  SLIP_TRY(parts.kv, KvCache::create(*parts.ops, kv));
  parts.ops->warm_up(wanted.max_rows);
  shape.groups = parts.kv.groups();
  std::unique_ptr<StepExecutor> executor;
  if (cuda)
    executor = make_cuda_executor(std::move(parts), shape, {.context_tokens = count + kEngineTokens});
  else
    executor = std::make_unique<ModelExecutor>(std::move(parts), shape);

  std::vector<EngineText> texts(kSequences);
  texts[0].tokens.assign(tokens.begin(), tokens.end());
  texts[1].tokens.assign(tokens.begin(), tokens.begin() + count / 2);
  for (EngineText& text : texts) text.prompt_tokens = static_cast<int32_t>(text.tokens.size());
  Driver driver(*executor, shape.groups, blocks);
  driver.open(texts[0]);
  SLIP_RETURN_IF_ERROR(driver.step());
  // The second sequence's prompt comes in while the first decodes; then both decode, then the second alone.
  constexpr int32_t kJoins = 4;
  for (int32_t step = 1; step < kEngineTokens + kJoins; ++step) {
    if (step < kEngineTokens) driver.decode(0);
    if (step == kJoins) driver.open(texts[1]);
    if (step > kJoins) driver.decode(1);
    SLIP_RETURN_IF_ERROR(driver.step());
  }
  return texts;
}

void check_engine(Probe& plain, std::span<const EngineText> texts, const std::string& backend, bool row_exact, DoctorReport* report) {
  // With the same sums in the same order only the logarithm differs. Otherwise another number of rows takes another kernel.
  const double bound = row_exact ? 1e-4 : 0.25;
  const char* name = backend == "cuda" ? "decode from captured graphs" : "decode through slots and cache";
  double worst = 0;
  for (size_t s = 0; s < texts.size(); ++s) {
    const EngineText& text = texts[s];
    const auto drawn = static_cast<int32_t>(text.logprobs.size());
    std::vector<int32_t> rows;
    for (int32_t i = 0; i < drawn; ++i) rows.push_back(text.prompt_tokens - 1 + i);
    const ProbeSpan span{0, 0, {text.tokens.begin(), text.tokens.end() - 1}};
    const std::vector<float> logits = plain.run({&span, 1}, rows);
    const int32_t vocab = plain.config().vocab;
    for (int32_t i = 0; i < drawn; ++i) {
      const int32_t token = text.tokens[static_cast<size_t>(text.prompt_tokens + i)];
      const auto [own, best] = logprobs_of(logits.data() + int64_t{i} * vocab, vocab, token);
      const double off = std::max(std::fabs(own - double{text.logprobs[static_cast<size_t>(i)]}), best - own);
      if (!(off <= bound)) {
        char numbers[160];
        std::snprintf(numbers, sizeof numbers, "token %d of sequence %zu is %d with log probability %.4f; a plain forward pass gives it %.4f, its best %.4f",
                      i, s, token, double{text.logprobs[static_cast<size_t>(i)]}, own, best);
        report->checks.push_back(failed("engine", name, numbers));
        return;
      }
      worst = std::max(worst, off);
    }
  }
  char numbers[120];
  std::snprintf(numbers, sizeof numbers, "%zu sequences of %d tokens as a plain forward pass has them; off by at most %.2g nats (bound %.2g)",
                texts.size(), kEngineTokens, worst, bound);
  report->checks.push_back(passed("engine", name, numbers));
}

}  // namespace slipstream
