#include "kernels/processor_name.h"

#include <fstream>

namespace slipstream {

std::string processor_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("model name")) continue;
    const size_t at = line.find(": ");
    if (at != std::string::npos && at + 2 < line.size()) return line.substr(at + 2);
  }
  return "unknown";
}

}  // namespace slipstream
