// Ranks are the dense order of distinct scores, so that pieces with equal scores join leftmost first.
#include "engine/text/sentencepiece.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "engine/text/unicode.h"

namespace slipstream {

int byte_of_piece(std::string_view piece) {
  if (piece.size() != 6 || piece.substr(0, 3) != "<0x" || piece[5] != '>') return -1;
  int value = 0;
  for (const char c : piece.substr(3, 2)) {
    const bool digit = c >= '0' && c <= '9';
    const bool upper = c >= 'A' && c <= 'F';
    if (!digit && !upper && !(c >= 'a' && c <= 'f')) return -1;
    value = value * 16 + (digit ? c - '0' : upper ? c - 'A' + 10 : c - 'a' + 10);
  }
  return value;
}

std::string spaced(std::string_view piece) {
  std::string out;
  out.reserve(piece.size());
  for (size_t at = 0; at < piece.size();) {
    if (piece.substr(at, 3) == "\xE2\x96\x81") {
      out += ' ';
      at += 3;
    } else {
      out += piece[at++];
    }
  }
  return out;
}

void merges_from_scores(const std::vector<std::string>& pieces, const std::vector<double>& scores,
                        const std::vector<bool>& mergeable, Bpe* bpe) {
  std::vector<double> order;
  std::unordered_map<std::string_view, int32_t> ids;
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!mergeable[i] || pieces[i].empty()) continue;
    order.push_back(scores[i]);
    ids.emplace(pieces[i], static_cast<int32_t>(i));
    if (unicode::length_at(pieces[i], 0) == pieces[i].size())
      bpe->characters.emplace(unicode::code_point_at(pieces[i], 0), static_cast<int32_t>(i));
  }
  std::sort(order.begin(), order.end(), std::greater<>());
  order.erase(std::unique(order.begin(), order.end()), order.end());
  const auto rank_of = [&](double score) {
    return static_cast<uint32_t>(std::lower_bound(order.begin(), order.end(), score, std::greater<>()) - order.begin());
  };
  int32_t next_id = bpe->vocabulary_size;
  const auto id_of = [&](std::string_view part) -> int32_t {
    if (unicode::length_at(part, 0) == part.size()) {
      const auto [entry, added] = bpe->characters.try_emplace(unicode::code_point_at(part, 0), next_id);
      next_id += added;
      return entry->second;
    }
    const auto found = ids.find(part);
    return found == ids.end() ? -1 : found->second;
  };
  bpe->merges = MergeTable(pieces.size() * 2);
  for (size_t i = 0; i < pieces.size(); ++i) {
    if (!mergeable[i]) continue;
    const std::string_view piece = pieces[i];
    const uint32_t rank = rank_of(scores[i]);
    for (size_t cut = piece.empty() ? 0 : unicode::length_at(piece, 0); cut < piece.size();
         cut += unicode::length_at(piece, cut)) {
      const int32_t left = id_of(piece.substr(0, cut));
      const int32_t right = id_of(piece.substr(cut));
      if (left >= 0 && right >= 0) bpe->merges.add(left, right, rank, static_cast<int32_t>(i));
    }
  }
}

}  // namespace slipstream
