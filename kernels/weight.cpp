#include "kernels/weight.h"

#include "kernels/check.h"

namespace slipstream {

Weight::Weight(WeightSpec spec) : spec_(std::move(spec)) {
  CHECK(!spec_.parts.empty(), "a weight needs at least one part");
  cols_ = spec_.parts.front().cols;
  for (const WeightPart& part : spec_.parts) {
    CHECK(part.cols == cols_, "parts of one weight must have equal columns");
    CHECK(part.rows > 0 && part.cols > 0 && part.data != nullptr, "a weight part is empty");
    rows_ += part.rows;
  }
}

}  // namespace slipstream
