// Constraints of choices: the masks of a plan's rows, drafts that constraints foresee, and what of a result stands.
#include <algorithm>

#include "engine/sample/row_masks.h"
#include "engine/schedule/scheduler.h"

namespace slipstream {
namespace {

/// Drafts of one span that a constraint may bring: one row of the token before them, sixteen in all.
constexpr int32_t kMostSupplied = 15;

}  // namespace

StepMasks Scheduler::masks(const StepPlan& plan) {
  StepMasks masks;
  if (std::ranges::none_of(plan.spans, [](const Span& span) { return span.constrained; })) return masks;
  InFlight& flight = in_flight_.back();
  CHECK(flight.step == plan.step, "masks are those of the newest plan");
  const Clock::TimePoint start = clock_->now();
  size_t rows = 0;
  for (const Span& span : plan.spans) rows += static_cast<size_t>(logit_rows_of(span));
  masks.rows.resize(rows);
  const std::span<std::vector<uint32_t>> all(masks.rows);
  size_t first = 0;
  for (size_t s = 0; s < plan.spans.size(); ++s) {
    const auto count = static_cast<size_t>(logit_rows_of(plan.spans[s]));
    if (plan.spans[s].constrained) mask_span(plan.spans[s], &flight.spans[s], all.subspan(first, count));
    first += count;
  }
  const int64_t masked = std::ranges::count_if(masks.rows, [](const auto& row) { return !row.empty(); });
  if (masked == 0) masks.rows.clear();
  counters_.masked_rows += masked;
  counters_.mask_s += std::chrono::duration<double>(clock_->now() - start).count();
  return masks;
}

void Scheduler::mask_span(const Span& span, PlannedSpan* planned, std::span<std::vector<uint32_t>> rows) {
  // A shared pointer of its own: an end gives the scheduler's away.
  const std::shared_ptr<Sequence> sequence = planned->sequence;
  // Ended by the result just read: whatever its rows draw is dropped.
  if (sequence->finished()) return;
  const SamplingParams& sampling = sequence->request->sampling;
  RowMasksInput input;
  input.drafts = span.supplied_drafts.empty() ? sequence->drafts : span.supplied_drafts;
  input.stop_ids = sampling.stop_ids;
  input.early_rows = sampling.min_tokens - sequence->emitted();
  input.vocab = limits_.vocab;
  planned->lawful_rows = mask_rows(*sequence->constraint, input, rows);
  if (planned->lawful_rows > 0) return;
  if (sequence->constraint->ended()) {
    OutputEvent event;
    event.finish = FinishReason::kStop;
    end(sequence, std::move(event));
  } else {
    end(sequence, dead_end(*sequence));
  }
}

OutputEvent Scheduler::dead_end(const Sequence& sequence) {
  OutputEvent event;
  event.finish = FinishReason::kError;
  event.cause = ErrorCause::kConstraint;
  event.error = "no token may follow the " + std::to_string(sequence.emitted()) +
                " generated ones: the response format and the allowed or forbidden tokens of the request contradict each other; "
                "loosen one of them";
  return event;
}

Scheduler::Confirmed Scheduler::confirm(Sequence& sequence, const PlannedSpan& planned, const SpanResult& result) const {
  if (sequence.constraint == nullptr) return {result.emitted.size()};
  const size_t lawful = std::min(result.emitted.size(), static_cast<size_t>(planned.lawful_rows));
  for (size_t i = 0; i < lawful; ++i) {
    // A stop id ends the choice by itself and is no part of its text.
    if (result.done == DoneReason::kStopId && i + 1 == result.emitted.size()) break;
    sequence.constraint->accept(result.emitted[i]);
    if (sequence.constraint->ended()) return {i + 1, FinishReason::kStop};
  }
  // A row that no token was allowed in drew one, since the device does not know.
  if (lawful < result.emitted.size()) return {lawful, FinishReason::kError};
  return {lawful};
}

std::vector<int32_t> Scheduler::forced_drafts(Sequence& sequence, int32_t most, bool* more) const {
  std::vector<int32_t> forced;
  if (most <= 0 || sequence.constraint == nullptr || !sequence.request->speculate) return forced;
  most = std::min(most, kMostSupplied);
  const bool unread = sequence.in_flight_max > 0;
  const std::vector<int32_t>& verified = sequence.supplied.empty() ? sequence.drafts : sequence.supplied;
  const size_t drafts = unread && sequence.planned_rows > 1 ? std::min(verified.size(), static_cast<size_t>(sequence.planned_rows - 1)) : 0;
  // What the unread plan may emit, these drafts, and one that says whether more follow.
  sequence.constraint->forced(static_cast<int32_t>(drafts) + (unread ? 1 : 0) + most + 1, &forced);
  size_t emitted = unread ? 1 : 0;
  while (emitted > 0 && emitted <= drafts && emitted <= forced.size() && verified[emitted - 1] == forced[emitted - 1]) ++emitted;
  if (forced.size() <= emitted) return {};
  forced.erase(forced.begin(), forced.begin() + static_cast<int64_t>(emitted));
  *more = forced.size() > static_cast<size_t>(most);
  forced.resize(std::min(forced.size(), static_cast<size_t>(most)));
  // An end is drawn, not verified.
  const std::vector<int32_t>& stop_ids = sequence.request->sampling.stop_ids;
  const auto cut = std::ranges::find_if(forced, [&](int32_t token) {
    return token < 0 || token >= limits_.vocab || std::ranges::find(stop_ids, token) != stop_ids.end();
  });
  forced.erase(cut, forced.end());
  return forced;
}

}  // namespace slipstream
