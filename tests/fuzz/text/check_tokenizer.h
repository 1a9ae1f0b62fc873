// What every fuzz target of a tokenizer checks of one that was accepted: ids in range; untrusted text yields no special
// id but the one of unknown characters; the incremental detokenizer equals the whole decode; every piece of it is valid
// UTF-8.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/text/detokenizer.h"
#include "engine/text/tokenizer.h"
#include "engine/text/unicode.h"

namespace slipstream {

inline void require(bool condition) {
  if (!condition) std::abort();
}

inline void check_decoding(const std::shared_ptr<const Tokenizer>& tokenizer, const std::vector<int32_t>& ids) {
  Detokenizer detokenizer(tokenizer, false);
  std::string streamed;
  for (const int32_t id : ids) {
    const std::string piece = detokenizer.push(id);
    require(unicode::first_invalid_utf8(piece) == std::string_view::npos);
    streamed += piece;
  }
  streamed += detokenizer.finish();
  require(streamed == tokenizer->decode(ids, false));
}

inline void check_encoding(const std::shared_ptr<const Tokenizer>& tokenizer, std::string_view text) {
  const bool valid = unicode::first_invalid_utf8(text) == std::string_view::npos;
  for (const bool trusted : {false, true}) {
    const auto ids = tokenizer->encode(text, trusted);
    if (!valid) require(!ids.ok());
    if (!ids.ok()) continue;
    int32_t unknown = -1;
    for (const int32_t id : *ids) {
      require(id >= 0 && id < tokenizer->vocab_size());
      if (trusted || !tokenizer->is_special(id)) continue;
      require(unknown < 0 || unknown == id);
      unknown = id;
    }
    check_decoding(tokenizer, *ids);
  }
  const std::vector<PromptSegment> segments{{std::string(text.substr(0, text.size() / 2)), true},
                                            {std::string(text.substr(text.size() / 2)), false}};
  (void)tokenizer->encode(segments);
  std::vector<int32_t> bytes;  // the text's bytes as ids: streams that no encoder would give
  for (const char byte : text) bytes.push_back(static_cast<uint8_t>(byte));
  check_decoding(tokenizer, bytes);
}

}  // namespace slipstream
