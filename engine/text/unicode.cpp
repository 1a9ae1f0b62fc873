// UTF-8 repair and steps over engine/base/utf8; properties from utf8proc.
#include "engine/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <vector>

#include "kernels/check.h"

namespace slipstream::unicode {
namespace {

/// Canonical order: each run of characters with a combining class sorted by class, stably. utf8proc's own ordering
/// is an insertion sort, quadratic for a long run of marks, so we do not use it.
void order_marks(std::vector<utf8proc_int32_t>& text) {
  const auto combining_class = [](utf8proc_int32_t c) { return utf8proc_get_property(c)->combining_class; };
  size_t begin = 0;
  while (begin < text.size()) {
    if (text[begin] < 0x300 || combining_class(text[begin]) == 0) {
      ++begin;
      continue;
    }
    size_t end = begin + 1;
    while (end < text.size() && combining_class(text[end]) != 0) ++end;
    std::stable_sort(text.begin() + static_cast<ptrdiff_t>(begin), text.begin() + static_cast<ptrdiff_t>(end),
                     [&](auto a, auto b) { return combining_class(a) < combining_class(b); });
    begin = end;
  }
}

utf8proc_category_t category(char32_t c) { return utf8proc_category(static_cast<utf8proc_int32_t>(c)); }

}  // namespace

char32_t code_point_at(std::string_view text, size_t at) {
  const auto byte = [&](size_t i) { return static_cast<char32_t>(static_cast<uint8_t>(text[at + i])); };
  switch (length_at(text, at)) {
    case 1: return byte(0);
    case 2: return (byte(0) & 0x1F) << 6 | (byte(1) & 0x3F);
    case 3: return (byte(0) & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    default: return (byte(0) & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  }
}

size_t previous(std::string_view text, size_t end) {
  size_t at = end - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

size_t append_repaired(std::string& out, std::string_view bytes) {
  size_t at = 0;
  while (at < bytes.size()) {
    const Utf8Sequence sequence = utf8_sequence_at(bytes, at);
    if (sequence.truncated) return sequence.bytes;
    if (sequence.complete)
      out.append(bytes.substr(at, sequence.bytes));
    else
      append_utf8(out, kReplacement);
    at += sequence.bytes;
  }
  return 0;
}

std::string normalize(std::string_view text, Form form) {
  const bool compatible = form == Form::kNfkc || form == Form::kNfkd;
  const bool composed = form == Form::kNfc || form == Form::kNfkc;
  // Below U+0300 every character is its own NFC; below U+00A0 its own in all forms.
  const uint8_t first_affected_lead = form == Form::kNfc ? 0xCC : 0xC2;
  if (std::none_of(text.begin(), text.end(), [&](char c) { return static_cast<uint8_t>(c) >= first_affected_lead; }))
    return std::string(text);

  int options = UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | (compatible ? UTF8PROC_COMPAT : 0);
  std::vector<utf8proc_int32_t> points;
  points.reserve(text.size());
  std::array<utf8proc_int32_t, 64> expanded{};  // the longest decomposition, of U+FDFA, has 18 characters
  for (size_t at = 0; at < text.size(); at += length_at(text, at)) {
    const auto c = static_cast<utf8proc_int32_t>(code_point_at(text, at));
    if (c < 0x80) {
      points.push_back(c);
      continue;
    }
    int boundary = 0;
    const utf8proc_ssize_t count = utf8proc_decompose_char(c, expanded.data(), expanded.size(),
                                                           static_cast<utf8proc_option_t>(options), &boundary);
    CHECK(count >= 0 && count <= static_cast<utf8proc_ssize_t>(expanded.size()), "utf8proc decomposition");
    points.insert(points.end(), expanded.begin(), expanded.begin() + count);
  }
  order_marks(points);
  auto size = static_cast<utf8proc_ssize_t>(points.size());
  if (composed)
    size = utf8proc_normalize_utf32(points.data(), size,
                                    static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
  CHECK(size >= 0, "utf8proc composition");
  std::string out;
  out.reserve(text.size());
  for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(out, static_cast<char32_t>(points[static_cast<size_t>(i)]));
  return out;
}

bool is_white_space(char32_t c) {
  if (c < 0x80) return c == ' ' || (c >= '\t' && c <= '\r');
  if (c == 0x85) return true;
  const utf8proc_category_t found = category(c);
  return found == UTF8PROC_CATEGORY_ZS || found == UTF8PROC_CATEGORY_ZL || found == UTF8PROC_CATEGORY_ZP;
}

bool is_number(char32_t c) {
  if (c < 0x80) return c >= '0' && c <= '9';
  const utf8proc_category_t found = category(c);
  return found == UTF8PROC_CATEGORY_ND || found == UTF8PROC_CATEGORY_NL || found == UTF8PROC_CATEGORY_NO;
}

bool is_word(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_ND:
    case UTF8PROC_CATEGORY_PC: return true;
    default: return false;
  }
}

bool is_punctuation(char32_t c) {
  switch (category(c)) {
    case UTF8PROC_CATEGORY_PC:
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO: return true;
    default: return false;
  }
}

}  // namespace slipstream::unicode
