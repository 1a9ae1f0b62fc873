// See dflash_proposer.h.
#include "engine/spec/dflash_proposer.h"

#include <algorithm>

namespace slipstream {

DflashProposer::DflashProposer(std::unique_ptr<DflashDrafter> drafter, Ops& ops, int32_t max_rows, int32_t max_blocks)
    : drafter_(std::move(drafter)),
      ops_(ops),
      tap_width_(static_cast<int64_t>(drafter_->config().taps.size()) * drafter_->config().target_hidden),
      proposals_(static_cast<size_t>(max_blocks)) {
  const auto bytes = static_cast<size_t>(max_rows) * static_cast<size_t>(tap_width_) * sizeof(float);
  step_taps_ = ops_.allocate(bytes);
  standing_taps_ = ops_.allocate(bytes);
  taps_ = {drafter_->config().taps, step_taps_.as<float>()};
  blocks_.reserve(static_cast<size_t>(max_blocks));
  owners_.reserve(static_cast<size_t>(max_blocks));
  for (auto& proposal : proposals_) proposal.reserve(kMaxBlockRows);
}

void DflashProposer::observe(const StepInputs& committed, std::span<const int32_t> step_rows) {
  CHECK(kv_ != nullptr, "a drafter that was not attached to a cache");
  const float* taps = step_taps_.as<float>();
  // Prompts and plain decoding keep every row; only rejected drafts leave gaps.
  if (step_rows.back() + 1 != static_cast<int32_t>(step_rows.size())) {
    ops_.gather_rows(taps, step_rows, tap_width_, standing_taps_.as<float>());
    taps = standing_taps_.as<float>();
  }
  drafter_->inject(committed, taps, *kv_);
}

void DflashProposer::propose(std::span<const DraftRequest> requests, std::vector<std::vector<int32_t>>* drafts) {
  CHECK(kv_ != nullptr, "a drafter that was not attached to a cache");
  const DrafterConfig& config = drafter_->config();
  const int32_t block_tokens = kv_->layer(drafter_->cache_layer(0)).block_tokens;
  blocks_.clear();
  owners_.clear();
  for (size_t i = 0; i < requests.size(); ++i) {
    const DraftRequest& request = requests[i];
    DraftBlock block;
    block.anchor = request.history.back();
    block.context = static_cast<int32_t>(request.history.size()) - 1;
    const int32_t room = std::min(request.blocks * block_tokens, config.stack.context_length) - block.context;
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
