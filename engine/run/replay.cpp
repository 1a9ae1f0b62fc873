#include "engine/run/replay.h"

#include <algorithm>
#include <string>

#include "kernels/ops.h"

namespace slipstream {

Result<std::vector<StepResult>> replay(std::istream& log, StepExecutor& executor) {
  std::vector<StepResult> results;
  std::string line;
  for (int64_t number = 1; std::getline(log, line); ++number) {
    auto plan = plan_from_json(line);
    if (!plan.ok()) return corrupt("plan log line " + std::to_string(number) + ": " + plan.error().message);
    if (std::ranges::any_of(plan->spans, [](const Span& span) { return span.constrained; }))
      return corrupt("plan log line " + std::to_string(number) +
                     ": a constrained choice draws under token masks, which a plan log does not hold; replay needs a log without one");
    try {
      executor.forward(*plan);
      results.push_back(executor.commit(*plan, StepMasks{}));
    } catch (const DeviceError& error) {
      return corrupt("plan log line " + std::to_string(number) + ": " + error.what());
    }
  }
  return results;
}

}  // namespace slipstream
