#include "engine/run/device_slots.h"

#include <algorithm>

#include "engine/spec/verifier.h"

namespace slipstream {
namespace {

void require(bool condition, const char* text, const Span& span) {
  if (!condition)
    throw DeviceError(std::string("plan: ") + text + " (slot " + std::to_string(span.slot) + ", start " +
                      std::to_string(span.start) + ", rows " + std::to_string(span.rows) + ")");
}

}  // namespace

uint64_t digest_of(const StepResult& result) {
  uint64_t state = 0xcbf29ce484222325ull;  // FNV-1a over words
  const auto add = [&](int64_t word) { state = (state ^ static_cast<uint64_t>(word)) * 0x100000001b3ull; };
  for (const SpanResult& span : result.spans) {
    add(span.slot);
    add(span.accepted);
    for (int32_t token : span.emitted) add(token);
    for (int32_t token : span.drafts) add(token);
    add(static_cast<int64_t>(span.done));
  }
  return state;
}

void require_masks(const StepPlan& plan, const StepMasks& masks, int32_t vocab) {
  size_t logit_rows = 0;
  for (const Span& span : plan.spans) logit_rows += static_cast<size_t>(logit_rows_of(span));
  if (masks.rows.size() > logit_rows)
    throw DeviceError("plan: " + std::to_string(masks.rows.size()) + " token masks for " + std::to_string(logit_rows) + " logit rows");
  const size_t words = (static_cast<size_t>(vocab) + 31) / 32;
  for (const std::vector<uint32_t>& mask : masks.rows)
    if (!mask.empty() && mask.size() != words)
      throw DeviceError("plan: a token mask of " + std::to_string(mask.size()) + " words; a vocabulary of " + std::to_string(vocab) +
                        " has " + std::to_string(words));
}

std::vector<TokenLogprob> logprobs_of(std::span<const SampledToken> drawn) {
  std::vector<TokenLogprob> all;
  all.reserve(drawn.size());
  for (const SampledToken& token : drawn) {
    TokenLogprob one;
    one.logprob = token.logprob;
    for (int32_t i = 0; i < token.top_count; ++i) one.top.emplace_back(token.top_ids[i], token.top_logprobs[i]);
    all.push_back(std::move(one));
  }
  return all;
}

DeviceSlots::DeviceSlots(const DeviceShape& shape) : shape_(shape), slots_(static_cast<size_t>(shape.slots)) {
  for (Slot& slot : slots_) {
    slot.tables.resize(static_cast<size_t>(shape.groups));
    slot.table_addresses.resize(static_cast<size_t>(shape.groups), nullptr);
    slot.drafts.reserve(static_cast<size_t>(shape.max_draft_tokens));
  }
  token_ids_.reserve(static_cast<size_t>(shape.max_rows));
  positions_.reserve(static_cast<size_t>(shape.max_rows));
  logit_rows_.reserve(static_cast<size_t>(shape.max_logit_rows()));
  sample_rows_.reserve(static_cast<size_t>(shape.max_logit_rows()));
  spans_.reserve(slots_.size());
  placed_.reserve(slots_.size());
  draft_requests_.reserve(slots_.size());
  standing_rows_.reserve(static_cast<size_t>(shape.max_rows));
  standing_positions_.reserve(static_cast<size_t>(shape.max_rows));
  standing_spans_.reserve(slots_.size());
  standing_owners_.reserve(slots_.size());
}

DeviceSlots::Slot& DeviceSlots::slot_of(int32_t slot) {
  if (slot < 0 || slot >= shape_.slots)
    throw DeviceError("plan: slot " + std::to_string(slot) + " of " + std::to_string(shape_.slots));
  return slots_[static_cast<size_t>(slot)];
}

void DeviceSlots::open(const OpenSlot& command) {
  Slot& slot = slot_of(command.slot);
  const auto length = static_cast<int32_t>(command.history.size());
  if (command.cached_tokens < 0 || command.cached_tokens >= length || command.prompt_tokens > length ||
      command.prompt_tokens < 1 || command.remaining_tokens < 1)
    throw DeviceError("plan: slot " + std::to_string(command.slot) + " opened with " + std::to_string(length) +
                      " tokens, " + std::to_string(command.cached_tokens) + " cached, budget " +
                      std::to_string(command.remaining_tokens));
  slot.open = true;
  slot.done = false;
  slot.generation = command.generation;
  slot.choice = command.choice;
  slot.prompt_tokens = command.prompt_tokens;
  slot.committed = length;
  slot.cached = command.cached_tokens;
  slot.emitted = command.emitted_tokens;
  slot.remaining = command.remaining_tokens;
  slot.sampling = command.sampling;
  slot.history.clear();
  // One allocation for the life of the sequence, unless the budget is far larger than what most sequences use.
  slot.history.reserve(command.history.size() + static_cast<size_t>(std::min(command.remaining_tokens, 1 << 16)) +
                       static_cast<size_t>(std::max(shape_.max_draft_tokens, shape_.max_supplied_drafts)));
  slot.history.assign(command.history.begin(), command.history.end());
  slot.drafts.clear();
  for (auto& table : slot.tables) table.clear();
}

void DeviceSlots::grant(const GrantBlocks& command) {
  Slot& slot = slot_of(command.slot);
  if (command.group < 0 || command.group >= shape_.groups)
    throw DeviceError("plan: cache group " + std::to_string(command.group) + " of " + std::to_string(shape_.groups));
  auto& table = slot.tables[static_cast<size_t>(command.group)];
  table.insert(table.end(), command.blocks.begin(), command.blocks.end());
}

void DeviceSlots::release(const ReleaseSlot& command) {
  Slot& slot = slot_of(command.slot);
  if (slot.generation != command.generation) return;
  slot.open = false;
  slot.drafts.clear();
  for (auto& table : slot.tables) table.clear();
}

int32_t DeviceSlots::capacity(const Slot& slot) const {
  size_t blocks = slot.tables.empty() ? 0 : slot.tables[0].size();
  for (const auto& table : slot.tables) blocks = std::min(blocks, table.size());
  return static_cast<int32_t>(blocks) * shape_.block_tokens;
}

const StepInputs& DeviceSlots::place(const StepPlan& plan, const std::function<bool()>& starve) {
  token_ids_.clear();
  positions_.clear();
  logit_rows_.clear();
  spans_.clear();
  placed_.clear();
  for (const Span& span : plan.spans) {
    Slot& slot = slot_of(span.slot);
    Placed placed;
    if (slot.open && !slot.done && slot.generation == span.generation) {
      if (span.kind == SpanKind::kPrefill)
        place_prefill(span, slot, &placed);
      else
        place_decode(span, slot, starve, &placed);
    }
    placed_.push_back(placed);
  }
  inputs_.rows = static_cast<int32_t>(token_ids_.size());
  inputs_.token_ids = token_ids_.data();
  inputs_.positions = positions_.data();
  inputs_.spans = spans_;
  inputs_.logit_rows = logit_rows_;
  inputs_.groups = shape_.groups;
  return inputs_;
}

void DeviceSlots::place_prefill(const Span& span, Slot& slot, Placed* placed) {
  require(span.rows > 0 && span.start == slot.cached && span.start + span.rows <= slot.committed,
          "a prefill chunk does not continue the slot", span);
  require(span.start + span.rows <= capacity(slot), "a prefill chunk passes the granted blocks", span);
  placed->rows = span.rows;
  placed->logits = span.logits == LogitsWanted::kNone ? 0 : 1;
  require(placed->logits == 0 || span.start + span.rows == slot.committed, "logits before the last token", span);
  add_rows(slot, span.start, placed);
}

void DeviceSlots::place_decode(const Span& span, Slot& slot, const std::function<bool()>& starve, Placed* placed) {
  require(slot.cached == slot.committed - 1, "decode of a slot that is not prefilled", span);
  const std::vector<int32_t>& drafts = span.supplied_drafts.empty() ? slot.drafts : span.supplied_drafts;
  // A draft past the budget could never be emitted, and has no block.
  const int32_t used = std::min({static_cast<int32_t>(drafts.size()), span.rows - 1, slot.remaining - 1});
  if (slot.cached + 1 + used > capacity(slot) || (starve && starve())) {
    placed->starved = true;
    return;
  }
  slot.history.insert(slot.history.end(), drafts.begin(), drafts.begin() + used);
  placed->rows = 1 + used;
  placed->drafts = used;
  placed->logits = placed->rows;
  add_rows(slot, slot.cached, placed);
}

void DeviceSlots::add_rows(Slot& slot, int32_t start, Placed* placed) {
  placed->runs = true;
  placed->first_row = static_cast<int32_t>(token_ids_.size());
  placed->first_logit = static_cast<int32_t>(logit_rows_.size());
  if (placed->first_row + placed->rows > shape_.max_rows)
    throw DeviceError("plan: more than " + std::to_string(shape_.max_rows) + " rows in a step");
  for (int32_t i = 0; i < placed->rows; ++i) {
    token_ids_.push_back(slot.history[static_cast<size_t>(start + i)]);
    positions_.push_back(start + i);
    if (i >= placed->rows - placed->logits) logit_rows_.push_back(placed->first_row + i);
  }
  for (size_t g = 0; g < slot.tables.size(); ++g) slot.table_addresses[g] = slot.tables[g].data();
  spans_.push_back({placed->first_row, placed->rows, start, slot.table_addresses.data(), capacity(slot) / shape_.block_tokens});
}

std::span<const SampleRow> DeviceSlots::sample_rows(const StepPlan& plan, const StepMasks& masks) {
  sample_rows_.clear();
  size_t mask_row = 0;  // of the span's first logit row
  for (size_t s = 0; s < plan.spans.size(); ++s) {
    const Placed& placed = placed_[s];
    const size_t first_mask = mask_row;
    mask_row += static_cast<size_t>(logit_rows_of(plan.spans[s]));
    if (!placed.runs) continue;
    const Slot& slot = slots_[static_cast<size_t>(plan.spans[s].slot)];
    const SamplingParams& sampling = slot.sampling;
    const std::span<const int32_t> history(slot.history);
    for (int32_t i = 0; i < placed.logits; ++i) {
      SampleRow row;
      row.temperature = sampling.temperature;
      row.top_p = sampling.top_p;
      row.top_k = sampling.top_k;
      row.min_p = sampling.min_p;
      row.presence_penalty = sampling.presence_penalty;
      row.frequency_penalty = sampling.frequency_penalty;
      row.repetition_penalty = sampling.repetition_penalty;
      row.seed = sampling.seed;
      row.choice = slot.choice;
      row.position = slot.committed + i;
      row.bias = sampling.logit_bias;
      if (slot.emitted + i < sampling.min_tokens) row.suppressed = sampling.stop_ids;
      const size_t index = first_mask + static_cast<size_t>(i);
      if (index < masks.rows.size() && !masks.rows[index].empty()) row.mask = masks.rows[index].data();
      const auto prompt = static_cast<size_t>(slot.prompt_tokens);
      row.prompt_tokens = history.first(prompt);
      row.output_tokens = history.subspan(prompt, static_cast<size_t>(slot.committed + i) - prompt);
      row.top_logprobs = sampling.top_logprobs;
      sample_rows_.push_back(row);
    }
  }
  return sample_rows_;
}

StepResult DeviceSlots::settle(const StepPlan& plan, std::span<const SampledToken> drawn) {
  StepResult result;
  result.step = plan.step;
  result.spans.reserve(plan.spans.size());
  draft_requests_.clear();
  for (size_t s = 0; s < plan.spans.size(); ++s) {
    const Placed& placed = placed_[s];
    result.spans.push_back(settle_span(
        plan.spans[s], placed,
        drawn.subspan(static_cast<size_t>(placed.first_logit), static_cast<size_t>(placed.logits))));
  }
  result.digest = digest_of(result);
  return result;
}

SpanResult DeviceSlots::settle_span(const Span& span, const Placed& placed, std::span<const SampledToken> drawn) {
  Slot& slot = slots_[static_cast<size_t>(span.slot)];
  SpanResult result;
  result.slot = span.slot;
  result.generation = span.generation;
  result.starved = placed.starved;
  if (!placed.runs) return result;
  if (span.kind == SpanKind::kPrefill) slot.cached += placed.rows;
  if (placed.logits == 0) return result;

  const std::span<const int32_t> drafts =
      std::span<const int32_t>(slot.history).subspan(static_cast<size_t>(slot.committed), static_cast<size_t>(placed.drafts));
  Verdict verdict;
  if (shape_.synthetic) {
    made_up_.assign(drawn.begin(), drawn.end());
    verdict = verify_synthetic(drafts, made_up_, shape_.synthetic->accepted(slot.sampling.seed, slot.choice, slot.committed, placed.drafts),
                               slot.sampling.stop_ids, slot.remaining);
    drawn = made_up_;
  } else {
    verdict = verify(drafts, drawn, slot.sampling.stop_ids, slot.remaining);
  }
  const auto kept = drawn.first(static_cast<size_t>(verdict.emitted));
  slot.history.resize(static_cast<size_t>(slot.committed));
  for (const SampledToken& token : kept) {
    slot.history.push_back(token.token);
    result.emitted.push_back(token.token);
  }
  if (slot.sampling.top_logprobs >= 0) result.logprobs = logprobs_of(kept);
  slot.committed += verdict.emitted;
  slot.cached = slot.committed - 1;
  slot.emitted += verdict.emitted;
  slot.remaining -= verdict.emitted;
  slot.done = verdict.done != DoneReason::kNone;
  slot.drafts.clear();
  result.drafted = placed.drafts;
  result.accepted = verdict.accepted;
  result.done = verdict.done;
  result.non_finite = verdict.done == DoneReason::kNonFinite;
  const int32_t wanted = std::min({span.draft_rows_next, shape_.max_draft_tokens, slot.remaining - 1});
  if (!slot.done && wanted > 0)
    draft_requests_.push_back({span.slot, slot.history, wanted, slot.table_addresses.data(), capacity(slot) / shape_.block_tokens});
  return result;
}

const StandingRows& DeviceSlots::standing(const StepPlan& plan, const StepResult& result) {
  standing_rows_.clear();
  standing_positions_.clear();
  standing_spans_.clear();
  standing_owners_.clear();
  size_t running = 0;  // index into spans_
  auto request = draft_requests_.begin();  // in the order of the spans
  for (size_t s = 0; s < plan.spans.size(); ++s) {
    const Placed& placed = placed_[s];
    if (!placed.runs) continue;
    SpanRows span = spans_[running++];
    if (result.spans[s].non_finite) continue;
    const bool due = request != draft_requests_.end() && request->slot == plan.spans[s].slot;
    if (due) ++request;
    standing_owners_.push_back({plan.spans[s].slot, plan.spans[s].generation, due});
    if (plan.spans[s].kind != SpanKind::kPrefill) span.rows = 1 + result.spans[s].accepted;
    span.first_row = static_cast<int32_t>(standing_rows_.size());
    standing_spans_.push_back(span);
    for (int32_t r = 0; r < span.rows; ++r) {
      standing_rows_.push_back(placed.first_row + r);
      standing_positions_.push_back(span.context + r);
    }
  }
  standing_ = {};
  standing_.step.rows = static_cast<int32_t>(standing_rows_.size());
  standing_.step.positions = standing_positions_.data();
  standing_.step.spans = standing_spans_;
  standing_.step.groups = shape_.groups;
  standing_.rows = standing_rows_;
  standing_.spans = standing_owners_;
  return standing_;
}

void DeviceSlots::keep_drafts(std::span<const std::vector<int32_t>> drafts) {
  for (size_t i = 0; i < draft_requests_.size(); ++i) {
    const DraftRequest& request = draft_requests_[i];
    const size_t count = std::min(drafts[i].size(), static_cast<size_t>(request.max_tokens));
    slots_[static_cast<size_t>(request.slot)].drafts.assign(drafts[i].begin(),
                                                            drafts[i].begin() + static_cast<int64_t>(count));
  }
}

void DeviceSlots::report_drafts(const StepPlan& plan, StepResult* result) const {
  bool any = false;
  for (size_t s = 0; s < plan.spans.size(); ++s) {
    const Span& span = plan.spans[s];
    if (!span.constrained || !placed_[s].runs) continue;
    result->spans[s].drafts = slots_[static_cast<size_t>(span.slot)].drafts;
    any = any || !result->spans[s].drafts.empty();
  }
  if (any) result->digest = digest_of(*result);
}

}  // namespace slipstream
