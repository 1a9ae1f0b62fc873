// The host processor's name for reports; knows nothing else about it.
#pragma once

#include <string>

namespace slipstream {

/// "AMD EPYC 9454P 48-Core Processor", or "unknown" where the system does not say.
std::string processor_name();

}  // namespace slipstream
