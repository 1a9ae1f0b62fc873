// Text, stop strings and cuts from the input: the result must not depend on the cuts, and must be a prefix of the text.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/detokenizer.h"
#include "engine/text/unicode.h"

namespace {

using slipstream::StopStrings;

struct Outcome {
  std::string text;
  int32_t matched = -1;
  bool operator==(const Outcome&) const = default;
};

Outcome run(const std::vector<std::string>& stops, std::string_view text, size_t cut) {
  StopStrings search(stops, false);
  Outcome out;
  while (!text.empty() && out.matched < 0) {
    const auto piece = search.push(text.substr(0, cut));
    out.text += piece.text;
    out.matched = piece.matched;
    text.remove_prefix(std::min(cut, text.size()));
  }
  if (out.matched < 0) out.text += search.finish();
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 2) return 0;
  const size_t cut = 1 + data[0] % 7;
  std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::vector<std::string> stops;
  for (size_t zero = rest.find('\0'); zero != std::string_view::npos && stops.size() < 4; zero = rest.find('\0')) {
    stops.emplace_back(rest.substr(0, zero));
    rest.remove_prefix(zero + 1);
  }
  const Outcome whole = run(stops, rest, rest.size() + 1);
  if (!(run(stops, rest, cut) == whole) || rest.substr(0, whole.text.size()) != whole.text) std::abort();
  if (whole.matched < 0 && whole.text != rest) std::abort();

  std::string repaired;
  const size_t incomplete = slipstream::unicode::append_repaired(repaired, rest);
  if (slipstream::unicode::first_invalid_utf8(repaired) != std::string_view::npos || incomplete > 3) std::abort();
  if (slipstream::unicode::first_invalid_utf8(rest) == std::string_view::npos) {
    if (repaired != rest) std::abort();
    const std::string once = slipstream::unicode::normalize(rest, slipstream::unicode::Form::kNfc);
    if (slipstream::unicode::normalize(once, slipstream::unicode::Form::kNfc) != once) std::abort();
  }
  return 0;
}
