#include "kernels/check.h"

#include <cstdio>
#include <cstdlib>

namespace slipstream {

void check_failed(const char* file, int line, const char* condition, const std::string& text) {
  std::fprintf(stderr, "CHECK failed at %s:%d: %s: %s\n", file, line, condition, text.c_str());
  std::fflush(stderr);
  std::abort();
}

}  // namespace slipstream
