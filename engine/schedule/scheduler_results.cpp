// Taking results back: confirmed tokens, events, prefix cache, ends.
#include <algorithm>

#include "engine/schedule/scheduler.h"

namespace slipstream {

void Scheduler::apply(const StepResult& result, double step_ms) {
  CHECK(!in_flight_.empty() && in_flight_.front().step == result.step, "results come in plan order");
  const InFlight flight = std::move(in_flight_.front());
  in_flight_.pop_front();
  CHECK(flight.spans.size() == result.spans.size(), "a result has one entry per span");
  last_read_ = result.step;
  for (size_t i = 0; i < flight.spans.size(); ++i) apply_span(flight.spans[i], result.spans[i]);
  free_quarantined();
  ++counters_.steps;
  count_draft_times(result);
  counters_.last_step_ms = step_ms;
  chunk_budget_.record(flight.decode_rows, flight.prefill_rows, step_ms);
  if (flight.prefill_rows == 0) policy_.record_step(static_cast<int32_t>(flight.spans.size()), flight.decode_rows, step_ms);
}

void Scheduler::count_draft_times(const StepResult& result) {
  counters_.draft_s += result.draft_ms / 1000;
  if (std::ranges::none_of(result.spans, [](const SpanResult& span) { return span.drafted > 0; })) return;
  counters_.verify_s += result.forward_ms / 1000;
  counters_.commit_s += result.commit_ms / 1000;
}

void Scheduler::apply_span(const PlannedSpan& planned, const SpanResult& result) {
  const std::shared_ptr<Sequence>& sequence = planned.sequence;
  sequence->in_flight_max -= planned.max_emitted;
  sequence->in_flight_min -= planned.min_emitted;
  if (result.non_finite) {
    ++counters_.non_finite_rows;
    forget_blocks(*sequence);
  }
  // Ended meanwhile (cancelled, deadline, or by the result before): whatever came after is not published.
  if (sequence->finished() || result.generation != planned.generation) return;

  const bool holds_slot = sequence->slot >= 0 && sequence->generation == planned.generation;
  if (planned.kind == SpanKind::kPrefill) {
    counters_.prompt_tokens += planned.rows;
    if (holds_slot) sequence->computed = planned.end;
  }
  if (planned.kind == SpanKind::kVerify && !planned.supplied && !result.starved)
    policy_.record_span(planned.rows - 1, result.accepted, result.done != DoneReason::kNone, &sequence->acceptance);
  const Confirmed confirmed = confirm(*sequence, planned, result);
  if (holds_slot && !result.starved) sequence->drafts = result.drafts;
  if (planned.kind != SpanKind::kPrefill && limits_.max_draft_tokens > 0 && !planned.supplied && !result.starved) {
    ++counters_.draft_widths[static_cast<size_t>(std::min(result.drafted, limits_.max_draft_tokens))];
    if (planned.kind == SpanKind::kVerify && result.drafted == 0) ++counters_.undrafted[static_cast<size_t>(Undrafted::kNoProposal)];
    for (int32_t i = 0; i < std::min(result.drafted, limits_.max_draft_tokens); ++i) ++counters_.drafted_per_position[static_cast<size_t>(i)];
  }
  if (planned.supplied) {
    counters_.forced_drafts += result.drafted;
    counters_.forced_accepted += result.accepted;
  } else if (result.drafted > 0) {
    ++counters_.drafts;
    counters_.draft_tokens += result.drafted;
    counters_.accepted_tokens += result.accepted;
    for (int32_t i = 0; i < result.accepted; ++i) ++counters_.accepted_per_position[static_cast<size_t>(i)];
  }
  // Tokens of a sequence that was preempted meanwhile stand too: they were drawn from its own history.
  const auto standing = result.emitted.begin() + static_cast<int64_t>(confirmed.tokens);
  sequence->tokens.insert(sequence->tokens.end(), result.emitted.begin(), standing);
  counters_.generated_tokens += static_cast<int64_t>(confirmed.tokens);
  if (holds_slot && result.done != DoneReason::kNonFinite) {
    if (!result.emitted.empty()) sequence->computed = sequence->length() - 1;
    publish_blocks(*sequence);
  }
  if (!result.emitted.empty()) sequence->prefilled_once = true;

  OutputEvent event = confirmed.finish == FinishReason::kError ? dead_end(*sequence) : OutputEvent{};
  event.tokens.assign(result.emitted.begin(), standing);
  event.logprobs = result.logprobs;
  event.logprobs.resize(std::min(event.logprobs.size(), event.tokens.size()));
  if (!planned.supplied) {
    event.accepted_draft_tokens = std::min(result.accepted, static_cast<int32_t>(confirmed.tokens));
    event.rejected_draft_tokens = result.drafted - event.accepted_draft_tokens;
  }
  if (confirmed.finish != FinishReason::kNone) {
    event.finish = confirmed.finish;
    return end(sequence, std::move(event));
  }
  switch (result.done) {
    case DoneReason::kNone:
      if (!event.tokens.empty()) send(sequence, std::move(event));
      return;
    case DoneReason::kStopId:
      event.finish = FinishReason::kStop;
      event.stop_id = event.tokens.back();
      event.tokens.pop_back();
      if (!event.logprobs.empty()) event.logprobs.pop_back();
      break;
    case DoneReason::kLength:
      event.finish = FinishReason::kLength;
      break;
    case DoneReason::kNonFinite:
      event.finish = FinishReason::kError;
      event.error = "the model produced values that are not finite";
      break;
  }
  end(sequence, std::move(event));
}

void Scheduler::publish_blocks(Sequence& sequence) {
  const auto full = static_cast<size_t>(sequence.computed / limits_.block_tokens);
  const auto step = static_cast<size_t>(limits_.block_tokens);
  const std::span<const int32_t> tokens(sequence.tokens);
  while (sequence.published.size() < full) {
    const size_t index = sequence.published.size();
    const uint64_t parent = index == 0 ? 0 : sequence.published[index - 1];
    sequence.published.push_back(prefix_.publish(sequence.salt, parent, tokens.subspan(index * step, step),
                                                 sequence.blocks.column(0)[index]));
  }
}

void Scheduler::forget_blocks(Sequence& sequence) {
  for (int32_t block : sequence.blocks.column(0)) prefix_.forget(block);
  // Preempted or ended meanwhile: its blocks are on their way back.
  for (const Quarantined& entry : quarantine_)
    if (entry.owner == &sequence)
      for (int32_t block : entry.blocks) prefix_.forget(block);
}

void Scheduler::send(const std::shared_ptr<Sequence>& sequence, OutputEvent event) {
  event.choice = sequence->choice;
  if (!sequence->announced) {
    sequence->announced = true;
    event.cached_tokens = sequence->choice == 0 ? sequence->cached_prompt_tokens : 0;
  }
  if (!event.tokens.empty() && sequence->first_token == Clock::TimePoint{}) {
    sequence->first_token = clock_->now();
    Family& family = family_of(*sequence);
    if (family.first_token == Clock::TimePoint{}) family.first_token = sequence->first_token;
  }
  Request& request = *sequence->request;
  // The reader is gone or too slow: the rest of the request ends at the next build.
  if (!request.output->push(std::move(event))) request.cancelled.store(true, std::memory_order_relaxed);
}

void Scheduler::end(const std::shared_ptr<Sequence>& sequence, OutputEvent event) {
  const FinishReason reason = event.finish;
  if (reason == FinishReason::kError && event.cause == ErrorCause::kConstraint) ++counters_.constraint_dead_ends;
  send(sequence, std::move(event));
  let_go(*sequence);
  sequence->move(SequenceState::kFinished);
  std::erase(live_, sequence);
  switch (reason) {
    case FinishReason::kStop: ++counters_.finished_stop; break;
    case FinishReason::kLength: ++counters_.finished_length; break;
    case FinishReason::kCancelled: ++counters_.finished_cancelled; break;
    case FinishReason::kError: ++counters_.finished_error; break;
    case FinishReason::kNone: CHECK(false, "an end has a reason");
  }
  close_family(*sequence, reason);
}

Scheduler::Family& Scheduler::family_of(const Sequence& sequence) {
  for (const auto& family : families_)
    if (family->request == sequence.request) return *family;
  CHECK(false, "a live sequence has a family");
  __builtin_unreachable();
}

void Scheduler::close_family(const Sequence& sequence, FinishReason reason) {
  Family& family = family_of(sequence);
  // The worst end of a choice is the request's: an error, then a cancel, then the first choice's own.
  const auto rank = [](FinishReason r) { return r == FinishReason::kError ? 2 : r == FinishReason::kCancelled ? 1 : 0; };
  if (family.reason == FinishReason::kNone || rank(reason) > rank(family.reason)) family.reason = reason;
  if (--family.alive > 0) return;
  if (family.queued && hooks_.left_queue) hooks_.left_queue(*family.request);
  if (hooks_.request_done) {
    const Clock::TimePoint now = clock_->now(), unset{};
    const auto seconds = [](Clock::TimePoint from, Clock::TimePoint to) {
      return std::max(0.0, std::chrono::duration<double>(to - from).count());
    };
    const Clock::TimePoint arrival = family.request->arrival;
    const Clock::TimePoint scheduled = family.first_scheduled == unset ? now : family.first_scheduled;
    const Clock::TimePoint token = family.first_token == unset ? now : family.first_token;
    RequestTimes times;
    times.queue_s = seconds(arrival, scheduled);
    times.prefill_s = seconds(scheduled, token);
    times.decode_s = seconds(token, now);
    times.first_token_s = seconds(arrival, token);
    times.total_s = seconds(arrival, now);
    times.preemptions = family.preemptions;
    hooks_.request_done(*family.request, times, family.reason);
  }
  std::erase_if(families_, [&](const auto& one) { return one.get() == &family; });
}

void Scheduler::end_all(ErrorCause cause, const std::string& text) {
  for (const auto& sequence : std::vector<std::shared_ptr<Sequence>>(live_)) {
    OutputEvent event;
    event.finish = FinishReason::kError;
    event.cause = cause;
    event.error = text;
    end(sequence, std::move(event));
  }
}

std::vector<double> EngineStats::acceptance_by_position() const {
  std::vector<double> shares;
  for (size_t i = 0; i < drafted_per_position.size(); ++i)
    shares.push_back(drafted_per_position[i] == 0 ? 0 : static_cast<double>(accepted_per_position[i]) / static_cast<double>(drafted_per_position[i]));
  return shares;
}

void Scheduler::fill(EngineStats* stats) const {
  *stats = counters_;
  for (const auto& sequence : live_) (sequence->waits() ? stats->waiting : stats->running) += 1;
  stats->draft_probes = policy_.probes();
  stats->blocks_total = pool_.total();
  stats->blocks_used = pool_.referenced();
  stats->blocks_cached = pool_.cached();
  stats->blocks_free = pool_.free();
}

}  // namespace slipstream
