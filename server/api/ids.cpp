// See ids.h.
#include "server/api/ids.h"

#include <random>

namespace slipstream::api {

std::string random_id(const char* prefix) {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  constexpr char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
  std::string out = prefix;
  for (int i = 0; i < 24; ++i) out.push_back(digits[generator() % 36]);
  return out;
}

}  // namespace slipstream::api
