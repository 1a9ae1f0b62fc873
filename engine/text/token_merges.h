// Fills a merge table from merge lists as files have them: pairs of token strings, in order of rank. Knows no file.
#pragma once

#include <string>
#include <string_view>

#include "engine/base/result.h"
#include "engine/text/bpe.h"
#include "engine/text/vocabulary.h"

namespace slipstream {

class TokenMerges {
 public:
  /// Both outlive this. The units of `bpe` say how token strings are spelled.
  TokenMerges(const Vocabulary* vocabulary, Bpe* bpe, size_t count);

  /// "left right" with exactly one space; kCorrupt otherwise, and when a part or the whole is not in the vocabulary.
  Status add_line(std::string_view line);
  Status add(std::string_view left, std::string_view right);

 private:
  Result<int32_t> id_of(std::string_view piece, std::string* bytes) const;
  const Vocabulary* vocabulary_;
  Bpe* bpe_;
  uint32_t rank_ = 0;
  std::string left_, right_;
};

}  // namespace slipstream
