// What token masks cost: streams of one model without a constraint, with one in one of them and in all, in turns, so that other work
// on the machine disturbs them alike. One JSON line per kind: tokens per second of wall clock and of CPU time, medians over the rounds. The constraint allows half of
// the vocabulary at every place, which is the least that any mask costs: made, carried and applied.
//   bench_constraints MODEL [streams] [tokens] [rounds]
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <string>
#include <vector>

#include "config/load.h"
#include "engine/base/log.h"
#include "engine/sample/allowed_tokens.h"
#include "server/load_model.h"

using namespace slipstream;

namespace {

double wall_s() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}
double cpu_s() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) / 1e9;
}

struct Round {
  double wall = 0, cpu = 0;  // tokens per second
};

/// All streams at once, to their ends; the first `constrained` of them under the constraint.
Round run(Engine& engine, int32_t streams, int32_t constrained, int32_t tokens, const std::shared_ptr<const ConstraintSpec>& constraint) {
  const double wall = wall_s(), cpu = cpu_s();
  std::vector<std::shared_ptr<Request>> requests;
  for (int32_t i = 0; i < streams; ++i) {
    auto request = std::make_shared<Request>();
    for (int32_t t = 0; t < 16; ++t) request->prompt.push_back(1000 + 37 * t + i);
    request->sampling.temperature = 0.8f;
    request->sampling.seed = static_cast<uint64_t>(i);
    request->sampling.max_tokens = tokens;
    if (i < constrained) request->constraint = constraint;
    request->output = std::make_shared<OutputChannel>(static_cast<size_t>(tokens) + 8);
    if (const Status status = engine.submit(request); !status.ok()) {
      std::fprintf(stderr, "bench_constraints: %s\n", status.error().message.c_str());
      std::exit(1);
    }
    requests.push_back(std::move(request));
  }
  for (const auto& request : requests)
    for (bool open = true; open;) {
      const auto event = request->output->pop(std::chrono::seconds(600));
      open = event && event->finish == FinishReason::kNone;
    }
  const double all = static_cast<double>(streams) * tokens;
  return {all / (wall_s() - wall), all / (cpu_s() - cpu)};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fprintf(stderr, "usage: bench_constraints MODEL [streams] [tokens] [rounds]\n");
    return 2;
  }
  const auto number = [&](int at, int otherwise) { return argc > at ? std::atoi(argv[at]) : otherwise; };
  const int32_t streams = number(2, 8), tokens = number(3, 64), rounds = number(4, 9);
  const auto config = load_config({argv[1]});
  if (!config.ok()) return std::fprintf(stderr, "bench_constraints: %s\n", config.error().message.c_str()), 1;
  log::init("error", config->server.log_format);
  auto loaded = load_served_model(*config, {}, [](const std::string&) {});
  if (!loaded.ok()) return std::fprintf(stderr, "bench_constraints: %s\n", loaded.error().message.c_str()), 1;
  Engine& engine = *(*loaded)->engine;
  engine.start();
  std::vector<int32_t> half;
  for (int32_t id = 0; id < engine.limits().vocab; id += 2) half.push_back(id);
  const auto allowed = std::make_shared<const AllowedTokens>(half);
  const std::array<int32_t, 3> kinds{0, 1, streams};
  std::array<std::vector<double>, 3> wall, cpu;
  for (int32_t round = 0; round <= rounds; ++round)
    for (size_t kind = 0; kind < kinds.size(); ++kind) {
      const Round one = run(engine, streams, kinds[kind], tokens, allowed);
      if (round == 0) continue;  // warm-up
      wall[kind].push_back(one.wall);
      cpu[kind].push_back(one.cpu);
    }
  engine.drain(std::chrono::seconds(10));
  const EngineStats stats = engine.stats();
  for (size_t kind = 0; kind < kinds.size(); ++kind)
    std::printf("{\"streams\": %d, \"constrained\": %d, \"tokens_per_s\": %.1f, \"tokens_per_cpu_s\": %.1f}\n", streams, kinds[kind],
                median(wall[kind]), median(cpu[kind]));
  std::printf("{\"masked_rows\": %ld, \"mask_us_per_row\": %.2f}\n", static_cast<long>(stats.masked_rows),
              1e6 * stats.mask_s / static_cast<double>(std::max<int64_t>(stats.masked_rows, 1)));
  engine.stop();
  return 0;
}
