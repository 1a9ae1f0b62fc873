// What the tests of tiny models begin and end with: a runner of a checkpoint, and the distance to the golden logits.
#pragma once

#include <cmath>
#include <memory>
#include <vector>

#include "tests/model/model_runner.h"
#include "tests/model/tiny_model.h"
#include "tests/catch.h"

namespace slipstream::test {

/// A runner of the checkpoint's own config; fails the test when it cannot be made.
inline std::unique_ptr<ModelRunner> runner_of(Checkpoint& checkpoint, const RunnerOptions& options) {
  const auto config = read_model_config(checkpoint);
  REQUIRE(config.ok());
  auto runner = ModelRunner::make(checkpoint, *config, options);
  INFO((runner.ok() ? std::string() : runner.error().message));
  REQUIRE(runner.ok());
  return std::move(runner).value();
}

/// Largest distance of the prompt's logits, in order; infinite where one is NaN. Fails the test on another count.
inline double max_error(const GoldenPrompt& prompt, const std::vector<float>& logits) {
  double worst = 0;
  size_t at = 0;
  for (const auto& row : prompt.logits)
    for (const double value : row) {
      const double error = std::abs(value - double{logits.at(at++)});
      worst = std::isnan(error) ? INFINITY : std::max(worst, error);
    }
  REQUIRE(at == logits.size());
  return worst;
}

}  // namespace slipstream::test
