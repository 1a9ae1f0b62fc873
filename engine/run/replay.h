// Runs a log of plans again on an executor: the same plans give the same tokens. Knows no scheduler.
#pragma once

#include <istream>
#include <vector>

#include "engine/base/result.h"
#include "engine/run/step_executor.h"
#include "engine/schedule/step_plan.h"

namespace slipstream {

/// One plan per line, as to_json wrote them. An unreadable line or a plan that the executor refuses is an error that
/// names the line. So is a plan with a constrained span: its tokens were drawn under masks, which follow from the tokens before and
/// are no part of a plan, so that without them it would give others.
Result<std::vector<StepResult>> replay(std::istream& log, StepExecutor& executor);

}  // namespace slipstream
