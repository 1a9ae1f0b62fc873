// Any bytes on the wire, cut anywhere: the same outcome as in one piece, and bounded memory.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <vector>

#include "config/limits.h"
#include "server/request_parser.h"

using namespace slipstream;

namespace {

std::vector<std::string> outcomes(std::string_view bytes, size_t piece) {
  RequestParser parser;
  std::vector<std::string> out;
  std::string buffer;
  for (size_t at = 0; at < bytes.size(); at += piece) {
    buffer += bytes.substr(at, piece);
    for (;;) {
      const size_t used = parser.feed(buffer);
      buffer.erase(0, used);
      if (parser.state() == RequestParser::State::kHeaderDone) {
        parser.accept_body();
      } else if (parser.state() == RequestParser::State::kFailed) {
        out.push_back("failed " + std::to_string(parser.status()));
        return out;
      }
      if (parser.state() == RequestParser::State::kDone) {
        const HttpRequest request = parser.take();
        if (static_cast<int64_t>(request.body.size()) > limits::kBodyBytes) std::abort();
        if (request.headers.size() > static_cast<size_t>(limits::kHeaderCount)) std::abort();
        out.push_back(request.method + " " + request.target + " " + request.body);
        continue;
      }
      if (used == 0) break;
    }
  }
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const std::string_view bytes(reinterpret_cast<const char*>(data + 1), size - 1);
  if (outcomes(bytes, bytes.size()) != outcomes(bytes, data[0] % 16 + 1)) std::abort();
  return 0;
}
