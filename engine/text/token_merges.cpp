// Each merge is looked up once; its line number is its rank.
#include "engine/text/token_merges.h"

#include "engine/text/byte_alphabet.h"
#include "engine/text/sentencepiece.h"

namespace slipstream {

TokenMerges::TokenMerges(const Vocabulary* vocabulary, Bpe* bpe, size_t count) : vocabulary_(vocabulary), bpe_(bpe) {
  bpe_->merges = MergeTable(count);
}

Status TokenMerges::add_line(std::string_view line) {
  const size_t space = line.find(' ');
  if (space == std::string_view::npos || space == 0 || space + 1 == line.size() ||
      line.find(' ', space + 1) != std::string_view::npos)
    return corrupt("merge " + std::to_string(rank_) + " is \"" + std::string(line.substr(0, 80)) +
                   "\"; two tokens with exactly one space between them are needed");
  return add(line.substr(0, space), line.substr(space + 1));
}

Result<int32_t> TokenMerges::id_of(std::string_view piece, std::string* bytes) const {
  bytes->clear();
  if (bpe_->units == Bpe::Units::kBytes) {
    if (!append_bytes_of(*bytes, piece)) return -1;
  } else {
    *bytes = spaced(piece);
  }
  return vocabulary_->find(*bytes);
}

Status TokenMerges::add(std::string_view left, std::string_view right) {
  SLIP_TRY(const int32_t left_id, id_of(left, &left_));
  SLIP_TRY(const int32_t right_id, id_of(right, &right_));
  const int32_t result = left_id < 0 || right_id < 0 ? -1 : vocabulary_->find(left_ + right_);
  if (result < 0) {
    const std::string_view missing = left_id < 0 ? left : right_id < 0 ? right : "their join";
    return corrupt("merge " + std::to_string(rank_) + " joins \"" + std::string(left.substr(0, 80)) + "\" and \"" +
                   std::string(right.substr(0, 80)) + "\", but " + std::string(missing.substr(0, 80)) +
                   " is not in the vocabulary");
  }
  bpe_->merges.add(left_id, right_id, rank_, result);
  ++rank_;
  return Ok{};
}

}  // namespace slipstream
