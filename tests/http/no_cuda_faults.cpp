// A build without CUDA has no device to break.
#include "tests/http/faulty_executor.h"

namespace slipstream::test {

bool launch_device_fault(Ops&, const std::string&) { return false; }

}  // namespace slipstream::test
