// See cuda_executor.h.
#include "engine/run/cuda_executor.h"

#include <algorithm>
#include <chrono>
#include <deque>
#include <map>
#include <set>
#include <utility>
#include <variant>

#include "engine/base/log.h"
#include "engine/spec/ngram_drafter.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/slots.h"
#include "kernels/cuda/token_masks.h"

namespace slipstream {
namespace {

using namespace cuda;

/// Launch shapes of one step.
struct StepLayout {
  SlotBounds bounds;
  StepView view;
  StepInputs inputs;
  StepKey key;
  bool captured = false;    // decode and verify only: may run as graphs
  bool drafts = false;
};

/// Keys kept of each half: the usual ones and those of a serving mix. Past the bound, steps with new keys run eagerly.
constexpr size_t kMaxGraphs = kUsualGraphs + 112;

/// Device memory of graphs, for the plan.
constexpr int64_t kGraphBytes = 64 << 10, kGraphLayerBytes = 48 << 10;

/// The class of a step's longest span: 1 row, a short draft, a full one.
int32_t span_class(int32_t rows) { return rows == 1 ? 1 : rows <= 4 ? 4 : 1 + kMaxSlotDrafts; }

DoneReason done_reason(SlotDone done) {
  switch (done) {
    case SlotDone::kNone: return DoneReason::kNone;
    case SlotDone::kStopId: return DoneReason::kStopId;
    case SlotDone::kLength: return DoneReason::kLength;
    case SlotDone::kNonFinite: return DoneReason::kNonFinite;
  }
  throw DeviceError("a slot reports an end that is not known");
}

SlotShape slot_shape(const DeviceShape& shape, const CudaStepOptions& options) {
  SlotShape s;
  s.slots = shape.slots;
  s.groups = shape.groups;
  s.block_tokens = shape.block_tokens;
  // two steps of maximal rows are granted ahead of the last token
  s.max_blocks = (options.context_tokens + 2 * (1 + shape.max_draft_tokens)) / shape.block_tokens + 2;
  s.max_tokens = options.context_tokens + 1 + shape.max_draft_tokens;
  s.max_spans = padded_rows(shape.slots);
  s.max_logit_rows = padded_rows(shape.max_logit_rows());
  s.max_rows = std::max(shape.max_rows, s.max_logit_rows);
  s.max_drafts = shape.max_draft_tokens;
  return s;
}

GraphBounds graph_bounds(const SlotShape& shape) {
  GraphBounds bounds;
  bounds.slots = shape.slots;
  bounds.max_rows = shape.max_logit_rows;
  bounds.context = shape.max_blocks * shape.block_tokens;
  bounds.drafts = shape.max_drafts;
  bounds.draft_span_rows = span_class(1 + shape.max_drafts);
  return bounds;
}

/// The device memory of an executor, all of it.
struct StepState {
  StepState(Context& context, const SlotShape& shape, int32_t vocab)
      : slots(context, shape),
        masks(context, shape.max_logit_rows, vocab),
        sample_scratch(context.allocate(sample_scratch_bytes(shape.max_logit_rows, vocab))) {}
  ResidentSlots slots;
  TokenMasks masks;
  Buffer sample_scratch;
};

class CudaExecutor final : public StepExecutor {
 public:
  CudaExecutor(RankParts parts, const DeviceShape& shape, const CudaStepOptions& options, CaptureReport* report)
      : parts_(std::move(parts)),
        ops_(static_cast<CudaOps&>(*parts_.ops)),
        options_(options),
        shape_(slot_shape(shape, options)),
        vocab_(parts_.model->config().vocab),
        state_(ops_.context(), shape_, vocab_),
        slots_(state_.slots),
        masks_(state_.masks),
        top_logprobs_(static_cast<size_t>(shape.slots), -1) {
    for (int32_t row = 0; row < shape_.max_rows; ++row) identity_.push_back(row);
    ops_.context().synchronize();
    warm_allocations_ = ops_.context().allocations();
    if (!options.eager && options.capture_seconds > 0) capture_usual(report);
  }
  ~CudaExecutor() override { cudaStreamSynchronize(ops_.context().stream()); }

  void forward(const StepPlan& plan) override {
    for (const slipstream::SlotCommand& command : plan.commands) carry_out(command);
    lay_out(plan);
    slots_.upload();
    run(&forwards_, layout_.key.of_forward(), [this] { launch_forward(); });
    if (ops_.context().allocations() != warm_allocations_)
      throw DeviceError("CUDA: a step allocated device memory after warm-up");
  }

  void launch_commit(const StepPlan& plan, const StepMasks& masks) override {
    require_masks(plan, masks, vocab_);
    if (!masks.rows.empty()) layout_.key.commit = CommitVariant::kFull;
    if (layout_.key.commit == CommitVariant::kFull) masks_.upload(masks.rows);
    run(&commits_, layout_.key.of_commit(), [this] { launch_draw(); });
    Pending pending;
    pending.step = plan.step;
    for (size_t s = 0; s < plan.spans.size(); ++s)
      pending.spans.push_back({plan.spans[s].slot, plan.spans[s].generation, spans_[s].first_logit,
                               top_logprobs_[static_cast<size_t>(plan.spans[s].slot)] >= 0 && spans_[s].logits > 0,
                               plan.spans[s].constrained});
    const bool logprobs = std::ranges::any_of(pending.spans, [](const auto& span) { return span.logprobs; });
    pending.ticket = slots_.fetch(logprobs);
    pending_.push_back(std::move(pending));
  }

  bool result_ready() override { return !pending_.empty() && slots_.ready(pending_.front().ticket); }

  StepResult take_result() override {
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    const ResidentSlots::Results results = slots_.wait(pending.ticket);
    StepResult out;
    out.step = pending.step;
    for (size_t s = 0; s < pending.spans.size(); ++s) {
      const SlotResult& from = results.spans[s];
      SpanResult span;
      span.slot = pending.spans[s].slot;
      span.generation = pending.spans[s].generation;
      span.emitted.assign(from.tokens, from.tokens + from.emitted);
      span.drafted = from.drafted;
      span.accepted = from.accepted;
      span.done = done_reason(from.done);
      span.non_finite = from.non_finite;
      span.starved = from.starved;
      if (pending.spans[s].constrained) span.drafts.assign(from.drafts, from.drafts + from.draft_count);
      if (pending.spans[s].logprobs)
        span.logprobs = logprobs_of(results.drawn.subspan(static_cast<size_t>(pending.spans[s].first_logit),
                                                          static_cast<size_t>(from.emitted)));
      out.spans.push_back(std::move(span));
    }
    out.digest = digest_of(out);
    return out;
  }

  StepResult commit(const StepPlan& plan, const StepMasks& masks) override {
    launch_commit(plan, masks);
    return take_result();
  }

  void abort() override {
    if (Communicator* comm = ops_.comm(); comm != nullptr) comm->abort();
  }

 private:
  struct PendingSpan {
    int32_t slot = 0;
    uint32_t generation = 0;
    int32_t first_logit = 0;
    bool logprobs = false;
    bool constrained = false;
  };
  struct Pending {
    uint64_t step = 0;
    int ticket = 0;
    std::vector<PendingSpan> spans;
  };

  void carry_out(const slipstream::SlotCommand& command);
  void lay_out(const StepPlan& plan);
  void fill_inputs(const StepRuns& runs);
  void capture_usual(CaptureReport* report);
  void launch_forward();
  void launch_draw();
  template <typename Launch>
  void run(std::map<StepKey, Graph>* graphs, const StepKey& key, Launch&& launch);

  RankParts parts_;
  CudaOps& ops_;
  const CudaStepOptions options_;
  const SlotShape shape_;
  const int32_t vocab_;
  int64_t warm_allocations_ = 0;
  StepState state_;
  ResidentSlots& slots_;               // of state_
  TokenMasks& masks_;                  // of state_
  std::vector<int32_t> top_logprobs_;  // [slots]
  const float* logits_ = nullptr;      // the model's, the same at every step
  std::vector<int32_t> identity_;      // 0, 1, 2 …: logit rows of steps where every row has logits
  std::vector<int32_t> logit_rows_;
  std::vector<SlotSpan> spans_;        // of the step in hand
  StepLayout layout_;
  std::map<StepKey, Graph> forwards_, commits_;
  bool capture_failed_ = false;
  std::deque<Pending> pending_;
};

void CudaExecutor::carry_out(const slipstream::SlotCommand& command) {
  if (const auto* open = std::get_if<OpenSlot>(&command)) {
    const SamplingParams& p = open->sampling;
    SlotOpening opening;
    opening.slot = open->slot;
    opening.generation = open->generation;
    opening.choice = open->choice;
    opening.history = open->history;
    opening.prompt_tokens = open->prompt_tokens;
    opening.cached_tokens = open->cached_tokens;
    opening.remaining_tokens = open->remaining_tokens;
    opening.emitted_tokens = open->emitted_tokens;
    opening.temperature = p.temperature;
    opening.top_p = p.top_p;
    opening.min_p = p.min_p;
    opening.presence_penalty = p.presence_penalty;
    opening.frequency_penalty = p.frequency_penalty;
    opening.repetition_penalty = p.repetition_penalty;
    opening.top_k = p.top_k;
    opening.top_logprobs = p.top_logprobs;
    opening.min_tokens = p.min_tokens;
    opening.seed = p.seed;
    opening.bias = p.logit_bias;
    opening.stop_ids = p.stop_ids;
    slots_.open(opening);
    top_logprobs_[static_cast<size_t>(open->slot)] = p.top_logprobs;
  } else if (const auto* grant = std::get_if<GrantBlocks>(&command)) {
    parts_.kv.require_blocks(grant->group, grant->blocks);
    slots_.grant(grant->slot, grant->group, grant->blocks);
  } else if (const auto* copy = std::get_if<CopyBlock>(&command)) {
    parts_.kv.copy_block(*parts_.ops, copy->group, copy->source, copy->target);
  } else if (const auto* release = std::get_if<ReleaseSlot>(&command)) {
    slots_.release(release->slot, release->generation);
  }
}

void CudaExecutor::lay_out(const StepPlan& plan) {
  spans_.clear();
  logit_rows_.clear();
  StepLayout layout;
  SlotBounds& bounds = layout.bounds;
  StepRuns runs;  // the spans' two runs, as the host bounds them
  for (const Span& span : plan.spans) {
    const bool prefill = span.kind == SpanKind::kPrefill;
    SlotSpan s;
    s.slot = span.slot;
    s.generation = span.generation;
    s.prefill = prefill;
    s.start = span.start;
    s.rows = span.rows;
    s.logits = logit_rows_of(span);
    s.first_row = bounds.rows;
    s.first_logit = bounds.logit_rows;
    s.drafts_next = options_.ngram ? span.draft_rows_next : 0;
    s.supplied_drafts = span.supplied_drafts;
    for (int32_t i = s.rows - s.logits; i < s.rows; ++i) logit_rows_.push_back(bounds.rows + i);
    bounds.rows += s.rows;
    bounds.logit_rows += s.logits;
    layout.drafts = layout.drafts || s.drafts_next > 0;
    const int32_t context = std::min(span.start + span.rows, shape_.max_blocks * shape_.block_tokens);
    if (prefill) {
      runs.max_prefill_rows = std::max(runs.max_prefill_rows, s.rows);
      runs.max_prefill_context = std::max(runs.max_prefill_context, context);
    } else {
      ++runs.decode_spans;
      runs.max_decode_rows = std::max(runs.max_decode_rows, s.rows);
      runs.max_context = std::max(runs.max_context, context);
    }
    spans_.push_back(s);
  }
  bounds.spans = static_cast<int32_t>(spans_.size());
  slots_.plan(spans_);

  layout.captured = !options_.eager && bounds.spans > 0 && runs.decode_spans == bounds.spans;
  if (layout.captured) {
    bounds.rows = bounds.logit_rows = std::min(padded_rows(bounds.rows), shape_.max_logit_rows);
    bounds.spans = std::min(padded_rows(bounds.spans), shape_.max_spans);
    runs.decode_spans = bounds.spans;
    runs.max_decode_rows = span_class(runs.max_decode_rows);
    runs.max_context = padded_context(runs.max_context, shape_.max_blocks * shape_.block_tokens);
    layout.key = {bounds.rows, bounds.spans, runs.max_decode_rows, runs.max_context, plan.commit, layout.drafts};
  }
  layout.key.commit = plan.commit;
  layout_ = layout;
  fill_inputs(runs);
}

/// The launches as they are the first time a key appears, beside their capture; the graph from then on.
template <typename Launch>
void CudaExecutor::run(std::map<StepKey, Graph>* graphs, const StepKey& key, Launch&& launch) {
  if (!layout_.captured) return launch();
  if (const auto found = graphs->find(key); found != graphs->end()) return found->second.replay(ops_.context());
  launch();  // also loads what the capture would have to load
  if (graphs->size() >= kMaxGraphs || capture_failed_) return;
  Graph graph;
  const cudaError_t status = Graph::capture(ops_.context(), launch, &graph);
  if (status == cudaSuccess) {
    graphs->emplace(key, std::move(graph));
    return;
  }
  // The step itself has run. Memory for graphs is what is missing most likely: go on without new ones.
  if (status != cudaErrorMemoryAllocation) check(status, "cudaGraphInstantiate");
  cudaGetLastError();
  capture_failed_ = true;
  log::warn("graph_capture", {{"reason", "no device memory for another graph"},
                              {"graphs", static_cast<int64_t>(forwards_.size() + commits_.size())},
                              {"effect", "steps of other shapes run eagerly; lower gpu-memory-utilization"}});
}

/// Steps without a sequence, one for each key: their rows have position -1 and write nothing, so they may run.
void CudaExecutor::capture_usual(CaptureReport* report) {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const std::vector<StepKey> keys = usual_graphs(graph_bounds(shape_));
  const int64_t free_before = ops_.memory().free;
  slots_.plan({});
  slots_.upload();
  size_t done = 0;
  for (; done < keys.size() && seconds() < options_.capture_seconds && !capture_failed_; ++done) {
    const StepKey& key = keys[done];
    layout_ = {};
    layout_.captured = true;
    layout_.drafts = key.drafts;
    layout_.key = key;
    layout_.bounds.rows = layout_.bounds.logit_rows = key.rows;
    layout_.bounds.spans = key.spans;
    StepRuns runs;
    runs.decode_spans = key.spans;
    runs.max_decode_rows = key.span_rows;
    runs.max_context = key.context;
    fill_inputs(runs);
    if (!forwards_.contains(key.of_forward())) run(&forwards_, key.of_forward(), [this] { launch_forward(); });
    if (!commits_.contains(key.of_commit())) run(&commits_, key.of_commit(), [this] { launch_draw(); });
    if (options_.capture_progress) options_.capture_progress(static_cast<int32_t>(done + 1), static_cast<int32_t>(keys.size()));
  }
  ops_.context().synchronize();
  layout_ = {};
  if (report == nullptr) return;
  report->captured = static_cast<int32_t>(forwards_.size() + commits_.size());
  std::set<StepKey> forwards_left, commits_left;
  for (const StepKey& key : keys) {
    if (!forwards_.contains(key.of_forward())) forwards_left.insert(key.of_forward());
    if (!commits_.contains(key.of_commit())) commits_left.insert(key.of_commit());
  }
  report->left = static_cast<int32_t>(forwards_left.size() + commits_left.size());
  report->seconds = seconds();
  report->bytes = std::max<int64_t>(free_before - ops_.memory().free, 0);
}

void CudaExecutor::fill_inputs(const StepRuns& runs) {
  layout_.view = slots_.view(layout_.bounds);
  static_cast<StepRuns&>(layout_.view) = runs;
  layout_.inputs.rows = layout_.bounds.rows;
  layout_.inputs.groups = shape_.groups;
  layout_.inputs.device_owned = true;
}

void CudaExecutor::launch_forward() {
  slots_.place(layout_.bounds);
  if (layout_.bounds.rows == 0) return;
  StepInputs inputs = layout_.inputs;
  inputs.device = &layout_.view;
  const std::vector<int32_t>& rows = layout_.captured ? identity_ : logit_rows_;
  inputs.logit_rows = std::span(rows).first(static_cast<size_t>(layout_.bounds.logit_rows));
  parts_.model->forward(inputs, parts_.kv, nullptr);
  // Not with the draw: the model knows how many rows it has from the forward pass that it launched last, and a draw may be
  // captured after a forward pass that was replayed.
  if (layout_.bounds.logit_rows > 0) logits_ = parts_.model->head();
}

void CudaExecutor::launch_draw() {
  if (layout_.bounds.logit_rows > 0) {
    if (layout_.key.commit == CommitVariant::kFull) masks_.apply(slots_.laws(), layout_.bounds.logit_rows);
    SampleArgs args;
    args.logits = logits_;
    args.rows = layout_.bounds.logit_rows;
    args.vocab = vocab_;
    args.row = slots_.laws();
    args.out = slots_.drawn();
    args.scratch = state_.sample_scratch.data();
    args.scratch_rows = shape_.max_logit_rows;
    args.variant = layout_.key.commit == CommitVariant::kGreedy    ? SampleVariant::kGreedy
                   : layout_.key.commit == CommitVariant::kSampled ? SampleVariant::kSampled
                                                                   : SampleVariant::kFull;
    cuda::sample(ops_.context(), args);
  }
  slots_.settle(layout_.bounds);
  if (layout_.drafts) slots_.draft_ngram(layout_.bounds, options_.ngram_min, options_.ngram_max, kNgramWindow);
}

}  // namespace

std::unique_ptr<StepExecutor> make_cuda_executor(RankParts parts, const DeviceShape& shape, const CudaStepOptions& options,
                                                 CaptureReport* report) {
  return std::make_unique<CudaExecutor>(std::move(parts), shape, options, report);
}

int64_t cuda_step_bytes(Ops& dry, const DeviceShape& shape, const CudaStepOptions& options, int32_t vocab) {
  Context& context = static_cast<CudaOps&>(dry).context();
  CHECK(context.dry(), "the bytes of an executor are counted on a dry twin");
  const size_t before = context.allocated_bytes();
  const StepState state(context, slot_shape(shape, options), vocab);
  return static_cast<int64_t>(context.allocated_bytes() - before);
}

int64_t graph_bytes_estimate(const DeviceShape& shape, const CudaStepOptions& options, int32_t layers) {
  if (options.eager || options.capture_seconds <= 0) return 0;
  std::set<StepKey> forwards, commits;
  for (const StepKey& key : usual_graphs(graph_bounds(slot_shape(shape, options)))) {
    forwards.insert(key.of_forward());
    commits.insert(key.of_commit());
  }
  return static_cast<int64_t>(forwards.size()) * layers * kGraphLayerBytes + static_cast<int64_t>(commits.size()) * kGraphBytes;
}

}  // namespace slipstream
