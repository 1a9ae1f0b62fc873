// Times the slots' share of a step: kernels from graph replays, the host's calls by the clock.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <vector>

#include "kernels/cuda/slots.h"
#include "tests/cuda/bench_clock.h"

using namespace slipstream;
using namespace slipstream::cuda;

namespace {

double micros() {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void run(int32_t count, int32_t rows_each, int32_t context_tokens) {
  Context context(0);
  SlotShape shape;
  shape.slots = shape.max_spans = count;
  shape.max_tokens = 40960;
  shape.max_blocks = 1280;
  shape.max_rows = std::max(8192, count * rows_each);
  shape.max_logit_rows = count * rows_each;
  shape.max_drafts = rows_each - 1;
  ResidentSlots slots(context, shape);
  std::vector<int32_t> history(static_cast<size_t>(context_tokens)), blocks(1280);
  for (size_t i = 0; i < history.size(); ++i) history[i] = static_cast<int32_t>(i * 7919 % 50000);
  for (size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<int32_t>(i);
  std::vector<SlotSpan> spans(static_cast<size_t>(count));
  std::vector<SampledToken> drawn(static_cast<size_t>(count * rows_each));
  for (SampledToken& token : drawn) token.token = 17;
  cudaMemcpyAsync(slots.drawn(), drawn.data(), drawn.size() * sizeof(SampledToken), cudaMemcpyHostToDevice, context.stream());
  for (int32_t s = 0; s < count; ++s) {
    SlotOpening open;
    open.slot = s;
    open.generation = 1;
    open.history = history;
    open.prompt_tokens = context_tokens;
    open.cached_tokens = context_tokens - 1;
    open.remaining_tokens = 40960 - context_tokens;
    slots.open(open);
    slots.grant(s, 0, blocks);
    spans[static_cast<size_t>(s)] = {s, 1, false, 0, rows_each, rows_each, s * rows_each, s * rows_each, rows_each - 1, {}};
  }
  slots.plan(spans);
  slots.upload();
  const SlotBounds bounds{count * rows_each, count, count * rows_each};
  slots.place(bounds);
  slots.settle(bounds);
  std::vector<Graph> graphs;
  std::vector<double> us;
  for (int which = 0; which < 3; ++which) {
    graphs.emplace_back(context, [&] {
      slots.place(bounds);
      if (which > 0) slots.settle(bounds);
      if (which > 1) slots.draft_ngram(bounds, 1, 4, 4096);
    });
    constexpr int kReplays = 10;
    us.push_back(bench::median_us(context, 100, [&] {
                   for (int i = 0; i < kReplays; ++i) graphs.back().replay(context);
                 }) / kReplays);
  }
  std::vector<double> packing, fetching;
  for (int i = 0; i < 200; ++i) {
    const double t0 = micros();
    slots.plan(spans);
    slots.upload();
    const double t1 = micros();
    graphs[1].replay(context);
    const double t2 = micros();
    const int ticket = slots.fetch(false);
    const double t3 = micros();
    slots.wait(ticket);
    packing.push_back(t1 - t0);
    fetching.push_back(t3 - t2);
  }
  std::printf("%4d slots x %2d rows, %5d tokens: place %5.1f us, + settle %5.1f, + n-gram %5.1f | host: plan and upload %5.1f us, fetch %4.1f\n",
              count, rows_each, context_tokens, us[0], us[1], us[2], bench::median(packing), bench::median(fetching));
}

}  // namespace

int main() {
  for (const auto& [count, rows, tokens] : {std::tuple{1, 1, 1000}, {64, 1, 1000}, {64, 4, 8000}, {256, 1, 8000}, {256, 4, 1000}}) run(count, rows, tokens);
}
