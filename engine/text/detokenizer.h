// Incremental ids -> text for one choice: never splits a UTF-8 character, holds back what could become a stop string.
// HTTP thread of the request only.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/tokenizer.h"

namespace slipstream {

class Detokenizer {
 public:
  Detokenizer(std::shared_ptr<const Tokenizer> tokenizer, bool skip_special);
  /// Text that is complete after this token (may be empty).
  std::string push(int32_t id);
  /// Flushes an incomplete tail as one U+FFFD.
  std::string finish();

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  bool skip_special_;
  bool at_start_ = true;
  std::string pending_;  // an incomplete UTF-8 tail
};

/// Finds the earliest of several stop strings in a stream of text pieces.
class StopStrings {
 public:
  StopStrings(std::vector<std::string> stops, bool include_in_output);
  struct Piece {
    std::string text;      // safe to publish
    int32_t matched = -1;  // index of the stop string that ended the text, or -1
  };
  Piece push(std::string_view text);
  /// The held-back rest, when the stream ends for another reason.
  std::string finish();

 private:
  std::vector<std::string> stops_;
  bool include_;
  std::string held_;
};

}  // namespace slipstream
