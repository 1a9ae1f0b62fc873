// See dflash_proposer.h.
#include "engine/spec/dflash_proposer.h"

#include <algorithm>

namespace slipstream {

DflashProposer::DflashProposer(std::unique_ptr<DflashDrafter> drafter, Ops& ops, int32_t max_rows, int32_t slots)
    : drafter_(std::move(drafter)),
      ops_(ops),
      tap_width_(static_cast<int64_t>(drafter_->config().taps.size()) * drafter_->config().target_hidden),
      max_rows_(max_rows),
      waiting_(static_cast<size_t>(slots)),
      proposals_(static_cast<size_t>(slots)) {
  const auto rows = static_cast<size_t>(inject_rows(max_rows, slots));
  memory_ = ops_.allocate(rows * static_cast<size_t>(tap_width_) * sizeof(float));
  gathered_ = ops_.allocate(rows * static_cast<size_t>(tap_width_) * sizeof(float));
  taps_ = {drafter_->config().taps, memory_.as<float>()};
  tap_rows_.reserve(rows);
  positions_.reserve(rows);
  spans_.reserve(static_cast<size_t>(slots));
  blocks_.reserve(static_cast<size_t>(slots));
  owners_.reserve(static_cast<size_t>(slots));
  for (auto& proposal : proposals_) proposal.reserve(kMaxBlockRows);
}

bool DflashProposer::is_due(const Waiting& waiting, const StandingRows::Span& span, int32_t end) const {
  if (span.drafts_due || end - waiting.first > kWaitingRows) return true;
  return end / block_tokens() > waiting.first / block_tokens();
}

void DflashProposer::observe(const StandingRows& standing) {
  CHECK(kv_ != nullptr, "a drafter that was not attached to a cache");
  tap_rows_.clear();
  positions_.clear();
  spans_.clear();
  for (size_t s = 0; s < standing.spans.size(); ++s) {
    const StandingRows::Span& owner = standing.spans[s];
    const SpanRows& span = standing.step.spans[s];
    const auto rows = standing.rows.subspan(static_cast<size_t>(span.first_row), static_cast<size_t>(span.rows));
    Waiting& waiting = waiting_[static_cast<size_t>(owner.slot)];
    const int32_t first_waiting = max_rows_ + owner.slot * kWaitingRows;
    if (waiting.generation != owner.generation) waiting = {owner.generation, span.context, 0};
    CHECK(waiting.first + waiting.count == span.context, "rows that do not continue the slot's context");
    const int32_t end = span.context + span.rows;
    if (is_due(waiting, owner, end)) {
      add_span(span, waiting, rows, first_waiting);
      waiting = {owner.generation, end, 0};
    } else {
      ops_.gather_rows(memory_.as<float>(), rows, tap_width_, tap_row(first_waiting + waiting.count));
      waiting.count += span.rows;
    }
  }
  if (!spans_.empty()) inject(standing.step.groups);
}

/// What waits of the slot, then its rows of the step.
void DflashProposer::add_span(const SpanRows& rows, const Waiting& waiting, std::span<const int32_t> step_rows,
                              int32_t first_waiting) {
  const auto first_row = static_cast<int32_t>(tap_rows_.size());
  spans_.push_back({first_row, waiting.count + rows.rows, waiting.first, rows.block_tables, rows.blocks});
  for (int32_t r = 0; r < waiting.count; ++r) tap_rows_.push_back(first_waiting + r);
  tap_rows_.insert(tap_rows_.end(), step_rows.begin(), step_rows.end());
  for (int32_t r = 0; r < spans_.back().rows; ++r) positions_.push_back(waiting.first + r);
}

void DflashProposer::inject(int32_t groups) {
  StepInputs step;
  step.rows = static_cast<int32_t>(positions_.size());
  step.positions = positions_.data();
  step.spans = spans_;
  step.groups = groups;
  const float* taps = memory_.as<float>();
  // A prompt alone stands where the forward left it.
  if (tap_rows_.front() != 0 || tap_rows_.back() != step.rows - 1 || !std::ranges::is_sorted(tap_rows_)) {
    ops_.gather_rows(taps, tap_rows_, tap_width_, gathered_.as<float>());
    taps = gathered_.as<float>();
  }
  drafter_->inject(step, taps, *kv_);
}

void DflashProposer::propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) {
  CHECK(kv_ != nullptr, "a drafter that was not attached to a cache");
  const DrafterConfig& config = drafter_->config();
  blocks_.clear();
  owners_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    DraftBlock block;
    block.anchor = request.history.back();
    block.context = static_cast<int32_t>(request.history.size()) - 1;
    const int32_t room = std::min(request.blocks * block_tokens(), config.stack.context_length) - block.context;
    block.rows = std::min(config.block_rows, room);
    if (block.rows < 1 || config.drafts(block.rows) < 1) continue;
    block.drafts = std::min(request.max_tokens, config.drafts(block.rows));
    block.block_tables = request.block_tables;
    block.blocks = request.blocks;
    blocks_.push_back(block);
    owners_.push_back(i);
  }
  CHECK(blocks_.size() <= proposals_.size(), "drafts for more sequences than the drafter was made for");
  const std::span<std::vector<int32_t>> proposals(proposals_.data(), blocks_.size());
  drafter_->draft(blocks_, *kv_, proposals);
  for (size_t b = 0; b < proposals.size(); ++b) (*drafts)[owners_[b]] = proposals[b];
}

}  // namespace slipstream
