// Provenance runs under concatenation and slicing, and the UTF-8 steps that Python's code point indices need. Must
// never know values.
#include "engine/text/template_text.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "kernels/check.h"

namespace slipstream::jinja {

namespace {

bool is_ascii(std::string_view bytes) {
  unsigned char seen = 0;
  for (const char c : bytes) seen |= static_cast<unsigned char>(c);
  return seen < 0x80;
}

size_t sequence_length(unsigned char lead) { return lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4; }

bool is_lead(char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }

// Eight bytes at a time: a continuation byte has its top bit set and the next one clear.
int64_t count_leads(std::string_view bytes) {
  constexpr uint64_t kTops = 0x8080808080808080;
  int64_t count = static_cast<int64_t>(bytes.size());
  size_t i = 0;
  for (; i + 8 <= bytes.size(); i += 8) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + i, 8);
    count -= std::popcount(word & kTops & ~(word << 1));
  }
  for (; i < bytes.size(); ++i) count -= !is_lead(bytes[i]);
  return count;
}

}  // namespace

Text::Text(std::string bytes, bool user) : bytes_(std::move(bytes)), user_(user), ascii_(is_ascii(bytes_)) {}

bool Text::user_at(size_t offset) const {
  if (runs_.empty()) return user_;
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), offset,
                                    [](size_t value, const Run& candidate) { return value < candidate.end; });
  CHECK(run != runs_.end(), "offset past the end of a text");
  return run->user;
}

int64_t Text::length() const {
  if (ascii_) return static_cast<int64_t>(bytes_.size());
  return count_leads(bytes_);
}

size_t Text::offset_of(int64_t index) const {
  if (ascii_) return static_cast<size_t>(index);
  // Whole blocks first: counting the characters of one is much cheaper than stepping over them.
  constexpr size_t kBlock = 64;
  size_t offset = 0;
  while (offset + kBlock <= bytes_.size()) {
    const int64_t leads = count_leads(std::string_view(bytes_).substr(offset, kBlock));
    if (leads > index) break;
    index -= leads;
    offset += kBlock;
  }
  for (; offset < bytes_.size(); ++offset)
    if (is_lead(bytes_[offset]) && index-- == 0) break;
  return offset;
}

Text Text::slice(size_t from, size_t to) const {
  TextBuilder builder;
  builder.append(*this, from, to);
  return builder.take();
}

std::vector<Run> Text::runs() const {
  if (!runs_.empty() || bytes_.empty()) return runs_;
  return {{bytes_.size(), user_}};
}

void TextBuilder::append(std::string_view bytes, bool user) {
  if (bytes.empty()) return;
  bytes_.append(bytes);
  if (!runs_.empty() && runs_.back().user == user)
    runs_.back().end = bytes_.size();
  else
    runs_.push_back({bytes_.size(), user});
}

void TextBuilder::append(const Text& text, size_t from, size_t to) {
  CHECK(from <= to && to <= text.size(), "a slice outside its text");
  const std::string_view bytes = text.bytes_;
  if (text.runs_.empty()) {
    append(bytes.substr(from, to - from), text.user_);
    return;
  }
  auto run = std::upper_bound(text.runs_.begin(), text.runs_.end(), from,
                              [](size_t value, const Run& candidate) { return value < candidate.end; });
  for (size_t at = from; at < to; ++run) {
    const size_t end = std::min(run->end, to);
    append(bytes.substr(at, end - at), run->user);
    at = end;
  }
}

Text TextBuilder::take() {
  Text text;
  text.ascii_ = is_ascii(bytes_);
  text.bytes_ = std::move(bytes_);
  if (runs_.size() <= 1)
    text.user_ = !runs_.empty() && runs_.front().user;
  else
    text.runs_ = std::move(runs_);
  bytes_.clear();
  runs_.clear();
  return text;
}

char32_t decode_utf8(std::string_view bytes, size_t offset, size_t* length) {
  const auto at = [&](size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(bytes[offset + i])); };
  const size_t count = std::min(sequence_length(static_cast<unsigned char>(bytes[offset])), bytes.size() - offset);
  *length = count;
  switch (count) {
    case 1: return at(0);
    case 2: return (at(0) & 0x1F) << 6 | (at(1) & 0x3F);
    case 3: return (at(0) & 0x0F) << 12 | (at(1) & 0x3F) << 6 | (at(2) & 0x3F);
    default: return (at(0) & 0x07) << 18 | (at(1) & 0x3F) << 12 | (at(2) & 0x3F) << 6 | (at(3) & 0x3F);
  }
}

}  // namespace slipstream::jinja
