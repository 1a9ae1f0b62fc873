// The trie walk and the white-space rules of Hugging Face tokenizers' added vocabulary.
#include "engine/text/added_tokens.h"

#include <algorithm>

#include "engine/text/unicode.h"

namespace slipstream {
namespace {

bool touches_word(std::string_view text, size_t begin, size_t end) {
  if (begin > 0 && unicode::is_word(unicode::code_point_at(text, unicode::previous(text, begin)))) return true;
  return end < text.size() && unicode::is_word(unicode::code_point_at(text, end));
}

}  // namespace

bool is_plain(const AddedToken& token) {
  return !token.special && token.content.find_first_of("<>[]{}|") == std::string::npos &&
         token.content.find("\xEF\xBD\x9C") == std::string::npos;  // U+FF5C, DeepSeek's bar
}

AddedTokens::AddedTokens() : nodes_(1) {}

int32_t AddedTokens::child(int32_t node, uint8_t byte) const {
  const std::vector<Edge>& edges = nodes_[static_cast<size_t>(node)].edges;
  const auto found = std::lower_bound(edges.begin(), edges.end(), byte,
                                      [](const Edge& edge, uint8_t value) { return edge.byte < value; });
  return found == edges.end() || found->byte != byte ? -1 : found->node;
}

void AddedTokens::add(AddedToken token) {
  CHECK(!token.content.empty(), "an added token without content");
  int32_t node = 0;
  for (char c : token.content) {
    const auto byte = static_cast<uint8_t>(c);
    int32_t next = child(node, byte);
    if (next < 0) {
      next = static_cast<int32_t>(nodes_.size());
      nodes_.emplace_back();
      std::vector<Edge>& edges = nodes_[static_cast<size_t>(node)].edges;
      edges.insert(std::upper_bound(edges.begin(), edges.end(), byte,
                                    [](uint8_t value, const Edge& edge) { return value < edge.byte; }),
                   Edge{byte, next});
    }
    node = next;
  }
  starts_[static_cast<uint8_t>(token.content[0])] = true;
  nodes_[static_cast<size_t>(node)].token = static_cast<int32_t>(tokens_.size());
  tokens_.push_back(std::move(token));
}

int32_t AddedTokens::find(std::string_view content) const {
  int32_t node = 0;
  for (char c : content) {
    node = child(node, static_cast<uint8_t>(c));
    if (node < 0) return -1;
  }
  const int32_t token = nodes_[static_cast<size_t>(node)].token;
  return token < 0 ? -1 : tokens_[static_cast<size_t>(token)].id;
}

const AddedToken* AddedTokens::longest_at(std::string_view text, size_t at, size_t trusted_end) const {
  const AddedToken* best = nullptr;
  int32_t node = 0;
  for (size_t end = at; end < text.size();) {
    node = child(node, static_cast<uint8_t>(text[end]));
    if (node < 0) break;
    ++end;
    const int32_t index = nodes_[static_cast<size_t>(node)].token;
    if (index < 0) continue;
    const AddedToken& token = tokens_[static_cast<size_t>(index)];
    if (end <= trusted_end || is_plain(token)) best = &token;
  }
  return best;
}

std::vector<AddedTokens::Match> AddedTokens::matches(std::string_view text,
                                                     const std::vector<Pattern::Range>& trusted) const {
  std::vector<Match> out;
  if (tokens_.empty()) return out;
  size_t taken = 0;  // end of the last match, stripped white space included
  auto range = trusted.begin();
  for (size_t at = 0; at < text.size();) {
    if (!starts_[static_cast<uint8_t>(text[at])]) {
      ++at;
      continue;
    }
    while (range != trusted.end() && range->end <= at) ++range;
    const size_t trusted_end = range != trusted.end() && range->begin <= at ? range->end : 0;
    const AddedToken* token = longest_at(text, at, trusted_end);
    if (token == nullptr) {
      ++at;
      continue;
    }
    size_t begin = at;
    size_t end = at + token->content.size();
    at = end;
    if (begin < taken) continue;
    if (token->single_word && touches_word(text, begin, end)) continue;
    while (token->left_strip && begin > taken) {
      const size_t before = unicode::previous(text, begin);
      if (!unicode::is_white_space(unicode::code_point_at(text, before))) break;
      begin = before;
    }
    while (token->right_strip && end < text.size() && unicode::is_white_space(unicode::code_point_at(text, end)))
      end += unicode::length_at(text, end);
    out.push_back({begin, end, token->id});
    taken = end;
  }
  return out;
}

}  // namespace slipstream
