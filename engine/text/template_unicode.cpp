// Character classes and full case mappings as CPython has them. Must never know values.
#include "engine/text/template_unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <iterator>

namespace slipstream::jinja {

namespace {

struct SpecialCase {
  char32_t code;
  const char* upper;
  const char* title;  // null: the single character of UnicodeData
};

// Unicode SpecialCasing.txt, the unconditional mappings to more than one character. Ascending.
constexpr SpecialCase kSpecialCases[] = {
    {0x00DF, "\x53\x53", "\x53\x73"}, {0x0149, "\xca\xbc\x4e", "\xca\xbc\x4e"},
    {0x01F0, "\x4a\xcc\x8c", "\x4a\xcc\x8c"}, {0x0390, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x03B0, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x0587, "\xd4\xb5\xd5\x92", "\xd4\xb5\xd6\x82"}, {0x1E96, "\x48\xcc\xb1", "\x48\xcc\xb1"},
    {0x1E97, "\x54\xcc\x88", "\x54\xcc\x88"}, {0x1E98, "\x57\xcc\x8a", "\x57\xcc\x8a"},
    {0x1E99, "\x59\xcc\x8a", "\x59\xcc\x8a"}, {0x1E9A, "\x41\xca\xbe", "\x41\xca\xbe"},
    {0x1F50, "\xce\xa5\xcc\x93", "\xce\xa5\xcc\x93"},
    {0x1F52, "\xce\xa5\xcc\x93\xcc\x80", "\xce\xa5\xcc\x93\xcc\x80"},
    {0x1F54, "\xce\xa5\xcc\x93\xcc\x81", "\xce\xa5\xcc\x93\xcc\x81"},
    {0x1F56, "\xce\xa5\xcc\x93\xcd\x82", "\xce\xa5\xcc\x93\xcd\x82"}, {0x1F80, "\xe1\xbc\x88\xce\x99", nullptr},
    {0x1F81, "\xe1\xbc\x89\xce\x99", nullptr}, {0x1F82, "\xe1\xbc\x8a\xce\x99", nullptr},
    {0x1F83, "\xe1\xbc\x8b\xce\x99", nullptr}, {0x1F84, "\xe1\xbc\x8c\xce\x99", nullptr},
    {0x1F85, "\xe1\xbc\x8d\xce\x99", nullptr}, {0x1F86, "\xe1\xbc\x8e\xce\x99", nullptr},
    {0x1F87, "\xe1\xbc\x8f\xce\x99", nullptr}, {0x1F88, "\xe1\xbc\x88\xce\x99", nullptr},
    {0x1F89, "\xe1\xbc\x89\xce\x99", nullptr}, {0x1F8A, "\xe1\xbc\x8a\xce\x99", nullptr},
    {0x1F8B, "\xe1\xbc\x8b\xce\x99", nullptr}, {0x1F8C, "\xe1\xbc\x8c\xce\x99", nullptr},
    {0x1F8D, "\xe1\xbc\x8d\xce\x99", nullptr}, {0x1F8E, "\xe1\xbc\x8e\xce\x99", nullptr},
    {0x1F8F, "\xe1\xbc\x8f\xce\x99", nullptr}, {0x1F90, "\xe1\xbc\xa8\xce\x99", nullptr},
    {0x1F91, "\xe1\xbc\xa9\xce\x99", nullptr}, {0x1F92, "\xe1\xbc\xaa\xce\x99", nullptr},
    {0x1F93, "\xe1\xbc\xab\xce\x99", nullptr}, {0x1F94, "\xe1\xbc\xac\xce\x99", nullptr},
    {0x1F95, "\xe1\xbc\xad\xce\x99", nullptr}, {0x1F96, "\xe1\xbc\xae\xce\x99", nullptr},
    {0x1F97, "\xe1\xbc\xaf\xce\x99", nullptr}, {0x1F98, "\xe1\xbc\xa8\xce\x99", nullptr},
    {0x1F99, "\xe1\xbc\xa9\xce\x99", nullptr}, {0x1F9A, "\xe1\xbc\xaa\xce\x99", nullptr},
    {0x1F9B, "\xe1\xbc\xab\xce\x99", nullptr}, {0x1F9C, "\xe1\xbc\xac\xce\x99", nullptr},
    {0x1F9D, "\xe1\xbc\xad\xce\x99", nullptr}, {0x1F9E, "\xe1\xbc\xae\xce\x99", nullptr},
    {0x1F9F, "\xe1\xbc\xaf\xce\x99", nullptr}, {0x1FA0, "\xe1\xbd\xa8\xce\x99", nullptr},
    {0x1FA1, "\xe1\xbd\xa9\xce\x99", nullptr}, {0x1FA2, "\xe1\xbd\xaa\xce\x99", nullptr},
    {0x1FA3, "\xe1\xbd\xab\xce\x99", nullptr}, {0x1FA4, "\xe1\xbd\xac\xce\x99", nullptr},
    {0x1FA5, "\xe1\xbd\xad\xce\x99", nullptr}, {0x1FA6, "\xe1\xbd\xae\xce\x99", nullptr},
    {0x1FA7, "\xe1\xbd\xaf\xce\x99", nullptr}, {0x1FA8, "\xe1\xbd\xa8\xce\x99", nullptr},
    {0x1FA9, "\xe1\xbd\xa9\xce\x99", nullptr}, {0x1FAA, "\xe1\xbd\xaa\xce\x99", nullptr},
    {0x1FAB, "\xe1\xbd\xab\xce\x99", nullptr}, {0x1FAC, "\xe1\xbd\xac\xce\x99", nullptr},
    {0x1FAD, "\xe1\xbd\xad\xce\x99", nullptr}, {0x1FAE, "\xe1\xbd\xae\xce\x99", nullptr},
    {0x1FAF, "\xe1\xbd\xaf\xce\x99", nullptr}, {0x1FB2, "\xe1\xbe\xba\xce\x99", "\xe1\xbe\xba\xcd\x85"},
    {0x1FB3, "\xce\x91\xce\x99", nullptr}, {0x1FB4, "\xce\x86\xce\x99", "\xce\x86\xcd\x85"},
    {0x1FB6, "\xce\x91\xcd\x82", "\xce\x91\xcd\x82"},
    {0x1FB7, "\xce\x91\xcd\x82\xce\x99", "\xce\x91\xcd\x82\xcd\x85"}, {0x1FBC, "\xce\x91\xce\x99", nullptr},
    {0x1FC2, "\xe1\xbf\x8a\xce\x99", "\xe1\xbf\x8a\xcd\x85"}, {0x1FC3, "\xce\x97\xce\x99", nullptr},
    {0x1FC4, "\xce\x89\xce\x99", "\xce\x89\xcd\x85"}, {0x1FC6, "\xce\x97\xcd\x82", "\xce\x97\xcd\x82"},
    {0x1FC7, "\xce\x97\xcd\x82\xce\x99", "\xce\x97\xcd\x82\xcd\x85"}, {0x1FCC, "\xce\x97\xce\x99", nullptr},
    {0x1FD2, "\xce\x99\xcc\x88\xcc\x80", "\xce\x99\xcc\x88\xcc\x80"},
    {0x1FD3, "\xce\x99\xcc\x88\xcc\x81", "\xce\x99\xcc\x88\xcc\x81"},
    {0x1FD6, "\xce\x99\xcd\x82", "\xce\x99\xcd\x82"},
    {0x1FD7, "\xce\x99\xcc\x88\xcd\x82", "\xce\x99\xcc\x88\xcd\x82"},
    {0x1FE2, "\xce\xa5\xcc\x88\xcc\x80", "\xce\xa5\xcc\x88\xcc\x80"},
    {0x1FE3, "\xce\xa5\xcc\x88\xcc\x81", "\xce\xa5\xcc\x88\xcc\x81"},
    {0x1FE4, "\xce\xa1\xcc\x93", "\xce\xa1\xcc\x93"}, {0x1FE6, "\xce\xa5\xcd\x82", "\xce\xa5\xcd\x82"},
    {0x1FE7, "\xce\xa5\xcc\x88\xcd\x82", "\xce\xa5\xcc\x88\xcd\x82"},
    {0x1FF2, "\xe1\xbf\xba\xce\x99", "\xe1\xbf\xba\xcd\x85"}, {0x1FF3, "\xce\xa9\xce\x99", nullptr},
    {0x1FF4, "\xce\x8f\xce\x99", "\xce\x8f\xcd\x85"}, {0x1FF6, "\xce\xa9\xcd\x82", "\xce\xa9\xcd\x82"},
    {0x1FF7, "\xce\xa9\xcd\x82\xce\x99", "\xce\xa9\xcd\x82\xcd\x85"}, {0x1FFC, "\xce\xa9\xce\x99", nullptr},
    {0xFB00, "\x46\x46", "\x46\x66"}, {0xFB01, "\x46\x49", "\x46\x69"}, {0xFB02, "\x46\x4c", "\x46\x6c"},
    {0xFB03, "\x46\x46\x49", "\x46\x66\x69"}, {0xFB04, "\x46\x46\x4c", "\x46\x66\x6c"},
    {0xFB05, "\x53\x54", "\x53\x74"}, {0xFB06, "\x53\x54", "\x53\x74"},
    {0xFB13, "\xd5\x84\xd5\x86", "\xd5\x84\xd5\xb6"}, {0xFB14, "\xd5\x84\xd4\xb5", "\xd5\x84\xd5\xa5"},
    {0xFB15, "\xd5\x84\xd4\xbb", "\xd5\x84\xd5\xab"}, {0xFB16, "\xd5\x8e\xd5\x86", "\xd5\x8e\xd5\xb6"},
    {0xFB17, "\xd5\x84\xd4\xbd", "\xd5\x84\xd5\xad"},
};

const SpecialCase* special_case(char32_t code) {
  const auto* found = std::lower_bound(std::begin(kSpecialCases), std::end(kSpecialCases), code,
                                       [](const SpecialCase& row, char32_t value) { return row.code < value; });
  return found != std::end(kSpecialCases) && found->code == code ? found : nullptr;
}

utf8proc_category_t category(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

void append_upper(std::string* out, char32_t code) {
  if (const SpecialCase* special = code < 0x80 ? nullptr : special_case(code))
    out->append(special->upper);
  else
    append_utf8(*out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(code))));
}

void append_title(std::string* out, char32_t code) {
  const SpecialCase* special = code < 0x80 ? nullptr : special_case(code);
  if (special != nullptr && special->title != nullptr)
    out->append(special->title);
  else
    append_utf8(*out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(code))));
}

bool is_cased(char32_t code) { return is_upper(code) || is_lower(code) || is_title(code); }

// Unicode's Case_Ignorable, as far as it decides the final sigma: marks, modifiers and the apostrophes.
bool is_case_ignorable(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_MN: case UTF8PROC_CATEGORY_ME: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK: return true;
    default: break;
  }
  return code == '\'' || code == '.' || code == ':' || code == 0xB7 || code == 0x2019 || code == 0x2018 ||
         code == 0x2024 || code == 0x2027 || code == 0x387 || code == 0x55F || code == 0x5F4;
}

// Final_Sigma: a cased letter before, none after, ignorable characters skipped.
bool is_final_sigma(std::string_view bytes, size_t offset, size_t length) {
  bool cased_before = false;
  for (size_t at = offset; at > 0;) {
    do --at;
    while (at > 0 && (static_cast<unsigned char>(bytes[at]) & 0xC0) == 0x80);
    size_t unused = 0;
    const char32_t code = decode_utf8(bytes, at, &unused);
    if (is_case_ignorable(code)) continue;
    cased_before = is_cased(code);
    break;
  }
  if (!cased_before) return false;
  for (size_t at = offset + length; at < bytes.size();) {
    size_t step = 0;
    const char32_t code = decode_utf8(bytes, at, &step);
    at += step;
    if (!is_case_ignorable(code)) return !is_cased(code);
  }
  return true;
}

void append_lower(std::string* out, std::string_view bytes, size_t offset, char32_t code, size_t length) {
  if (code == 0x130)
    out->append("i\xCC\x87");
  else if (code == 0x3A3)
    out->append(is_final_sigma(bytes, offset, length) ? "\xCF\x82" : "\xCF\x83");
  else
    append_utf8(*out, static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))));
}

// Calls map(out, bytes, offset, code, length) for each character.
template <typename Map>
Text map_characters(const Text& text, Map map) {
  TextBuilder builder;
  const std::string_view bytes = text.bytes();
  std::string piece;
  size_t start = 0;
  for (const Run& run : text.runs()) {
    piece.clear();
    for (size_t at = start; at < run.end;) {
      size_t length = 0;
      const char32_t code = decode_utf8(bytes, at, &length);
      map(&piece, bytes, at, code, length);
      at += length;
    }
    builder.append(piece, run.user);
    start = run.end;
  }
  return builder.take();
}

}  // namespace

bool is_space(char32_t code) {
  if (code < 0x80) return (code >= 9 && code <= 13) || (code >= 0x1C && code <= 0x20);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) || code == 0x2028 ||
         code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_alpha(char32_t code) {
  switch (category(code)) {
    case UTF8PROC_CATEGORY_LU: case UTF8PROC_CATEGORY_LL: case UTF8PROC_CATEGORY_LT: case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO: return true;
    default: return false;
  }
}

bool is_decimal(char32_t code) { return category(code) == UTF8PROC_CATEGORY_ND; }

bool is_digit(char32_t code) {
  if (code < 0x80) return code >= '0' && code <= '9';
  if (is_decimal(code)) return true;
  return code == 0xB2 || code == 0xB3 || code == 0xB9 || code == 0x2070 || (code >= 0x2074 && code <= 0x2079) ||
         (code >= 0x2080 && code <= 0x2089) || (code >= 0x2460 && code <= 0x2468) ||
         (code >= 0x2474 && code <= 0x247C) || (code >= 0x2488 && code <= 0x2490) || code == 0x24EA ||
         (code >= 0x24F5 && code <= 0x24FD) || code == 0x24FF || (code >= 0x2776 && code <= 0x277E) ||
         (code >= 0x2780 && code <= 0x2788) || (code >= 0x278A && code <= 0x2792);
}

bool is_numeric(char32_t code) {
  const utf8proc_category_t c = category(code);
  return c == UTF8PROC_CATEGORY_ND || c == UTF8PROC_CATEGORY_NL || c == UTF8PROC_CATEGORY_NO;
}

bool is_alnum(char32_t code) { return is_alpha(code) || is_numeric(code); }

bool is_upper(char32_t code) {
  if (code < 0x80) return code >= 'A' && code <= 'Z';
  return category(code) == UTF8PROC_CATEGORY_LU || (code >= 0x2160 && code <= 0x216F) ||
         (code >= 0x24B6 && code <= 0x24CF);
}

bool is_lower(char32_t code) {
  if (code < 0x80) return code >= 'a' && code <= 'z';
  return category(code) == UTF8PROC_CATEGORY_LL || code == 0xAA || code == 0xBA ||
         (code >= 0x2170 && code <= 0x217F) || (code >= 0x24D0 && code <= 0x24E9);
}

bool is_title(char32_t code) { return category(code) == UTF8PROC_CATEGORY_LT; }

bool is_printable(char32_t code) {
  if (code < 0x7F) return code >= 0x20;
  switch (category(code)) {
    case UTF8PROC_CATEGORY_CC: case UTF8PROC_CATEGORY_CF: case UTF8PROC_CATEGORY_CS: case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN: case UTF8PROC_CATEGORY_ZL: case UTF8PROC_CATEGORY_ZP: case UTF8PROC_CATEGORY_ZS:
      return false;
    default: return true;
  }
}

bool is_word(char32_t code) {
  if (code < 0x80)
    return (code >= 'a' && code <= 'z') || (code >= 'A' && code <= 'Z') || (code >= '0' && code <= '9') || code == '_';
  return is_alnum(code);
}

int decimal_value(char32_t code) {
  if (code < 0x80) return static_cast<int>(code - '0');
  if (code >= 0x1D7CE && code <= 0x1D7FF) return static_cast<int>((code - 0x1D7CE) % 10);  // five runs, adjacent
  // Elsewhere decimal digits come in separate runs of ten that start at a zero.
  char32_t zero = code;
  while (code - zero < 9 && is_decimal(zero - 1)) --zero;
  return static_cast<int>(code - zero);
}

Text to_upper(const Text& text) {
  return map_characters(text, [](std::string* out, std::string_view, size_t, char32_t code, size_t) {
    append_upper(out, code);
  });
}

Text to_lower(const Text& text) { return map_characters(text, append_lower); }

Text to_capitalized(const Text& text) {
  return map_characters(
      text, [](std::string* out, std::string_view bytes, size_t offset, char32_t code, size_t length) {
        if (offset == 0)
          append_title(out, code);
        else
          append_lower(out, bytes, offset, code, length);
      });
}

Text to_title(const Text& text) {
  bool after_cased = false;
  return map_characters(
      text, [&](std::string* out, std::string_view bytes, size_t offset, char32_t code, size_t length) {
        if (after_cased)
          append_lower(out, bytes, offset, code, length);
        else
          append_title(out, code);
        after_cased = is_cased(code);
      });
}

Text to_swapped(const Text& text) {
  return map_characters(
      text, [](std::string* out, std::string_view bytes, size_t offset, char32_t code, size_t length) {
        if (is_upper(code))
          append_lower(out, bytes, offset, code, length);
        else if (is_lower(code))
          append_upper(out, code);
        else
          append_utf8(*out, code);
      });
}

}  // namespace slipstream::jinja
