// The host half of slots.h: memory, checks, packing, the rings of staging and results.
#include "kernels/cuda/slots.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>

#include "kernels/check.h"

namespace slipstream::cuda {
namespace {

constexpr size_t kAlign = 256;
/// Words of payload that one upload carries: histories, block ids, stop ids, biases. More goes in several.
constexpr size_t kPayloadWords = 1 << 16;
constexpr size_t kHeaderWords = sizeof(SlotHeader) / sizeof(int32_t);
constexpr size_t kWorkWords = sizeof(SlotWork) / sizeof(int32_t);
constexpr size_t kSpanWords = sizeof(SlotSpanRecord) / sizeof(int32_t);
constexpr size_t kCommandWords = sizeof(SlotCommand) / sizeof(int32_t);
/// An opening is up to four commands beside its history's pieces; a step rarely has more than two grants per slot.
size_t max_commands(const SlotShape& shape) { return 256 + 8 * static_cast<size_t>(shape.slots); }

struct BlobLayout {
  size_t spans, payload, commands, end;  // in words
  explicit BlobLayout(const SlotShape& shape)
      : spans(kHeaderWords + kWorkWords * static_cast<size_t>(shape.slots)),
        payload(spans + kSpanWords * static_cast<size_t>(shape.max_spans)),
        commands(payload + kPayloadWords),
        end(commands + kCommandWords * max_commands(shape)) {}
};

/// Hands out aligned pieces of one allocation; with a null base it only counts.
struct Carve {
  std::byte* base = nullptr;
  size_t used = 0;
  template <class T>
  T* take(size_t count) {
    T* const p = base == nullptr ? nullptr : reinterpret_cast<T*>(base + used);
    used += (count * sizeof(T) + kAlign - 1) / kAlign * kAlign;
    return p;
  }
};

size_t carve(const SlotShape& shape, std::byte* base, SlotMemory* m, SlotStep* s) {
  Carve c{base};
  const auto n = [](int32_t count) { return static_cast<size_t>(count); };
  m->slots = shape.slots;
  m->groups = shape.groups;
  m->max_blocks = shape.max_blocks;
  m->block_tokens = shape.block_tokens;
  m->history_stride = shape.max_tokens + kMaxSlotDrafts;
  m->max_drafts = shape.max_drafts;
  m->state = c.take<SlotState>(n(shape.slots));
  m->history = c.take<int32_t>(n(shape.slots) * n(m->history_stride));
  m->drafts = c.take<int32_t>(n(shape.slots) * kMaxSlotDrafts);
  m->stop_ids = c.take<int32_t>(n(shape.slots) * kMaxSlotStopIds);
  m->bias = c.take<LogitBias>(n(shape.slots) * kMaxSlotBias);
  m->tables = c.take<int32_t>(n(shape.slots) * n(shape.groups) * n(shape.max_blocks));
  m->table_blocks = c.take<int32_t>(n(shape.slots) * n(shape.groups));
  s->blob = c.take<int32_t>(BlobLayout(shape).end);
  s->token_ids = c.take<int32_t>(n(shape.max_rows));
  s->positions = c.take<int32_t>(n(shape.max_rows));
  s->row_span = c.take<int32_t>(n(shape.max_rows));
  s->span_first_row = c.take<int32_t>(n(shape.max_spans));
  s->span_rows = c.take<int32_t>(n(shape.max_spans));
  s->span_context = c.take<int32_t>(n(shape.max_spans));
  s->block_tables = c.take<int32_t>(n(shape.groups) * n(shape.max_spans) * n(shape.max_blocks));
  s->logit_rows = c.take<int32_t>(n(shape.max_logit_rows));
  s->laws = c.take<DeviceSampleRow>(n(shape.max_logit_rows));
  s->drawn = c.take<SampledToken>(n(shape.max_logit_rows));
  s->placed = c.take<SlotPlaced>(n(shape.max_spans));
  s->results = c.take<SlotResult>(n(shape.max_spans));
  s->max_spans = shape.max_spans;
  return c.used;
}

const char* text_of(SlotFault fault) {
  switch (fault) {
    case SlotFault::kPrefillOrder: return "a prefill chunk does not continue the slot";
    case SlotFault::kPrefillCapacity: return "a prefill chunk passes the granted blocks";
    case SlotFault::kEarlyLogits: return "logits before the last token";
    case SlotFault::kNotPrefilled: return "decode of a slot that is not prefilled";
    default: return "no fault";
  }
}

void require(bool condition, const char* text, const SlotSpan& span) {
  if (!condition)
    throw DeviceError(std::string("plan: ") + text + " (slot " + std::to_string(span.slot) + ", rows " +
                      std::to_string(span.rows) + ", logits " + std::to_string(span.logits) + ")");
}

}  // namespace

size_t ResidentSlots::device_bytes(const SlotShape& shape) {
  SlotMemory memory;
  SlotStep step;
  return carve(shape, nullptr, &memory, &step);
}

ResidentSlots::ResidentSlots(Context& context, const SlotShape& shape)
    : context_(context),
      shape_(shape),
      device_(context.allocate(device_bytes(shape))),
      blocks_granted_(static_cast<size_t>(shape.slots) * static_cast<size_t>(shape.groups), 0),
      span_of_slot_(static_cast<size_t>(shape.slots), -1) {
  CHECK(shape.max_drafts <= kMaxSlotDrafts, "drafts of a slot");
  CHECK(shape.groups <= kMaxSlotGroups, "cache groups of a slot");
  carve(shape, device_.as<std::byte>(), &memory_, &step_);
  commands_.reserve(max_commands(shape));
  spans_.reserve(static_cast<size_t>(shape.max_spans));
  const auto pinned = [](auto** p, size_t bytes) { check(cudaMallocHost(reinterpret_cast<void**>(p), bytes), "cudaMallocHost"); };
  for (Staging& staging : staging_) {
    pinned(&staging.words, BlobLayout(shape).end * sizeof(int32_t));
    check(cudaEventCreateWithFlags(&staging.copied, cudaEventDisableTiming), "cudaEventCreate");
  }
  for (Landing& landing : landings_) {
    pinned(&landing.spans, static_cast<size_t>(shape.max_spans) * sizeof(SlotResult));
    pinned(&landing.drawn, static_cast<size_t>(shape.max_logit_rows) * sizeof(SampledToken));
    check(cudaEventCreateWithFlags(&landing.landed, cudaEventDisableTiming), "cudaEventCreate");
  }
}

ResidentSlots::~ResidentSlots() {
  cudaStreamSynchronize(context_.stream());
  for (Staging& staging : staging_) {
    if (staging.words != nullptr) cudaFreeHost(staging.words);
    if (staging.copied != nullptr) cudaEventDestroy(staging.copied);
  }
  for (Landing& landing : landings_) {
    if (landing.spans != nullptr) cudaFreeHost(landing.spans);
    if (landing.drawn != nullptr) cudaFreeHost(landing.drawn);
    if (landing.landed != nullptr) cudaEventDestroy(landing.landed);
  }
}

void ResidentSlots::require_slot(int32_t slot) const {
  if (slot < 0 || slot >= shape_.slots)
    throw DeviceError("plan: slot " + std::to_string(slot) + " of " + std::to_string(shape_.slots));
}

// ---- commands ----

/// The copy that last used this staging may still be under way.
void ResidentSlots::begin_staging() {
  if (payload_used_ == 0 && commands_.empty() && spans_.empty())
    check(cudaEventSynchronize(staging_[next_staging_].copied), "cudaEventSynchronize");
}

int32_t* ResidentSlots::payload(size_t words, int32_t* offset) {
  if (payload_used_ + words > kPayloadWords || commands_.size() + 1 > max_commands(shape_)) {
    CHECK(spans_.empty(), "spans bring more than the staging holds");
    send();
    place({});
  }
  begin_staging();
  const size_t at = BlobLayout(shape_).payload + payload_used_;
  payload_used_ += words;
  *offset = static_cast<int32_t>(at);
  return staging_[next_staging_].words + at;
}

void ResidentSlots::add_words(int32_t slot, SlotCommandKind kind, int32_t first, const void* data, size_t words) {
  int32_t offset = 0;
  int32_t* const to = payload(words, &offset);
  if (words > 0) std::memcpy(to, data, words * sizeof(int32_t));
  commands_.push_back({{kind, first, static_cast<int32_t>(words), offset}, slot});
}

void ResidentSlots::open(const SlotOpening& o) {
  require_slot(o.slot);
  const auto length = static_cast<int32_t>(o.history.size());
  if (o.cached_tokens < 0 || o.cached_tokens >= length || o.prompt_tokens > length || o.prompt_tokens < 1 ||
      o.remaining_tokens < 1 || o.remaining_tokens > shape_.max_tokens - length)
    throw DeviceError("plan: slot " + std::to_string(o.slot) + " opened with " + std::to_string(length) + " tokens, " +
                      std::to_string(o.cached_tokens) + " cached, budget " + std::to_string(o.remaining_tokens) + "; a slot holds " +
                      std::to_string(shape_.max_tokens));
  if (o.stop_ids.size() > static_cast<size_t>(kMaxSlotStopIds) || o.bias.size() > static_cast<size_t>(kMaxSlotBias))
    throw DeviceError("plan: slot " + std::to_string(o.slot) + " opened with " + std::to_string(o.stop_ids.size()) +
                      " stop ids and " + std::to_string(o.bias.size()) + " biases; a slot holds " +
                      std::to_string(kMaxSlotStopIds) + " and " + std::to_string(kMaxSlotBias));
  SlotState state{};
  state.generation = o.generation;
  state.open = 1;
  state.choice = o.choice;
  state.prompt_tokens = o.prompt_tokens;
  state.committed = length;
  state.cached = o.cached_tokens;
  state.emitted = o.emitted_tokens;
  state.remaining = o.remaining_tokens;
  state.min_tokens = o.min_tokens;
  state.stop_count = static_cast<int32_t>(o.stop_ids.size());
  state.bias_count = static_cast<int32_t>(o.bias.size());
  state.top_k = o.top_k;
  state.top_logprobs = o.top_logprobs;
  state.temperature = o.temperature;
  state.top_p = o.top_p;
  state.min_p = o.min_p;
  state.presence_penalty = o.presence_penalty;
  state.frequency_penalty = o.frequency_penalty;
  state.repetition_penalty = o.repetition_penalty;
  state.seed_low = static_cast<uint32_t>(o.seed);
  state.seed_high = static_cast<uint32_t>(o.seed >> 32);
  add_words(o.slot, SlotCommandKind::kOpen, 0, &state, sizeof state / sizeof(int32_t));
  constexpr int32_t kPiece = kPayloadWords / 4;
  for (int32_t first = 0; first < length; first += kPiece)
    add_words(o.slot, SlotCommandKind::kHistory, first, o.history.data() + first,
              static_cast<size_t>(std::min(kPiece, length - first)));
  if (!o.stop_ids.empty()) add_words(o.slot, SlotCommandKind::kStopIds, 0, o.stop_ids.data(), o.stop_ids.size());
  if (!o.bias.empty()) add_words(o.slot, SlotCommandKind::kBias, 0, o.bias.data(), 2 * o.bias.size());
  std::fill_n(blocks_granted_.begin() + static_cast<int64_t>(o.slot) * shape_.groups, shape_.groups, 0);
}

void ResidentSlots::grant(int32_t slot, int32_t group, std::span<const int32_t> blocks) {
  require_slot(slot);
  if (group < 0 || group >= shape_.groups)
    throw DeviceError("plan: cache group " + std::to_string(group) + " of " + std::to_string(shape_.groups));
  int32_t& granted = blocks_granted_[static_cast<size_t>(slot) * static_cast<size_t>(shape_.groups) + static_cast<size_t>(group)];
  if (blocks.size() > static_cast<size_t>(shape_.max_blocks - granted))
    throw DeviceError("plan: slot " + std::to_string(slot) + " is granted " + std::to_string(blocks.size()) + " blocks beside " +
                      std::to_string(granted) + "; its table holds " + std::to_string(shape_.max_blocks));
  granted += static_cast<int32_t>(blocks.size());
  add_words(slot, SlotCommandKind::kGrant, group, blocks.data(), blocks.size());
}

void ResidentSlots::release(int32_t slot, uint32_t generation) {
  require_slot(slot);
  // The host's count of blocks stays an upper bound: a release of another generation is not known to be one here.
  add_words(slot, SlotCommandKind::kRelease, std::bit_cast<int32_t>(generation), nullptr, 0);
}

// ---- spans and the upload ----

void ResidentSlots::plan(std::span<const SlotSpan> spans) {
  CHECK(spans_.empty(), "two plans without an upload between them");
  if (spans.size() > static_cast<size_t>(shape_.max_spans))
    throw DeviceError("plan: " + std::to_string(spans.size()) + " spans; a step holds " + std::to_string(shape_.max_spans));
  size_t supplied = 0;
  for (const SlotSpan& span : spans) supplied += span.supplied_drafts.size();
  int32_t offset = 0;
  int32_t* drafts = payload(supplied, &offset);
  rows_ = logit_rows_ = 0;
  for (const SlotSpan& span : spans) {
    SlotSpanRecord record{};
    record.slot = span.slot;
    if (span.slot >= 0) {
      require_slot(span.slot);
      require(span.rows > 0 && span.first_row == rows_ && span.rows <= shape_.max_rows - rows_, "rows of a span do not tile the step", span);
      require(span.first_logit == logit_rows_ && span.logits >= 0 && span.logits <= shape_.max_logit_rows - logit_rows_ &&
                  (span.prefill ? span.logits <= 1 : span.logits == span.rows),
              "logit rows of a span do not tile the step", span);
      require(span.prefill || span.rows <= 1 + kMaxSlotDrafts, "more drafts than a slot holds", span);
      require(span_of_slot_[static_cast<size_t>(span.slot)] < 0, "two spans of one slot", span);
      span_of_slot_[static_cast<size_t>(span.slot)] = static_cast<int32_t>(spans_.size());
      record.generation = span.generation;
      record.prefill = span.prefill;
      record.start = span.start;
      record.rows = span.rows;
      record.logits = span.logits;
      record.first_row = span.first_row;
      record.first_logit = span.first_logit;
      record.drafts_next = span.drafts_next;
      record.supplied = static_cast<int32_t>(span.supplied_drafts.size());
      record.supplied_offset = offset;
      std::copy(span.supplied_drafts.begin(), span.supplied_drafts.end(), drafts);
      drafts += record.supplied;
      offset += record.supplied;
      rows_ += span.rows;
      logit_rows_ += span.logits;
    }
    spans_.push_back(record);
  }
}

void ResidentSlots::upload() { send(); }

void ResidentSlots::send() {
  begin_staging();
  Staging& staging = staging_[next_staging_];
  next_staging_ = (next_staging_ + 1) % staging_.size();
  const BlobLayout layout(shape_);
  // Each slot's commands stand together, in the plan's order; those of different slots are independent.
  std::ranges::stable_sort(commands_, {}, &Command::slot);
  const size_t command_at = layout.payload + payload_used_;
  const SlotHeader header{static_cast<int32_t>(spans_.size()), rows_, logit_rows_, static_cast<int32_t>(command_at)};
  std::memcpy(staging.words, &header, sizeof header);
  auto* work = reinterpret_cast<SlotWork*>(staging.words + kHeaderWords);
  for (size_t slot = 0; slot < span_of_slot_.size(); ++slot) work[slot] = {0, 0, span_of_slot_[slot]};
  auto* records = reinterpret_cast<SlotCommand*>(staging.words + command_at);
  for (size_t c = 0; c < commands_.size(); ++c) {
    SlotWork& own = work[commands_[c].slot];
    if (own.commands++ == 0) own.first_command = static_cast<int32_t>(c);
    records[c] = commands_[c].record;
  }
  std::copy(spans_.begin(), spans_.end(), reinterpret_cast<SlotSpanRecord*>(staging.words + layout.spans));
  const size_t words = command_at + kCommandWords * commands_.size();
  check(cudaMemcpyAsync(const_cast<int32_t*>(step_.blob), staging.words, words * sizeof(int32_t), cudaMemcpyHostToDevice,
                        context_.stream()),
        "upload of a plan");
  check(cudaEventRecord(staging.copied, context_.stream()), "cudaEventRecord");
  commands_.clear();
  spans_.clear();
  std::ranges::fill(span_of_slot_, -1);
  payload_used_ = 0;
  span_count_ = header.spans;
  logit_count_ = logit_rows_;
  rows_ = logit_rows_ = 0;
}

StepView ResidentSlots::view(const SlotBounds& bounds) const {
  StepView view;
  view.rows = bounds.rows;
  view.spans = bounds.spans;
  view.token_ids = step_.token_ids;
  view.positions = step_.positions;
  view.row_span = step_.row_span;
  view.span_first_row = step_.span_first_row;
  view.span_rows = step_.span_rows;
  view.span_context = step_.span_context;
  view.block_tables = step_.block_tables;
  view.table_stride = shape_.max_blocks;
  view.max_spans = shape_.max_spans;
  return view;
}

// ---- results ----

int ResidentSlots::fetch(bool logprobs) {
  const auto ticket = static_cast<int>(next_landing_);
  Landing& landing = landings_[next_landing_];
  next_landing_ = (next_landing_ + 1) % landings_.size();
  landing.span_count = span_count_;
  landing.drawn_count = logprobs ? logit_count_ : 0;
  if (landing.span_count > 0)
    check(cudaMemcpyAsync(landing.spans, step_.results, static_cast<size_t>(landing.span_count) * sizeof(SlotResult),
                          cudaMemcpyDeviceToHost, context_.stream()),
          "download of results");
  if (landing.drawn_count > 0)
    check(cudaMemcpyAsync(landing.drawn, step_.drawn, static_cast<size_t>(landing.drawn_count) * sizeof(SampledToken),
                          cudaMemcpyDeviceToHost, context_.stream()),
          "download of draws");
  check(cudaEventRecord(landing.landed, context_.stream()), "cudaEventRecord");
  return ticket;
}

bool ResidentSlots::ready(int ticket) const {
  const cudaError_t status = cudaEventQuery(landings_[static_cast<size_t>(ticket)].landed);
  if (status == cudaErrorNotReady) return false;
  check(status, "a step");
  return true;
}

ResidentSlots::Results ResidentSlots::wait(int ticket) {
  const Landing& landing = landings_[static_cast<size_t>(ticket)];
  check(cudaEventSynchronize(landing.landed), "a step");
  const std::span<const SlotResult> spans(landing.spans, static_cast<size_t>(landing.span_count));
  for (const SlotResult& result : spans)
    if (result.slot >= 0 && result.fault != SlotFault::kNone)
      throw DeviceError(std::string("plan: ") + text_of(result.fault) + " (slot " + std::to_string(result.slot) + ")");
  return {spans, {landing.drawn, static_cast<size_t>(landing.drawn_count)}};
}

}  // namespace slipstream::cuda
