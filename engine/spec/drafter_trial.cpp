// See drafter_trial.h.
#include "engine/spec/drafter_trial.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace slipstream {

double DraftScore::accuracy(int32_t slot) const {
  int32_t there = 0, hits = 0;
  for (int32_t a = 0; a < anchors(); ++a) {
    there += at(a, slot).there;
    hits += at(a, slot).there && at(a, slot).hit;
  }
  return there == 0 ? 0 : static_cast<double>(hits) / there;
}

double DraftScore::length() const {
  int64_t emitted = 0;
  for (int32_t a = 0; a < anchors(); ++a) {
    ++emitted;
    for (int32_t s = 0; s < slots_ && at(a, s).there && at(a, s).hit; ++s) ++emitted;
  }
  return anchors() == 0 ? 0 : static_cast<double>(emitted) / anchors();
}

bool DraftScore::anchor_loss(int32_t anchor, int32_t slots, double* loss) const {
  int32_t count = 0;
  *loss = 0;
  for (int32_t s = 0; s < std::min(slots, slots_); ++s) {
    if (!at(anchor, s).there) continue;
    *loss += at(anchor, s).loss;
    ++count;
  }
  if (count > 0) *loss /= count;
  return count > 0;
}

double DraftScore::loss(int32_t slots) const {
  double sum = 0, one = 0;
  int32_t count = 0;
  for (int32_t a = 0; a < anchors(); ++a) {
    if (!anchor_loss(a, slots, &one)) continue;
    sum += one;
    ++count;
  }
  return count == 0 ? 0 : sum / count;
}

Lead::Lead(const DraftScore& a, const DraftScore& b) {
  const int32_t slots = std::min(a.slots(), b.slots());
  constexpr double kSmall = 0.02;  // nats: losses below it are as good as none
  std::vector<double> leads;
  double x = 0, y = 0, mean = 0;
  for (int32_t i = 0; i < std::min(a.anchors(), b.anchors()); ++i) {
    if (!a.anchor_loss(i, slots, &x) || !b.anchor_loss(i, slots, &y)) continue;
    nats += y - x;
    leads.push_back(std::log((y + kSmall) / (x + kSmall)));
    mean += leads.back();
  }
  const auto count = static_cast<double>(leads.size());
  if (count < 2) return;
  nats /= count;
  mean /= count;
  double squares = 0;
  for (const double lead : leads) squares += (lead - mean) * (lead - mean);
  const double error = std::sqrt(squares / (count - 1) / count);
  // equal differences everywhere are as sure as differences get
  standard_errors = error > 0 ? mean / error : mean == 0 ? 0 : std::copysign(1e6, mean);
}

DrafterTrial::DrafterTrial(const WrittenText& text, Ops& ops, const KvViews& kv, const ScratchTables& tables, const Options& options)
    : text_(text), ops_(ops), kv_(kv), tables_(tables), options_(options) {
  std::vector<std::vector<int32_t>> of_text;
  for (size_t s = 0; s < text.sequences.size(); ++s) {
    const WrittenText::Sequence& sequence = text.sequences[s];
    // an anchor is a written token with one behind it
    const auto length = static_cast<int32_t>(sequence.ids.size());
    const int32_t room = length - 1 - sequence.written;
    const int32_t count = std::min(options.anchors, room);
    std::vector<int32_t>& own = of_text.emplace_back();
    // Drafting at a position overwrites the context behind it, so the last goes first.
    for (int32_t k = count - 1; k >= 0; --k) {
      const auto position = static_cast<int32_t>(sequence.written + int64_t{room} * k / count);
      own.push_back(static_cast<int32_t>(anchors_.size()));
      anchors_.push_back({static_cast<int32_t>(s), position});
      longest_context_ = std::max(longest_context_, position);
    }
  }
  for (size_t k = 0; k < static_cast<size_t>(options.anchors); ++k) {
    std::vector<int32_t> round;
    for (const auto& own : of_text)
      if (k < own.size()) round.push_back(own[k]);
    if (!round.empty()) rounds_.push_back(std::move(round));
  }
}

DraftScore DrafterTrial::score(DflashDrafter& drafter, int32_t slots) {
  const DrafterConfig& config = drafter.config();
  slots = std::min(slots, config.drafts(config.block_rows));
  DraftScore score(anchors(), slots);
  inject(drafter);
  const size_t at_once = static_cast<size_t>(std::min(options_.max_blocks, std::max(1, DflashDrafter::kHeadRows / std::max(1, slots))));
  for (const std::vector<int32_t>& round : rounds_)
    for (size_t first = 0; first < round.size(); first += at_once)
      draft(drafter, std::span(round).subspan(first, std::min(at_once, round.size() - first)), slots, &score);
  return score;
}

void DrafterTrial::inject(DflashDrafter& drafter) {
  const std::vector<int32_t>& taps = drafter.config().taps;
  const auto layers = static_cast<int32_t>(text_.layers.size());
  std::vector<int32_t> columns;  // of each tap among the text's layers
  for (const int32_t tap : taps) {
    const auto found = std::ranges::find(text_.layers, tap);
    CHECK(found != text_.layers.end(), "a tap that the text was not written with");
    columns.push_back(static_cast<int32_t>(found - text_.layers.begin()));
  }
  const size_t bytes = static_cast<size_t>(options_.max_rows) * taps.size() * static_cast<size_t>(text_.hidden) * sizeof(float);
  if (taps_.bytes() < bytes) taps_ = ops_.allocate(bytes);
  for (size_t s = 0; s < text_.sequences.size(); ++s) {
    const WrittenText::Sequence& sequence = text_.sequences[s];
    const int32_t length = static_cast<int32_t>(sequence.ids.size()) - 1;
    for (int32_t first = 0; first < length; first += options_.max_rows) {
      const int32_t rows = std::min(options_.max_rows, length - first);
      std::vector<int32_t> from, positions;
      for (int32_t r = first; r < first + rows; ++r) {
        positions.push_back(r);
        for (const int32_t column : columns) from.push_back(r * layers + column);
      }
      ops_.gather_rows(sequence.taps.as<float>(), from, text_.hidden, taps_.as<float>());
      const SpanRows span{0, rows, first, tables_.of(static_cast<int32_t>(s)), tables_.blocks()};
      StepInputs step{rows, nullptr, positions.data(), {&span, 1}, {}};
      step.groups = tables_.groups();
      drafter.inject(step, taps_.as<float>(), kv_);
    }
  }
}

void DrafterTrial::draft(DflashDrafter& drafter, std::span<const int32_t> anchors, int32_t slots, DraftScore* score) {
  const DrafterConfig& config = drafter.config();
  std::vector<DraftBlock> blocks;
  for (const int32_t index : anchors) {
    const Anchor& anchor = anchors_[static_cast<size_t>(index)];
    const WrittenText::Sequence& sequence = text_.sequences[static_cast<size_t>(anchor.sequence)];
    blocks.push_back({sequence.ids[static_cast<size_t>(anchor.position)], anchor.position, config.block_rows, slots,
                      tables_.of(anchor.sequence), tables_.blocks()});
  }
  std::vector<std::vector<int32_t>> drafts(blocks.size());
  drafter.draft(blocks, kv_, drafts);
  if (options_.losses) {
    vocab_ = drafter.vocab();
    scores_.resize(blocks.size() * static_cast<size_t>(slots) * static_cast<size_t>(vocab_));
    ops_.download(scores_.data(), drafter.slot_scores(), scores_.size() * sizeof(float));
  }
  for (size_t b = 0; b < blocks.size(); ++b) {
    const Anchor& anchor = anchors_[static_cast<size_t>(anchors[b])];
    const std::vector<int32_t>& ids = text_.sequences[static_cast<size_t>(anchor.sequence)].ids;
    for (int32_t s = 0; s < slots; ++s) {
      const auto position = static_cast<size_t>(anchor.position + 1 + s);
      if (position >= ids.size()) break;
      DraftScore::Cell& cell = score->at(anchors[b], s);
      cell.there = true;
      cell.hit = static_cast<size_t>(s) < drafts[b].size() && drafts[b][static_cast<size_t>(s)] == ids[position];
      if (options_.losses)
        cell.loss = loss(drafter, scores_.data() + (b * static_cast<size_t>(slots) + static_cast<size_t>(s)) * static_cast<size_t>(vocab_),
                         ids[position]);
    }
  }
}

float DrafterTrial::loss(const DflashDrafter& drafter, const float* scores, int32_t token) {
  constexpr float kWorst = 50;  // nats: also of rows that are not finite
  float most = -std::numeric_limits<float>::infinity();
  for (int32_t v = 0; v < vocab_; ++v) most = std::max(most, scores[v]);
  const float top = drafter.logit(most);
  double sum = 0;
  for (int32_t v = 0; v < vocab_; ++v) sum += std::exp(drafter.logit(scores[v]) - top);
  const double nats = std::log(sum) + static_cast<double>(top) - static_cast<double>(drafter.logit(scores[token]));
  return std::isfinite(nats) ? std::min(static_cast<float>(nats), kWorst) : kWorst;
}

}  // namespace slipstream
