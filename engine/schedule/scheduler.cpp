// Building plans. Results are in scheduler_results.cpp.
#include "engine/schedule/scheduler.h"

#include <algorithm>

namespace slipstream {
namespace {

bool is_waiting(const Sequence& sequence) { return sequence.waits(); }
bool is_prefilling(const Sequence& sequence) { return sequence.state() == SequenceState::kPrefilling; }
bool is_running(const Sequence& sequence) { return sequence.state() == SequenceState::kRunning; }
bool is_active(const Sequence& sequence) { return sequence.active(); }

bool plain_greedy(const SamplingParams& sampling) {
  return (sampling.temperature == 0 || sampling.top_k == 1) && sampling.presence_penalty == 0 &&
         sampling.frequency_penalty == 0 && sampling.repetition_penalty == 1 && sampling.logit_bias.empty() &&
         sampling.min_tokens == 0;
}

}  // namespace

Scheduler::Scheduler(const EngineLimits& limits, const Clock* clock, SchedulerHooks hooks)
    : limits_(limits),
      clock_(clock),
      hooks_(std::move(hooks)),
      pool_(limits.num_blocks),
      prefix_(&pool_, limits.block_tokens),
      chunk_budget_(static_cast<double>(limits.step_budget.count()), limits.max_batched_tokens),
      policy_(limits.draft_mode, limits.max_draft_tokens),
      generations_(static_cast<size_t>(limits.max_num_seqs), 0) {
  for (int32_t slot = limits.max_num_seqs - 1; slot >= 0; --slot) free_slots_.push_back(slot);
  const auto most = static_cast<size_t>(limits.max_draft_tokens);
  counters_.accepted_per_position.assign(most, 0);
  counters_.drafted_per_position.assign(most, 0);
  if (most > 0) counters_.draft_widths.assign(most + 1, 0);
}

void Scheduler::add(std::shared_ptr<Request> request) {
  auto family = std::make_unique<Family>();
  family->request = request;
  family->alive = request->n;
  const uint64_t arrival = next_arrival_++;
  for (int32_t choice = 0; choice < request->n; ++choice) {
    auto sequence = std::make_shared<Sequence>(request, choice, arrival);
    // Without prefix caching the choices of one request still share their prompt, in a partition nobody else can hit.
    if (!limits_.prefix_caching) sequence->salt = "request " + std::to_string(arrival);
    if (choice == 0) family->first = sequence;
    live_.push_back(std::move(sequence));
  }
  families_.push_back(std::move(family));
}

std::vector<std::shared_ptr<Sequence>> Scheduler::ordered(bool (*wanted)(const Sequence&)) const {
  std::vector<std::shared_ptr<Sequence>> chosen;
  for (const auto& sequence : live_)
    if (wanted(*sequence)) chosen.push_back(sequence);
  std::ranges::sort(chosen, [](const auto& a, const auto& b) { return a->before(*b); });
  return chosen;
}

std::optional<StepPlan> Scheduler::build() {
  sweep();
  StepPlan plan;
  plan.step = next_step_;
  InFlight flight;
  flight.step = next_step_;
  plan_decodes(&plan, &flight);
  // Releases come before the openings that may reuse their slots.
  const size_t grants = plan.commands.size();
  plan.commands.insert(plan.commands.end(), pending_releases_.begin(), pending_releases_.end());
  plan_prefills(&plan, &flight);
  if (plan.spans.empty()) {
    // Only releases can be left: they travel with the next plan.
    CHECK(grants == 0 && plan.commands.size() == pending_releases_.size(), "a command without a span");
    return std::nullopt;
  }
  pending_releases_.clear();
  finish_plan(&plan, flight);
  in_flight_.push_back(std::move(flight));
  ++next_step_;
  return plan;
}

void Scheduler::sweep() {
  const Clock::TimePoint now = clock_->now();
  std::vector<std::pair<std::shared_ptr<Sequence>, FinishReason>> ending;
  for (const auto& sequence : live_) {
    if (sequence->request->cancelled.load(std::memory_order_relaxed))
      ending.emplace_back(sequence, FinishReason::kCancelled);
    else if ((sequence->request->stopped_choices.load(std::memory_order_relaxed) >> sequence->choice) & 1u)
      ending.emplace_back(sequence, FinishReason::kStop);
    else if (now >= sequence->request->deadline)
      ending.emplace_back(sequence, FinishReason::kError);
  }
  for (const auto& [sequence, reason] : ending) {
    OutputEvent event;
    event.finish = reason;
    if (reason == FinishReason::kError) {
      event.cause = ErrorCause::kDeadline;
      event.error = "the request's deadline passed";
    }
    end(sequence, std::move(event));
  }
}

int32_t Scheduler::draft_rows(int32_t decoding) const {
  // A quarter of the rows stays for prompts.
  return std::max(0, limits_.max_batched_tokens - limits_.max_batched_tokens / 4 - decoding);
}

void Scheduler::plan_decodes(StepPlan* plan, InFlight* flight) {
  const auto budget_of = [](const Sequence& s) { return s.request->sampling.max_tokens - s.emitted() - s.in_flight_min; };
  std::vector<std::shared_ptr<Sequence>> running = ordered(is_running);
  std::erase_if(running, [&](const auto& sequence) { return budget_of(*sequence) <= 0; });  // plans in flight finish it
  candidates_.clear();
  for (const auto& sequence : running) {
    // of the next step, whose first token this one's does not leave to drafts
    const int32_t most = std::clamp(budget_of(*sequence) - 2, 0, limits_.max_draft_tokens);
    candidates_.push_back({&sequence->acceptance, sequence->request->speculate ? most : 0});
  }
  // What the device drafts behind this step, for the next: what it drafted behind the last one is verified now.
  const int32_t most_rows = draft_rows(static_cast<int32_t>(running.size()));
  const std::vector<int32_t>& widths = policy_.choose(candidates_, most_rows);
  // Drafts that constraints foresee are accepted for certain: a row of theirs saves a step, so they take what rows there are.
  int32_t supplied_left = std::min(limits_.max_supplied_drafts, most_rows);
  int32_t drafts_left = std::max(limits_.max_num_seqs * limits_.max_draft_tokens, limits_.max_supplied_drafts);
  for (size_t i = 0; i < running.size(); ++i) {
    const std::shared_ptr<Sequence>& sequence = running[i];
    if (sequence->state() != SequenceState::kRunning) continue;  // preempted for an older one just now
    // A row for each of those behind, who may have come since the drafts were asked for.
    const int32_t left = limits_.max_batched_tokens - plan->total_rows, behind = static_cast<int32_t>(running.size() - i - 1);
    const int32_t most = std::min({budget_of(*sequence), 1 + drafts_left, std::max(left - behind, std::min(left, 1))});
    if (most <= 0) break;  // more sequences than rows: the oldest go first
    bool more_forced = false;
    std::vector<int32_t> supplied = forced_drafts(*sequence, std::min(supplied_left, most - 1), &more_forced);
    const int32_t drafts = supplied.empty() ? sequence->drafts_due : static_cast<int32_t>(supplied.size());
    const int32_t rows = std::min(1 + drafts, most);
    // The device may stand as far as every unread token; its last token is not in the cache yet.
    const int32_t reach = std::min(sequence->length() + sequence->in_flight_max - 1 + rows, sequence->total_limit()) +
                          limits_.draft_block_tokens;
    if (make_room(*sequence, reach, plan) != Room::kGranted) continue;
    drafts_left -= rows - 1;
    supplied_left -= static_cast<int32_t>(supplied.size());
    // Where the next step verifies forced tokens as well, the device's own drafts would not be looked at.
    const int32_t width = more_forced ? 0 : widths[i];
    plan_decode(sequence, rows, width, std::move(supplied), plan, flight);
    if (width == 0) count_undrafted(*sequence, candidates_[i].most, most_rows, more_forced);
  }
}

void Scheduler::count_undrafted(const Sequence& sequence, int32_t most, int32_t rows, bool forced) {
  if (limits_.max_draft_tokens == 0) return;
  const Undrafted why = !sequence.request->speculate ? Undrafted::kRequest
                        : forced                     ? Undrafted::kForced
                        : most <= 0                  ? Undrafted::kEnding
                        : rows <= 0                  ? Undrafted::kRows
                                                     : Undrafted::kPolicy;
  ++counters_.undrafted[static_cast<size_t>(why)];
}

void Scheduler::plan_decode(const std::shared_ptr<Sequence>& sequence, int32_t rows, int32_t width, std::vector<int32_t> supplied,
                            StepPlan* plan, InFlight* flight) {
  Span span;
  span.slot = sequence->slot;
  span.generation = sequence->generation;
  span.kind = rows > 1 ? SpanKind::kVerify : SpanKind::kDecode;
  span.start = sequence->length() + sequence->in_flight_max - 1;
  span.rows = rows;
  span.draft_rows_next = width;
  span.logits = rows > 1 ? LogitsWanted::kAll : LogitsWanted::kLast;
  span.constrained = sequence->constraint != nullptr;
  span.supplied_drafts = supplied;
  plan->spans.push_back(span);
  plan->total_rows += rows;
  flight->decode_rows += rows;
  PlannedSpan planned{sequence, span.kind, span.generation, 0, rows, rows, 1};
  planned.supplied = !supplied.empty();
  flight->spans.push_back(std::move(planned));
  sequence->in_flight_max += rows;
  sequence->in_flight_min += 1;
  sequence->drafts_due = span.draft_rows_next;
  sequence->planned_rows = rows;
  sequence->supplied = std::move(supplied);
  sequence->last_step = plan->step;
}

void Scheduler::plan_prefills(StepPlan* plan, InFlight* flight) {
  int32_t rows_left = std::min(limits_.max_batched_tokens - plan->total_rows,
                               chunk_budget_.prefill_rows(plan->total_rows));
  for (const auto& sequence : ordered(is_prefilling)) {
    if (rows_left <= 0) return;
    const int32_t rows = std::min(rows_left, sequence->length() - sequence->planned);
    plan_chunk(sequence, rows, plan, flight);
    rows_left -= rows;
  }
  for (const auto& sequence : ordered(is_waiting)) {
    if (rows_left <= 0 || free_slots_.empty()) return;
    if (!may_start(*sequence)) continue;
    if (!admit(sequence, plan)) return;  // nobody overtakes: a large request is not starved by small ones
    const int32_t rows = std::min(rows_left, sequence->length() - sequence->planned);
    plan_chunk(sequence, rows, plan, flight);
    rows_left -= rows;
  }
}

bool Scheduler::may_start(const Sequence& sequence) const {
  // A preempted sequence may still get tokens from the plan in flight; its history must stand still first.
  if (sequence.in_flight_max > 0) return false;
  if (sequence.choice == 0) return true;
  for (const auto& family : families_)
    if (family->request == sequence.request) return family->first->prefilled_once || family->first->finished();
  return true;
}

bool Scheduler::admit(const std::shared_ptr<Sequence>& sequence, StepPlan* plan) {
  PrefixCache::Hit hit = prefix_.find(sequence->salt, sequence->tokens);
  for (int32_t block : hit.blocks) pool_.reference(block);
  const int32_t rows = 1 + limits_.max_draft_tokens;
  const int32_t reach = std::min(sequence->length() + 2 * rows, sequence->total_limit()) + limits_.draft_block_tokens;
  const int32_t fresh = blocks_for(reach, limits_.block_tokens) - static_cast<int32_t>(hit.blocks.size());
  // Beside others, one block of growth each stays in hand, so that a newcomer is not preempted at once.
  const auto others = static_cast<int32_t>(ordered(is_active).size());
  if (pool_.available() < fresh + others) {
    for (size_t i = hit.blocks.size(); i-- > 0;) pool_.release(hit.blocks[i]);
    return false;
  }
  auto& column = sequence->blocks.column(0);
  column = hit.blocks;
  for (int32_t i = 0; i < fresh; ++i) column.push_back(pool_.allocate());

  const bool first_time = sequence->state() == SequenceState::kWaiting;
  sequence->move(SequenceState::kPrefilling);
  sequence->published = std::move(hit.published);
  sequence->planned = sequence->computed = static_cast<int32_t>(hit.blocks.size()) * limits_.block_tokens;
  sequence->drafts_due = 0;
  sequence->planned_rows = 0;
  sequence->drafts.clear();
  sequence->supplied.clear();
  sequence->slot = free_slots_.back();
  free_slots_.pop_back();
  sequence->generation = ++generations_[static_cast<size_t>(sequence->slot)];

  Family& family = family_of(*sequence);
  if (first_time) {
    sequence->cached_prompt_tokens = std::min(sequence->planned, sequence->prompt_tokens);
    sequence->first_scheduled = clock_->now();
    sequence->acceptance = policy_.fresh();
    if (sequence->request->constraint != nullptr) sequence->constraint = sequence->request->constraint->start();
    counters_.prefix_queries_tokens += sequence->prompt_tokens;
    counters_.prefix_hit_tokens += sequence->cached_prompt_tokens;
    if (sequence->choice == 0) family.first_scheduled = sequence->first_scheduled;
  }
  if (family.queued) {
    family.queued = false;
    if (hooks_.left_queue) hooks_.left_queue(*sequence->request);
  }

  OpenSlot open;
  open.slot = sequence->slot;
  open.generation = sequence->generation;
  open.sampling = sequence->request->sampling;
  // In the masks, where the constraint has the last word (mask_span).
  if (sequence->constraint != nullptr) open.sampling.min_tokens = 0;
  open.choice = sequence->choice;
  open.history = sequence->tokens;
  open.prompt_tokens = sequence->prompt_tokens;
  open.cached_tokens = sequence->planned;
  open.emitted_tokens = sequence->emitted();
  open.remaining_tokens = sequence->request->sampling.max_tokens - sequence->emitted();
  plan->commands.emplace_back(std::move(open));
  grant(*sequence, column, plan);
  return true;
}

void Scheduler::plan_chunk(const std::shared_ptr<Sequence>& sequence, int32_t rows, StepPlan* plan,
                           InFlight* flight) {
  const bool last = sequence->planned + rows == sequence->length();
  Span span;
  span.slot = sequence->slot;
  span.generation = sequence->generation;
  span.kind = SpanKind::kPrefill;
  span.start = sequence->planned;
  span.rows = rows;
  span.logits = last ? LogitsWanted::kLast : LogitsWanted::kNone;
  span.constrained = last && sequence->constraint != nullptr;
  if (last && sequence->request->speculate && limits_.draft_mode == DraftMode::kFixed) span.draft_rows_next = limits_.max_draft_tokens;
  sequence->planned += rows;
  sequence->last_step = plan->step;
  if (last) {
    sequence->move(SequenceState::kRunning);
    sequence->in_flight_max += 1;
    sequence->in_flight_min += 1;
    sequence->drafts_due = span.draft_rows_next;
  }
  const int32_t emits = last ? 1 : 0;
  plan->spans.push_back(span);
  plan->total_rows += rows;
  flight->prefill_rows += rows;
  flight->spans.push_back({sequence, span.kind, span.generation, sequence->planned, rows, emits, emits});
}

void Scheduler::finish_plan(StepPlan* plan, const InFlight& flight) const {
  int32_t widest = 1;
  bool full = false, sampled = false;
  for (size_t i = 0; i < plan->spans.size(); ++i) {
    const Span& span = plan->spans[i];
    if (span.kind != SpanKind::kPrefill) widest = std::max(widest, span.rows);
    if (span.logits == LogitsWanted::kNone) continue;
    const SamplingParams& sampling = flight.spans[i].sequence->request->sampling;
    full = full || span.constrained || sampling.top_logprobs >= 0;
    sampled = sampled || !plain_greedy(sampling);
  }
  plan->commit = full ? CommitVariant::kFull : sampled ? CommitVariant::kSampled : CommitVariant::kGreedy;
  plan->rows_class = flight.prefill_rows > 0 ? 0 : widest == 1 ? 1 : widest <= 4 ? 4 : 16;
}

Scheduler::Room Scheduler::make_room(Sequence& sequence, int32_t tokens, StepPlan* plan) {
  auto& column = sequence.blocks.column(0);
  const int32_t missing = blocks_for(tokens, limits_.block_tokens) - static_cast<int32_t>(column.size());
  if (missing <= 0) return Room::kGranted;
  while (pool_.available() < missing) {
    // Blocks on their way back will do: they come with the next result.
    if (pool_.available() + quarantined_blocks_ >= missing) return Room::kLater;
    const auto active = ordered(is_active);
    if (active.back().get() == &sequence) {
      if (active.size() == 1) return Room::kLater;
      preempt(sequence);
      return Room::kPreempted;
    }
    preempt(*active.back());
  }
  std::vector<int32_t> fresh;
  for (int32_t i = 0; i < missing; ++i) fresh.push_back(pool_.allocate());
  column.insert(column.end(), fresh.begin(), fresh.end());
  grant(sequence, fresh, plan);
  return Room::kGranted;
}

void Scheduler::grant(const Sequence& sequence, const std::vector<int32_t>& blocks, StepPlan* plan) const {
  for (int32_t group = 0; group < limits_.cache_groups; ++group)
    plan->commands.emplace_back(GrantBlocks{sequence.slot, group, blocks});
}

void Scheduler::preempt(Sequence& sequence) {
  ++counters_.preemptions;
  ++sequence.preemptions;
  ++family_of(sequence).preemptions;
  let_go(sequence);
  sequence.move(SequenceState::kPreempted);
}

void Scheduler::let_go(Sequence& sequence) {
  if (sequence.slot < 0) return;
  pending_releases_.emplace_back(ReleaseSlot{sequence.slot, sequence.generation});
  auto& column = sequence.blocks.column(0);
  quarantine_.push_back({&sequence, sequence.last_step, sequence.slot, std::move(column)});
  sequence.blocks.clear();
  sequence.published.clear();
  sequence.slot = -1;
  free_quarantined();
}

void Scheduler::free_quarantined() {
  for (size_t i = 0; i < quarantine_.size();) {
    Quarantined& entry = quarantine_[i];
    if (entry.last_step > last_read_) {
      ++i;
      continue;
    }
    // Tail first: the LRU then gives up a prefix from its end.
    for (size_t b = entry.blocks.size(); b-- > 0;) pool_.release(entry.blocks[b]);
    free_slots_.push_back(entry.slot);
    quarantine_.erase(quarantine_.begin() + static_cast<int64_t>(i));
  }
  std::ranges::sort(free_slots_, std::greater<>());
  quarantined_blocks_ = 0;
  for (const Quarantined& entry : quarantine_)
    for (int32_t block : entry.blocks) quarantined_blocks_ += pool_.count(block) == 1 ? 1 : 0;
}

bool Scheduler::check(std::string* what) const {
  if (!pool_.check(what)) return false;
  if (!idle()) return true;
  if (pool_.referenced() != 0 || !quarantine_.empty()) {
    if (what != nullptr) *what = std::to_string(pool_.referenced()) + " blocks are referenced at idle";
    return false;
  }
  if (static_cast<int32_t>(free_slots_.size()) != limits_.max_num_seqs || !families_.empty()) {
    if (what != nullptr)
      *what = std::to_string(free_slots_.size()) + " of " + std::to_string(limits_.max_num_seqs) +
              " slots and " + std::to_string(families_.size()) + " requests at idle";
    return false;
  }
  return true;
}

}  // namespace slipstream
