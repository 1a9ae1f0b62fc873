// See target_text.h.
#include "engine/spec/target_text.h"

#include <algorithm>
#include <chrono>

namespace slipstream {
namespace {

/// Whether the last `size` of ids[from..] stand there before.
bool loops(std::span<const int32_t> written, size_t size) {
  if (written.size() < 2 * size) return false;
  const auto tail = written.last(size);
  const auto before = written.first(written.size() - size);
  return !std::ranges::search(before, tail).empty();
}

/// One run of write_text.
class Writer {
 public:
  Writer(Model& model, Ops& ops, const KvViews& kv, const ScratchTables& tables, const TextOptions& options)
      : model_(model), ops_(ops), kv_(kv), tables_(tables), options_(options),
        width_(static_cast<int64_t>(options.layers.size()) * model.config().hidden) {
    memory_ = ops_.allocate(static_cast<size_t>(options.max_rows * width_) * sizeof(float));
    taps_ = {options_.layers, memory_.as<float>()};
    SampleRow argmax;
    argmax.temperature = 0;
    laws_.assign(static_cast<size_t>(options.max_rows), argmax);
    drawn_.resize(laws_.size());
  }

  WrittenText run(std::span<const std::vector<int32_t>> prompts) {
    WrittenText text;
    text.layers.assign(options_.layers.begin(), options_.layers.end());
    text.hidden = model_.config().hidden;
    std::vector<int32_t> open;
    for (const std::vector<int32_t>& prompt : prompts) {
      WrittenText::Sequence& sequence = text.sequences.emplace_back();
      sequence.ids = prompt;
      sequence.written = static_cast<int32_t>(prompt.size());
      sequence.taps = ops_.allocate(static_cast<size_t>((sequence.written + options_.tokens) * width_) * sizeof(float));
      const auto index = static_cast<int32_t>(text.sequences.size()) - 1;
      if (prefill(sequence, index)) open.push_back(index);
    }
    const auto begin = std::chrono::steady_clock::now();
    for (int32_t done = 1; done < options_.tokens && !open.empty(); ++done) {
      if (options_.progress) options_.progress(done, options_.tokens);
      if (options_.seconds > 0 && std::chrono::steady_clock::now() - begin > std::chrono::duration<double>(options_.seconds)) break;
      decode(text.sequences, &open);
    }
    return text;
  }

 private:
  /// One step of one span for each of `owners`; its taps go to them. Tokens drawn from `logit_rows` are in drawn_.
  void step(std::span<const SpanRows> spans, std::span<const int32_t> tokens, std::span<const int32_t> logit_rows,
            std::span<WrittenText::Sequence* const> owners) {
    std::vector<int32_t> positions;
    for (const SpanRows& span : spans)
      for (int32_t r = 0; r < span.rows; ++r) positions.push_back(span.context + r);
    StepInputs inputs{static_cast<int32_t>(positions.size()), tokens.data(), positions.data(), spans, logit_rows};
    inputs.groups = tables_.groups();
    model_.forward(inputs, kv_, &taps_);
    for (size_t s = 0; s < spans.size(); ++s) {
      std::vector<int32_t> from;
      for (int32_t r = 0; r < spans[s].rows; ++r) from.push_back(spans[s].first_row + r);
      ops_.gather_rows(taps_.out, from, width_, owners[s]->taps.as<float>() + spans[s].context * width_);
    }
    if (logit_rows.empty()) return;
    const float* logits = model_.head();
    ops_.sample({logits, static_cast<int32_t>(logit_rows.size()), model_.config().vocab, laws_.data(), drawn_.data()});
  }

  /// Takes the token drawn; false when the text ends.
  bool take(WrittenText::Sequence& sequence, const SampledToken& drawn) {
    if (drawn.non_finite || std::ranges::find(options_.stop_ids, drawn.token) != options_.stop_ids.end()) return false;
    sequence.ids.push_back(drawn.token);
    constexpr size_t kLoop = 8;
    if (static_cast<int32_t>(sequence.ids.size()) >= tables_.tokens()) return false;
    return !loops(std::span(sequence.ids).subspan(static_cast<size_t>(sequence.written)), kLoop);
  }

  bool prefill(WrittenText::Sequence& sequence, int32_t index) {
    const auto length = static_cast<int32_t>(sequence.ids.size());
    for (int32_t first = 0; first < length; first += options_.max_rows) {
      const int32_t count = std::min(options_.max_rows, length - first);
      const SpanRows span{0, count, first, tables_.of(index), tables_.blocks()};
      std::vector<int32_t> wanted;
      if (first + count == length) wanted.push_back(count - 1);
      WrittenText::Sequence* const owner = &sequence;
      step({&span, 1}, std::span(sequence.ids).subspan(static_cast<size_t>(first), static_cast<size_t>(count)), wanted, {&owner, 1});
    }
    return take(sequence, drawn_[0]);
  }

  /// A token to each open text.
  void decode(std::vector<WrittenText::Sequence>& sequences, std::vector<int32_t>* open) {
    std::vector<int32_t> still;
    for (size_t first = 0; first < open->size(); first += static_cast<size_t>(options_.max_rows)) {
      const size_t count = std::min(static_cast<size_t>(options_.max_rows), open->size() - first);
      std::vector<SpanRows> spans;
      std::vector<int32_t> tokens, wanted;
      std::vector<WrittenText::Sequence*> owners;
      for (size_t i = 0; i < count; ++i) {
        const int32_t index = (*open)[first + i];
        WrittenText::Sequence& sequence = sequences[static_cast<size_t>(index)];
        const auto row = static_cast<int32_t>(i), context = static_cast<int32_t>(sequence.ids.size()) - 1;
        spans.push_back({row, 1, context, tables_.of(index), tables_.blocks()});
        tokens.push_back(sequence.ids.back());
        wanted.push_back(row);
        owners.push_back(&sequence);
      }
      step(spans, tokens, wanted, owners);
      for (size_t i = 0; i < count; ++i)
        if (take(*owners[i], drawn_[i])) still.push_back((*open)[first + i]);
    }
    *open = std::move(still);
  }

  Model& model_;
  Ops& ops_;
  const KvViews& kv_;
  const ScratchTables& tables_;
  const TextOptions& options_;
  const int64_t width_;  // layers * hidden
  Buffer memory_;        // [max_rows, width]
  Taps taps_;
  std::vector<SampleRow> laws_;
  std::vector<SampledToken> drawn_;
};

}  // namespace

ScratchTables::ScratchTables(int32_t sequences, int32_t tokens, int32_t block_tokens, int32_t groups)
    : blocks_((tokens + block_tokens - 1) / block_tokens), groups_(groups), tokens_(tokens) {
  for (int32_t s = 0; s < sequences; ++s) {
    std::vector<int32_t>& table = tables_.emplace_back();
    for (int32_t b = 0; b < blocks_; ++b) table.push_back(s * blocks_ + b);
  }
  for (const auto& table : tables_) columns_.emplace_back(static_cast<size_t>(groups), table.data());
}

int32_t WrittenText::tokens() const {
  int32_t count = 0;
  for (const Sequence& sequence : sequences) count += static_cast<int32_t>(sequence.ids.size()) - sequence.written;
  return count;
}

WrittenText write_text(Model& model, Ops& ops, const KvViews& kv, const ScratchTables& tables,
                       std::span<const std::vector<int32_t>> prompts, const TextOptions& options) {
  for (const std::vector<int32_t>& prompt : prompts)
    CHECK(!prompt.empty() && static_cast<int32_t>(prompt.size()) < tables.tokens(), "a prompt that the scratch cache has no room for");
  return Writer(model, ops, kv, tables, options).run(prompts);
}

}  // namespace slipstream
