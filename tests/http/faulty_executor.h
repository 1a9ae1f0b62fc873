// A decorator of a rank's executor whose device fails at a chosen step: by an exception, and on a GPU by a kernel that really
// does what must not be. For fault_server; knows no HTTP.
#pragma once

#include <memory>
#include <string>

#include "engine/base/fault.h"
#include "engine/run/step_executor.h"
#include "kernels/ops.h"

namespace slipstream::test {

/// Points, each passed once a forward of at least `min_spans` spans, so that a test can have everybody there first:
///   device_error   the forward throws DeviceError
///   hang           the forward never ends (on a GPU a kernel, elsewhere the thread sleeps)
///   illegal_read   a kernel reads an address that is nobody's: a sticky error (GPU only)
///   trap           a kernel traps, as a device assert does: a sticky error (GPU only)
std::unique_ptr<StepExecutor> make_faulty_executor(std::unique_ptr<StepExecutor> inner, Ops& ops, std::shared_ptr<FaultSchedule> faults,
                                                   size_t min_spans);
/// Whether `point` is one of the above.
bool is_fault_point(const std::string& point);

/// On the backend's own stream; false when `ops` is no CUDA backend. In cuda_faults.cu.
bool launch_device_fault(Ops& ops, const std::string& point);

}  // namespace slipstream::test
