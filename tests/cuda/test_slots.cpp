// Device-resident slots against their host twin over random plans: the same rows, laws, results and drafts.
#include <algorithm>
#include <cstring>
#include <deque>
#include <random>
#include <vector>

#include "engine/run/device_slots.h"
#include "engine/spec/ngram_drafter.h"
#include "kernels/cuda/graph.h"
#include "kernels/cuda/slots.h"
#include "tests/catch.h"
#include "tests/cuda/feature_level.h"

using namespace slipstream;
using cuda::DeviceSampleRow;
using cuda::ResidentSlots;
using cuda::SlotBounds;
using cuda::SlotSpan;

namespace {

using Ids = std::vector<int32_t>;

constexpr int32_t kVocab = 5;  // small, so that n-grams repeat

cuda::SlotShape small_shape() {
  cuda::SlotShape shape;
  shape.slots = 6;
  shape.groups = 2;
  shape.block_tokens = 4;
  shape.max_blocks = 24;
  shape.max_tokens = 96;
  shape.max_rows = 260;
  shape.max_spans = 9;
  shape.max_logit_rows = 40;
  shape.max_drafts = 4;
  return shape;
}

template <class T>
std::vector<T> download(const T* device, size_t count) {
  std::vector<T> host(count);
  if (count > 0) cuda::check(cudaMemcpy(host.data(), device, count * sizeof(T), cudaMemcpyDeviceToHost), "download");
  return host;
}

/// The engine's plan as the device's calls: what an executor does.
std::vector<SlotSpan> spans_of(const StepPlan& plan, std::mt19937& random) {
  std::vector<SlotSpan> spans;
  int32_t rows = 0, logits = 0;
  for (const Span& span : plan.spans) {
    if (random() % 4 == 0 && spans.size() < 2) spans.emplace_back();  // padding
    SlotSpan s;
    s.slot = span.slot;
    s.generation = span.generation;
    s.prefill = span.kind == SpanKind::kPrefill;
    s.start = span.start;
    s.rows = span.rows;
    s.logits = s.prefill ? (span.logits == LogitsWanted::kNone ? 0 : 1) : span.rows;
    s.first_row = rows;
    s.first_logit = logits;
    s.drafts_next = span.draft_rows_next;
    s.supplied_drafts = span.supplied_drafts;
    rows += s.rows;
    logits += s.logits;
    spans.push_back(s);
  }
  return spans;
}

void open_on(ResidentSlots& slots, const OpenSlot& o) {
  cuda::SlotOpening opening;
  opening.slot = o.slot;
  opening.generation = o.generation;
  opening.choice = o.choice;
  opening.history = o.history;
  opening.prompt_tokens = o.prompt_tokens;
  opening.cached_tokens = o.cached_tokens;
  opening.remaining_tokens = o.remaining_tokens;
  opening.emitted_tokens = o.emitted_tokens;
  opening.temperature = o.sampling.temperature;
  opening.top_p = o.sampling.top_p;
  opening.min_p = o.sampling.min_p;
  opening.presence_penalty = o.sampling.presence_penalty;
  opening.frequency_penalty = o.sampling.frequency_penalty;
  opening.repetition_penalty = o.sampling.repetition_penalty;
  opening.top_k = o.sampling.top_k;
  opening.top_logprobs = o.sampling.top_logprobs;
  opening.min_tokens = o.sampling.min_tokens;
  opening.seed = o.sampling.seed;
  opening.bias = o.sampling.logit_bias;
  opening.stop_ids = o.sampling.stop_ids;
  slots.open(opening);
}

/// Both twins under one random scheduler, which looks at the host twin alone.
class Simulation {
 public:
  explicit Simulation(uint32_t seed) : random_(seed), shape_(small_shape()), slots_(context_, shape_), twin_(twin_shape()) {}

  /// `graph`: place, settle and draft as one captured graph; then only results are compared.
  void run(int steps, bool graph) {
    if (graph) capture();
    for (int step = 0; step < steps; ++step) {
      INFO("step " << step);
      one_step(static_cast<uint64_t>(step), graph);
      if (pending_.size() > 1) check_result();
    }
    while (!pending_.empty()) check_result();
  }

  int emitted = 0, starved = 0, accepted = 0, drafted = 0, stopped = 0, lengths = 0, broken = 0, idle = 0, reported = 0;

 private:
  struct Guest {
    bool open = false, done = false, prefilled = false;
    uint32_t generation = 0;
    int32_t length = 0, planned = 0, age = 0;
    int32_t blocks[2] = {0, 0};
  };
  struct Pending {
    int ticket;
    StepResult expected;
    std::vector<int32_t> index;  // of each plan span among the device's spans
    std::vector<SlotSpan> spans;
  };

  DeviceShape twin_shape() const { return {shape_.slots, shape_.groups, shape_.block_tokens, shape_.max_rows, shape_.max_drafts}; }
  int32_t integer(int32_t low, int32_t high) { return std::uniform_int_distribution<int32_t>(low, high)(random_); }
  bool once_in(int32_t n) { return integer(1, n) == 1; }
  Ids tokens(int32_t count) {
    Ids ids(static_cast<size_t>(count));
    for (int32_t& id : ids) id = integer(0, kVocab - 1);
    return ids;
  }

  void grant(int32_t slot, int32_t group, int32_t count) {
    Guest& guest = guests_[static_cast<size_t>(slot)];
    count = std::min(count, shape_.max_blocks - guest.blocks[group]);
    if (count <= 0) return;
    Ids blocks(static_cast<size_t>(count));
    for (int32_t& block : blocks) block = integer(0, 1000);
    guest.blocks[group] += count;
    twin_.grant({slot, group, blocks});
    slots_.grant(slot, group, blocks);
  }

  void open(int32_t slot) {
    Guest& guest = guests_[static_cast<size_t>(slot)];
    const uint32_t generation = guest.generation + 1;
    guest = Guest{};
    guest.open = true;
    guest.generation = generation;
    OpenSlot o;
    o.slot = slot;
    o.generation = generation;
    o.choice = integer(0, 3);
    o.history = tokens(integer(1, 40));
    guest.length = static_cast<int32_t>(o.history.size());
    o.prompt_tokens = once_in(3) ? integer(1, guest.length) : guest.length;
    o.emitted_tokens = guest.length - o.prompt_tokens;
    o.cached_tokens = guest.planned = integer(0, (guest.length - 1) / 4) * 4;
    o.remaining_tokens = integer(1, std::min(40, shape_.max_tokens - guest.length));
    o.sampling.temperature = 0.5f + static_cast<float>(integer(0, 9));
    o.sampling.top_p = once_in(2) ? 0.5f : 1.0f;
    o.sampling.min_p = once_in(2) ? 0.1f : 0.0f;
    o.sampling.top_k = integer(0, 3);
    o.sampling.presence_penalty = static_cast<float>(integer(-2, 2));
    o.sampling.frequency_penalty = static_cast<float>(integer(-2, 2));
    o.sampling.repetition_penalty = static_cast<float>(integer(1, 3));
    o.sampling.seed = static_cast<uint64_t>(random_()) << 32 | random_();
    o.sampling.top_logprobs = integer(-1, 3);
    o.sampling.min_tokens = integer(0, 6);
    if (once_in(2)) o.sampling.stop_ids = tokens(1);
    for (int32_t i = integer(0, 3); i > 0; --i) o.sampling.logit_bias.push_back({integer(0, kVocab - 1), static_cast<float>(i)});
    twin_.open(o);
    open_on(slots_, o);
    for (int32_t group = 0; group < shape_.groups; ++group) grant(slot, group, (guest.length + 3) / 4 + integer(0, 3));
  }

  void release(int32_t slot, uint32_t generation) {
    twin_.release({slot, generation});
    slots_.release(slot, generation);
  }

  StepPlan make_plan(uint64_t step) {
    StepPlan plan;
    plan.step = step;
    std::vector<Span> prefills;
    for (int32_t slot = 0; slot < shape_.slots; ++slot) {
      Guest& guest = guests_[static_cast<size_t>(slot)];
      if (guest.open && (guest.done ? ++guest.age > 2 : once_in(40))) {
        release(slot, guest.generation);
        guest.open = false;
      }
      if (once_in(15)) release(slot, guest.generation + 7);  // nobody's
      if (!guest.open && once_in(2)) open(slot);
      Span span;
      span.slot = slot;
      span.generation = guest.generation;
      if (guest.open && !guest.prefilled) {
        span.kind = SpanKind::kPrefill;
        span.start = guest.planned;
        span.rows = integer(1, guest.length - guest.planned);
        guest.planned += span.rows;
        guest.prefilled = guest.planned == guest.length;
        span.logits = guest.prefilled ? LogitsWanted::kLast : LogitsWanted::kNone;
        span.draft_rows_next = integer(0, 5);
        prefills.push_back(span);
        continue;
      }
      if (guest.generation == 0 || once_in(8)) continue;
      if (once_in(6)) {
        for (int32_t group = 0; group < shape_.groups; ++group)
          if (guest.open) grant(slot, group, integer(1, 2));
      }
      if (once_in(12)) span.generation -= 1;  // stale
      span.rows = integer(1, 5);
      span.kind = span.rows > 1 ? SpanKind::kVerify : SpanKind::kDecode;
      span.logits = span.rows > 1 ? LogitsWanted::kAll : LogitsWanted::kLast;
      span.draft_rows_next = integer(0, 6);
      if (once_in(6)) span.supplied_drafts = tokens(integer(1, 4));
      plan.spans.push_back(span);
    }
    plan.spans.insert(plan.spans.end(), prefills.begin(), prefills.end());
    for (Span& span : plan.spans) span.constrained = true;  // the device reports every span's drafts
    return plan;
  }

  void one_step(uint64_t step, bool graph) {
    const StepPlan plan = make_plan(step);
    const StepInputs& inputs = twin_.place(plan);
    const std::span<const SampleRow> laws = twin_.sample_rows(plan, {});

    Pending pending;
    pending.spans = spans_of(plan, random_);
    for (size_t s = 0; s < pending.spans.size(); ++s)
      if (pending.spans[s].slot >= 0) pending.index.push_back(static_cast<int32_t>(s));
    const SlotBounds bounds = graph ? bounds_ : bounds_of(pending.spans);
    slots_.plan(pending.spans);
    slots_.upload();
    if (!graph) {
      slots_.place(bounds);
      context_.synchronize();
      compare_rows(plan, pending, bounds, inputs, laws);
    }

    // Draws: often the draft, sometimes a broken row.
    std::vector<SampledToken> twin_drawn(laws.size()), drawn(static_cast<size_t>(shape_.max_logit_rows));
    for (SampledToken& token : drawn) token.token = integer(0, kVocab - 1);
    for (size_t s = 0; s < plan.spans.size(); ++s) {
      const DeviceSlots::Placed& placed = twin_.placed()[s];
      const SlotSpan& span = pending.spans[static_cast<size_t>(pending.index[s])];
      for (int32_t i = 0; i < placed.logits; ++i) {
        SampledToken& token = drawn[static_cast<size_t>(span.first_logit + i)];
        if (i < placed.drafts && !once_in(3)) token.token = inputs.token_ids[placed.first_row + i + 1];
        if (once_in(60)) token.token = -1, token.non_finite = true;
        token.logprob = static_cast<float>(integer(0, 100));
        twin_drawn[static_cast<size_t>(placed.first_logit + i)] = token;
      }
    }
    cuda::check(cudaMemcpyAsync(slots_.drawn(), drawn.data(), drawn.size() * sizeof(SampledToken), cudaMemcpyHostToDevice,
                                context_.stream()), "draws");
    if (graph) {
      graph_.replay(context_);
    } else {
      slots_.settle(bounds);
      slots_.draft_ngram(bounds, 1, 3, 64);
    }
    pending.ticket = slots_.fetch(true);
    pending.expected = twin_.settle(plan, twin_drawn);
    const auto requests = twin_.draft_requests();
    std::vector<Ids> drafts(requests.size());
    NgramDrafter(1, 3, 64).propose(requests, &drafts);
    twin_.keep_drafts(drafts);
    twin_.report_drafts(plan, &pending.expected);
    for (const SpanResult& result : pending.expected.spans) count(result);
    pending_.push_back(std::move(pending));
  }

  void count(const SpanResult& result) {
    emitted += static_cast<int>(result.emitted.size());
    starved += result.starved;
    accepted += result.accepted;
    drafted += result.drafted;
    stopped += result.done == DoneReason::kStopId;
    lengths += result.done == DoneReason::kLength;
    broken += result.non_finite;
    idle += result.emitted.empty();
    if (result.done != DoneReason::kNone) guests_[static_cast<size_t>(result.slot)].done = true;
  }

  SlotBounds bounds_of(const std::vector<SlotSpan>& spans) {
    SlotBounds bounds{integer(0, 3), static_cast<int32_t>(spans.size()) + integer(0, 1), integer(0, 2)};
    for (const SlotSpan& span : spans) bounds.rows += span.rows, bounds.logit_rows += span.logits;
    bounds.spans = std::min(bounds.spans, shape_.max_spans);
    return bounds;
  }

  void compare_rows(const StepPlan& plan, const Pending& pending, const SlotBounds& bounds, const StepInputs& inputs,
                    std::span<const SampleRow> laws) {
    const cuda::StepView view = slots_.view(bounds);
    const auto rows = static_cast<size_t>(bounds.rows), spans = static_cast<size_t>(bounds.spans);
    const Ids ids = download(view.token_ids, rows), positions = download(view.positions, rows), row_span = download(view.row_span, rows);
    const Ids first_row = download(view.span_first_row, spans), span_rows = download(view.span_rows, spans),
              context = download(view.span_context, spans);
    const Ids tables = download(view.block_tables, static_cast<size_t>(shape_.groups * view.max_spans * view.table_stride));
    const auto device_laws = download(slots_.laws(), static_cast<size_t>(bounds.logit_rows));
    const Ids logit_rows = download(slots_.logit_rows(), static_cast<size_t>(bounds.logit_rows));
    std::vector<bool> row_known(rows, false), logit_known(device_laws.size(), false);
    size_t next_span = 0;
    for (size_t s = 0; s < plan.spans.size(); ++s) {
      const DeviceSlots::Placed& placed = twin_.placed()[s];
      const auto index = static_cast<size_t>(pending.index[s]);
      const SlotSpan& span = pending.spans[index];
      INFO("span " << s << " slot " << span.slot);
      REQUIRE(span_rows[index] == (placed.runs ? placed.rows : 0));
      if (placed.runs) {
        const SpanRows& expected = inputs.spans[next_span++];
        REQUIRE(context[index] == expected.context);
        REQUIRE(first_row[index] == span.first_row);
        const int32_t blocks = (expected.context + expected.rows + shape_.block_tokens - 1) / shape_.block_tokens;
        for (int32_t g = 0; g < shape_.groups; ++g)
          for (int32_t b = 0; b < blocks; ++b)
            REQUIRE(tables[static_cast<size_t>((g * view.max_spans + static_cast<int32_t>(index)) * view.table_stride + b)] ==
                    expected.block_tables[g][b]);
      }
      for (int32_t i = 0; i < span.rows; ++i) {
        const auto row = static_cast<size_t>(span.first_row + i);
        const bool runs = placed.runs && i < placed.rows;
        REQUIRE(positions[row] == (runs ? inputs.positions[placed.first_row + i] : -1));
        if (runs) REQUIRE(ids[row] == inputs.token_ids[placed.first_row + i]);
        REQUIRE(row_span[row] == static_cast<int32_t>(index));
        row_known[row] = true;
      }
      for (int32_t i = 0; i < span.logits; ++i) {
        const auto row = static_cast<size_t>(span.first_logit + i);
        logit_known[row] = true;
        if (!placed.runs || i >= placed.logits) {
          REQUIRE(device_laws[row].position == -1);
          continue;
        }
        REQUIRE(logit_rows[row] - span.first_row == inputs.logit_rows[static_cast<size_t>(placed.first_logit + i)] - placed.first_row);
        compare_law(device_laws[row], laws[static_cast<size_t>(placed.first_logit + i)]);
      }
    }
    for (size_t row = 0; row < rows; ++row)
      if (!row_known[row]) REQUIRE(positions[row] == -1);
    for (size_t row = 0; row < device_laws.size(); ++row)
      if (!logit_known[row]) REQUIRE((device_laws[row].position == -1 && logit_rows[row] == 0));
    for (size_t s = 0; s < spans; ++s)
      if (std::ranges::find(pending.index, static_cast<int32_t>(s)) == pending.index.end()) REQUIRE(span_rows[s] == 0);
  }

  void compare_law(const DeviceSampleRow& law, const SampleRow& expected) {
    REQUIRE(law.temperature == expected.temperature);
    REQUIRE(law.top_p == expected.top_p);
    REQUIRE(law.min_p == expected.min_p);
    REQUIRE(law.top_k == expected.top_k);
    REQUIRE(law.presence_penalty == expected.presence_penalty);
    REQUIRE(law.frequency_penalty == expected.frequency_penalty);
    REQUIRE(law.repetition_penalty == expected.repetition_penalty);
    REQUIRE(law.seed == expected.seed);
    REQUIRE(law.choice == expected.choice);
    REQUIRE(law.position == expected.position);
    REQUIRE(law.top_logprobs == expected.top_logprobs);
    REQUIRE(law.mask == nullptr);
    Ids history(expected.prompt_tokens.begin(), expected.prompt_tokens.end());
    history.insert(history.end(), expected.output_tokens.begin(), expected.output_tokens.end());
    REQUIRE(law.prompt_tokens == static_cast<int32_t>(expected.prompt_tokens.size()));
    REQUIRE(download(law.history, static_cast<size_t>(law.prompt_tokens + law.output_tokens)) == history);
    REQUIRE(download(law.suppressed, static_cast<size_t>(law.suppressed_count)) ==
            Ids(expected.suppressed.begin(), expected.suppressed.end()));
    const auto bias = download(law.bias, static_cast<size_t>(law.bias_count));
    REQUIRE(bias.size() == expected.bias.size());
    for (size_t i = 0; i < bias.size(); ++i)
      REQUIRE((bias[i].token == expected.bias[i].token && bias[i].bias == expected.bias[i].bias));
  }

  void check_result() {
    const Pending pending = std::move(pending_.front());
    pending_.pop_front();
    const ResidentSlots::Results results = slots_.wait(pending.ticket);
    REQUIRE(results.spans.size() == pending.spans.size());
    for (size_t s = 0; s < pending.spans.size(); ++s)
      if (pending.spans[s].slot < 0) REQUIRE(results.spans[s].slot == -1);
    for (size_t s = 0; s < pending.expected.spans.size(); ++s) {
      const SpanResult& expected = pending.expected.spans[s];
      const auto index = static_cast<size_t>(pending.index[s]);
      const cuda::SlotResult& result = results.spans[index];
      INFO("span " << s << " slot " << expected.slot);
      REQUIRE(result.slot == expected.slot);
      REQUIRE(result.generation == expected.generation);
      REQUIRE(Ids(result.tokens, result.tokens + result.emitted) == expected.emitted);
      REQUIRE(result.drafted == expected.drafted);
      REQUIRE(result.accepted == expected.accepted);
      REQUIRE(static_cast<int>(result.done) == static_cast<int>(expected.done));
      REQUIRE(result.non_finite == expected.non_finite);
      REQUIRE(result.starved == expected.starved);
      REQUIRE(Ids(result.drafts, result.drafts + result.draft_count) == expected.drafts);
      reported += result.draft_count;
      for (size_t i = 0; i < expected.logprobs.size(); ++i)
        REQUIRE(results.drawn[static_cast<size_t>(pending.spans[index].first_logit) + i].logprob == expected.logprobs[i].logprob);
    }
  }

  void capture() {
    bounds_ = {shape_.max_rows, shape_.max_spans, shape_.max_logit_rows};
    graph_ = cuda::Graph(context_, [this] {
      slots_.place(bounds_);
      slots_.settle(bounds_);
      slots_.draft_ngram(bounds_, 1, 3, 64);
    });
  }

  std::mt19937 random_;
  cuda::Context context_{0, test::feature_arch()};
  const cuda::SlotShape shape_;
  ResidentSlots slots_;
  DeviceSlots twin_;
  std::vector<Guest> guests_ = std::vector<Guest>(static_cast<size_t>(small_shape().slots));
  std::deque<Pending> pending_;
  SlotBounds bounds_;
  cuda::Graph graph_;
};

void check_covered(const Simulation& simulation) {
  CHECK(simulation.emitted > 500);
  CHECK(simulation.drafted > 100);
  CHECK(simulation.reported > 100);
  CHECK(simulation.accepted > 50);
  CHECK(simulation.accepted < simulation.drafted);
  CHECK(simulation.starved > 5);
  CHECK(simulation.stopped > 5);
  CHECK(simulation.lengths > 5);
  CHECK(simulation.broken > 2);
  CHECK(simulation.idle > 50);
}

}  // namespace

TEST_CASE("resident slots equal their host twin row by row", "[slots]") {
  Simulation simulation(1);
  simulation.run(500, false);
  check_covered(simulation);
}

TEST_CASE("resident slots equal their host twin as one captured graph, results one step late", "[slots]") {
  Simulation simulation(2);
  simulation.run(1500, true);
  check_covered(simulation);
}

TEST_CASE("openings beyond the staging arrive in several uploads", "[slots]") {
  cuda::Context context(0, test::feature_arch());
  cuda::SlotShape shape;
  shape.slots = 3;
  shape.max_tokens = 150000;
  shape.max_blocks = 5000;
  shape.max_rows = 300;
  ResidentSlots slots(context, shape);
  std::mt19937 random(4);
  std::vector<Ids> histories;
  Ids blocks(4600);
  for (size_t b = 0; b < blocks.size(); ++b) blocks[b] = static_cast<int32_t>(b * 3);
  std::vector<SlotSpan> spans;
  for (int32_t slot = 0; slot < 3; ++slot) {
    Ids& history = histories.emplace_back(140000);
    for (int32_t& id : history) id = static_cast<int32_t>(random() % 1000);
    OpenSlot open;
    open.slot = slot;
    open.generation = 1;
    open.history = history;
    open.prompt_tokens = 140000;
    open.cached_tokens = 139904;
    open.remaining_tokens = 10;
    open_on(slots, open);
    slots.grant(slot, 0, blocks);
    SlotSpan span;
    span.slot = slot;
    span.generation = 1;
    span.prefill = true;
    span.start = 139904;
    span.rows = 96;
    span.logits = 1;
    span.first_row = 96 * slot;
    span.first_logit = slot;
    spans.push_back(span);
  }
  slots.plan(spans);
  slots.upload();
  const SlotBounds bounds{288, 3, 3};
  slots.place(bounds);
  context.synchronize();
  const Ids ids = download(slots.view(bounds).token_ids, 288);
  const auto laws = download(slots.laws(), 3);
  const Ids tables = download(slots.view(bounds).block_tables, 3 * 5000);
  for (int32_t slot = 0; slot < 3; ++slot) {
    const Ids& history = histories[static_cast<size_t>(slot)];
    CHECK(Ids(ids.begin() + 96 * slot, ids.begin() + 96 * (slot + 1)) == Ids(history.end() - 96, history.end()));
    CHECK(download(laws[static_cast<size_t>(slot)].history, 140000) == history);
    CHECK(std::equal(blocks.begin(), blocks.begin() + 4375, tables.begin() + 5000 * slot));
  }
}

TEST_CASE("plans that resident slots cannot honour are device errors", "[slots]") {
  cuda::Context context(0, test::feature_arch());
  ResidentSlots slots(context, small_shape());
  OpenSlot open;
  open.generation = 1;
  open.history = {1, 2, 3, 4, 0, 1};
  open.prompt_tokens = 6;
  open.remaining_tokens = 5;
  open.slot = 6;
  CHECK_THROWS_AS(open_on(slots, open), DeviceError);
  open.slot = 0;
  open.remaining_tokens = 91;
  CHECK_THROWS_AS(open_on(slots, open), DeviceError);
  open.remaining_tokens = 5;
  open_on(slots, open);
  CHECK_THROWS_AS(slots.grant(0, 2, Ids{1}), DeviceError);
  CHECK_THROWS_AS(slots.grant(0, 0, Ids(25, 1)), DeviceError);
  slots.grant(0, 0, Ids{1});
  slots.grant(0, 1, Ids{1, 2});
  const auto wrong = [&](bool prefill, int32_t start, int32_t rows, int32_t logits) {
    SlotSpan span;
    span.slot = 0;
    span.generation = 1;
    span.prefill = prefill;
    span.start = start;
    span.rows = rows;
    span.logits = logits;
    const SlotBounds bounds{rows, 1, std::max(1, logits)};
    slots.plan({&span, 1});
    slots.upload();
    slots.place(bounds);
    slots.settle(bounds);
    CHECK_THROWS_AS(slots.wait(slots.fetch(false)), DeviceError);
  };
  wrong(true, 1, 2, 0);   // does not continue
  wrong(true, 0, 5, 0);   // passes the blocks of group 0
  wrong(true, 0, 3, 1);   // logits before the last token
  wrong(false, 0, 1, 1);  // not prefilled
  SlotSpan span;
  span.slot = 0;
  span.rows = 1;
  span.logits = 1;
  span.first_row = 1;  // a hole
  CHECK_THROWS_AS(slots.plan({&span, 1}), DeviceError);
}
