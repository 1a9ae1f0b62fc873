// The methods of str. Pieces of the text keep their provenance. Must never know syntax.
#include <algorithm>

#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_format.h"
#include "engine/text/template_unicode.h"

namespace slipstream::jinja {

namespace {

struct Call {
  Evaluator& evaluator;
  const Value& self;
  const std::string& name;
  const Arguments& arguments;

  const Text& text() const { return self.text(); }
  Meter& meter() const { return evaluator.meter(); }
  Value make(Text result) const { return Value::string(std::move(result), self.flag); }
};

std::string_view view(const Text& text) { return text.bytes(); }

Value list_of(const Call& call, std::vector<Text> pieces) {
  std::vector<Value> items;
  items.reserve(pieces.size());
  for (Text& piece : pieces) items.push_back(call.make(std::move(piece)));
  call.meter().spend(static_cast<int64_t>(items.size()));
  return Value::list(std::move(items), call.meter());
}

std::vector<Text> split_at(const Text& text, std::string_view separator, int64_t most) {
  std::vector<Text> pieces;
  size_t from = 0;
  while (most < 0 || static_cast<int64_t>(pieces.size()) < most) {
    const size_t at = view(text).find(separator, from);
    if (at == std::string_view::npos) break;
    pieces.push_back(text.slice(from, at));
    from = at + separator.size();
  }
  pieces.push_back(text.slice(from, text.size()));
  return pieces;
}

std::vector<Text> split_at_from_right(const Text& text, std::string_view separator, int64_t most) {
  std::vector<Text> pieces;
  size_t to = text.size();
  while (most < 0 || static_cast<int64_t>(pieces.size()) < most) {
    if (to < separator.size()) break;
    const size_t at = view(text).rfind(separator, to - separator.size());
    if (at == std::string_view::npos) break;
    pieces.push_back(text.slice(at + separator.size(), to));
    to = at;
  }
  pieces.push_back(text.slice(0, to));
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

// Bytes [first, second) of each word.
std::vector<std::pair<size_t, size_t>> words_of(std::string_view bytes) {
  std::vector<std::pair<size_t, size_t>> words;
  size_t start = std::string_view::npos;
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    if (is_space(decode_utf8(bytes, at, &length))) {
      if (start != std::string_view::npos) words.emplace_back(start, at);
      start = std::string_view::npos;
    } else if (start == std::string_view::npos) {
      start = at;
    }
    at += length;
  }
  if (start != std::string_view::npos) words.emplace_back(start, bytes.size());
  return words;
}

std::vector<Text> split_words(const Text& text, int64_t most, bool from_right) {
  const auto words = words_of(view(text));
  const size_t count = words.size();
  std::vector<Text> pieces;
  if (most < 0 || static_cast<size_t>(most) >= count) {
    for (const auto& [from, to] : words) pieces.push_back(text.slice(from, to));
    return pieces;
  }
  const auto keep = static_cast<size_t>(most);
  if (from_right) {
    pieces.push_back(text.slice(0, words[count - keep - 1].second));
    if (pieces.back().empty()) pieces.pop_back();
    for (size_t i = count - keep; i < count; ++i) pieces.push_back(text.slice(words[i].first, words[i].second));
  } else {
    for (size_t i = 0; i < keep; ++i) pieces.push_back(text.slice(words[i].first, words[i].second));
    pieces.push_back(text.slice(words[keep].first, text.size()));
  }
  return pieces;
}

Value split(const Call& call) {
  const Bound bound(call.name, call.arguments, {"sep", "maxsplit"});
  const bool right = call.name == "rsplit";
  const int64_t most = bound.integer(1, -1);
  call.meter().spend_bytes(call.text().size());
  if (!bound.has(0) || bound.get(0)->is(Kind::kNone)) return list_of(call, split_words(call.text(), most, right));
  const std::string& separator = bound.text(0).bytes();
  if (separator.empty()) fail("empty separator");
  return list_of(call, right ? split_at_from_right(call.text(), separator, most)
                             : split_at(call.text(), separator, most));
}

Value partition(const Call& call) {
  const Bound bound(call.name, call.arguments, {"sep"}, 1);
  const std::string& separator = bound.text(0).bytes();
  if (separator.empty()) fail("empty separator");
  const Text& text = call.text();
  call.meter().spend_bytes(text.size());
  const bool right = call.name == "rpartition";
  const size_t at = right ? view(text).rfind(separator) : view(text).find(separator);
  std::vector<Value> parts;
  if (at == std::string_view::npos) {
    parts = {call.make(right ? Text() : text), call.make(Text()), call.make(right ? text : Text())};
  } else {
    parts = {call.make(text.slice(0, at)), call.make(text.slice(at, at + separator.size())),
             call.make(text.slice(at + separator.size(), text.size()))};
  }
  return Value::tuple(std::move(parts), call.meter());
}

Value strip(const Call& call) {
  const Bound bound(call.name, call.arguments, {"chars"});
  const bool given = bound.has(0) && !bound.get(0)->is(Kind::kNone);
  const Text* characters = given ? &bound.text(0) : nullptr;
  call.meter().spend_bytes(call.text().size());
  return call.make(strip_text(call.text(), characters, call.name != "rstrip", call.name != "lstrip"));
}

// The bytes between two optional code point bounds, as Python clamps them.
std::pair<size_t, size_t> window(const Text& text, const Bound& bound, size_t first) {
  const int64_t size = text.length();
  const auto clamp = [&](int64_t index) { return std::clamp<int64_t>(index < 0 ? index + size : index, 0, size); };
  const int64_t start = bound.integer(first, 0);
  const int64_t from = clamp(start);
  const int64_t to = clamp(bound.integer(first + 1, size));
  if (from > to || start > size) return {1, 0};
  return {text.offset_of(from), text.offset_of(to)};
}

Value starts_or_ends(const Call& call) {
  const Bound bound(call.name, call.arguments, {"prefix", "start", "end"}, 1);
  const auto [from, to] = window(call.text(), bound, 1);
  call.meter().spend_bytes(call.text().size());
  if (from > to) return Value::boolean(false);
  const std::string_view part = view(call.text()).substr(from, to - from);
  const auto matches = [&](const Value& affix) {
    if (!affix.is(Kind::kString))
      fail_type(call.name + " first arg must be str or a tuple of str, not " + type_name(affix));
    const std::string_view piece = view(affix.text());
    return call.name == "startswith" ? part.substr(0, piece.size()) == piece
                                     : part.size() >= piece.size() && part.substr(part.size() - piece.size()) == piece;
  };
  if (!bound.get(0)->is(Kind::kTuple)) return Value::boolean(matches(*bound.get(0)));
  for (const Value& affix : bound.get(0)->items())
    if (matches(affix)) return Value::boolean(true);
  return Value::boolean(false);
}

Value find(const Call& call) {
  const Bound bound(call.name, call.arguments, {"sub", "start", "end"}, 1);
  const std::string_view piece = view(bound.text(0));
  const auto [from, to] = window(call.text(), bound, 1);
  call.meter().spend_bytes(call.text().size());
  size_t at = std::string_view::npos;
  const std::string_view part = from <= to ? view(call.text()).substr(from, to - from) : std::string_view();
  if (from <= to) at = call.name[0] == 'r' ? part.rfind(piece) : part.find(piece);
  if (call.name == "count") {
    if (from > to) return Value::of_integer(0);
    if (piece.empty()) return Value::of_integer(Text(std::string(part), false).length() + 1);
    int64_t count = 0;
    for (; at != std::string_view::npos; at = part.find(piece, at + piece.size())) ++count;
    return Value::of_integer(count);
  }
  if (at == std::string_view::npos) {
    if (call.name == "index" || call.name == "rindex") fail("substring not found");
    return Value::of_integer(-1);
  }
  return Value::of_integer(Text(std::string(view(call.text()).substr(0, from + at)), false).length());
}

Value replace(const Call& call) {
  const Bound bound(call.name, call.arguments, {"old", "new", "count"}, 2);
  bound.text(0);
  bound.text(1);
  const Text old = call.self.flag ? escape_html(*bound.get(0), call.meter()) : bound.text(0);
  const Text fresh = call.self.flag ? escape_html(*bound.get(1), call.meter()) : bound.text(1);
  return call.make(replace_text(call.text(), old, fresh, bound.integer(2, -1), call.meter()));
}

Value join(const Call& call) {
  const Bound bound(call.name, call.arguments, {"iterable"}, 1);
  TextBuilder builder;
  bool first = true;
  size_t index = 0;
  for (const Value& item : collect(*bound.get(0), call.meter())) {
    if (!item.is(Kind::kString))
      fail_type("sequence item " + std::to_string(index) + ": expected str instance, " + type_name(item) + " found");
    if (!first) builder.append(call.text());
    first = false;
    ++index;
    builder.append(call.self.flag ? escape_html(item, call.meter()) : item.text());
    call.meter().check_size(builder.size());
  }
  call.meter().spend_bytes(builder.size());
  return call.make(builder.take());
}

Value justify(const Call& call) {
  const Bound bound(call.name, call.arguments, {"width", "fillchar"}, 1);
  const int64_t width = std::max<int64_t>(0, bound.integer(0, 0));
  const Text fill = bound.has(1) ? bound.text(1) : Text(" ", false);
  if (fill.length() != 1) fail_type("The fill character must be exactly one character long");
  const int64_t missing = std::max<int64_t>(0, width - call.text().length());
  call.meter().check_size(static_cast<uint64_t>(missing));
  call.meter().spend_bytes(static_cast<size_t>(missing));
  // CPython's rounding of an odd margin.
  const int64_t left = call.name == "ljust"   ? 0
                       : call.name == "rjust" ? missing
                                              : missing / 2 + (missing & width & 1);
  TextBuilder builder;
  for (int64_t i = 0; i < left; ++i) builder.append(fill);
  builder.append(call.text());
  for (int64_t i = left; i < missing; ++i) builder.append(fill);
  return call.make(builder.take());
}

Value zfill(const Call& call) {
  const Bound bound(call.name, call.arguments, {"width"}, 1);
  const int64_t missing = std::max<int64_t>(0, std::max<int64_t>(0, bound.integer(0, 0)) - call.text().length());
  call.meter().check_size(static_cast<uint64_t>(missing));
  const bool sign = !call.text().empty() && (view(call.text())[0] == '+' || view(call.text())[0] == '-');
  TextBuilder builder;
  builder.append(call.text(), 0, sign ? 1 : 0);
  builder.append(std::string(static_cast<size_t>(missing), '0'), false);
  builder.append(call.text(), sign ? 1 : 0, call.text().size());
  return call.make(builder.take());
}

Value remove_affix(const Call& call) {
  const Bound bound(call.name, call.arguments, {"affix"}, 1);
  const std::string_view affix = view(bound.text(0));
  const std::string_view bytes = view(call.text());
  if (affix.size() > bytes.size()) return call.self;
  if (call.name == "removeprefix")
    return bytes.substr(0, affix.size()) == affix ? call.make(call.text().slice(affix.size(), bytes.size())) : call.self;
  return bytes.substr(bytes.size() - affix.size()) == affix ? call.make(call.text().slice(0, bytes.size() - affix.size()))
                                                            : call.self;
}

Value expand_tabs(const Call& call) {
  const Bound bound(call.name, call.arguments, {"tabsize"});
  const int64_t size = bound.integer(0, 8);
  const std::string_view bytes = view(call.text());
  TextBuilder builder;
  int64_t column = 0;
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    decode_utf8(bytes, at, &length);
    if (bytes[at] == '\t') {
      const int64_t spaces = size > 0 ? size - column % size : 0;
      call.meter().check_size(builder.size() + static_cast<uint64_t>(spaces));
      builder.append(std::string(static_cast<size_t>(spaces), ' '), false);
      column += spaces;
    } else {
      builder.append(call.text(), at, at + length);
      column = bytes[at] == '\n' || bytes[at] == '\r' ? 0 : column + 1;
    }
    at += length;
  }
  call.meter().spend_bytes(builder.size());
  return call.make(builder.take());
}

template <typename Predicate>
bool all_of(std::string_view bytes, Predicate predicate, bool empty) {
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    if (!predicate(decode_utf8(bytes, at, &length))) return false;
    at += length;
  }
  return !bytes.empty() || empty;
}

// islower, isupper: some cased character, none of another case.
bool one_case(std::string_view bytes, bool upper) {
  bool cased = false;
  const bool clean = all_of(bytes, [&](char32_t code) {
    if (upper ? is_lower(code) || is_title(code) : is_upper(code) || is_title(code)) return false;
    cased |= upper ? is_upper(code) : is_lower(code);
    return true;
  }, true);
  return clean && cased;
}

bool title_case(std::string_view bytes) {
  bool cased = false;
  bool after_cased = false;
  const bool clean = all_of(bytes, [&](char32_t code) {
    if (is_upper(code) || is_title(code)) {
      if (after_cased) return false;
      after_cased = cased = true;
    } else if (is_lower(code)) {
      if (!after_cased) return false;
      cased = true;
    } else {
      after_cased = false;
    }
    return true;
  }, true);
  return clean && cased;
}

bool classify(std::string_view name, std::string_view bytes) {
  if (name == "islower") return one_case(bytes, false);
  if (name == "isupper") return one_case(bytes, true);
  if (name == "istitle") return title_case(bytes);
  if (name == "isspace") return all_of(bytes, is_space, false);
  if (name == "isalpha") return all_of(bytes, is_alpha, false);
  if (name == "isalnum") return all_of(bytes, is_alnum, false);
  if (name == "isdecimal") return all_of(bytes, is_decimal, false);
  if (name == "isdigit") return all_of(bytes, is_digit, false);
  if (name == "isnumeric") return all_of(bytes, is_numeric, false);
  if (name == "isprintable") return all_of(bytes, is_printable, true);
  if (name == "isascii") return all_of(bytes, [](char32_t code) { return code < 0x80; }, true);
  const bool digit_first = !bytes.empty() && bytes[0] >= '0' && bytes[0] <= '9';
  return !digit_first && all_of(bytes, is_word, false);  // isidentifier
}

Value format(const Call& call) {
  // Fields reach into values as far as the sandbox lets a template.
  const FieldLookup look_up_field = [&](const Value& value, const Value& name, bool is_attribute) {
    return is_attribute ? call.evaluator.get_attribute(value, name.text().bytes())
                        : call.evaluator.get_item(value, name);
  };
  if (call.name == "format") return format_braces(call.self, call.arguments, look_up_field, call.meter());
  const Bound bound(call.name, call.arguments, {"mapping"}, 1);
  if (!bound.get(0)->is(Kind::kDict)) fail_type("format_map() needs a mapping");
  Arguments arguments;
  for (const auto& [key, value] : bound.get(0)->entries().entries)
    if (key.is(Kind::kString)) arguments.named.emplace_back(key.text().bytes(), value);
  return format_braces(call.self, arguments, look_up_field, call.meter());
}

using Method = Value (*)(const Call&);
struct Row {
  std::string_view name;
  Method method;
};
constexpr Row kMethods[] = {
    {"split", split}, {"rsplit", split}, {"strip", strip}, {"lstrip", strip}, {"rstrip", strip},
    {"startswith", starts_or_ends}, {"endswith", starts_or_ends}, {"replace", replace}, {"join", join},
    {"find", find}, {"rfind", find}, {"index", find}, {"rindex", find}, {"count", find},
    {"partition", partition}, {"rpartition", partition}, {"format", format}, {"format_map", format},
    {"center", justify}, {"ljust", justify}, {"rjust", justify}, {"zfill", zfill}, {"expandtabs", expand_tabs},
    {"removeprefix", remove_affix}, {"removesuffix", remove_affix},
};

}  // namespace

Text strip_text(const Text& text, const Text* characters, bool left, bool right) {
  const std::string_view bytes = text.bytes();
  std::u32string set;
  if (characters != nullptr)
    for (size_t at = 0; at < characters->size();) {
      size_t length = 0;
      set.push_back(decode_utf8(characters->bytes(), at, &length));
      at += length;
    }
  const auto stripped = [&](char32_t code) {
    return characters == nullptr ? is_space(code) : set.find(code) != std::u32string::npos;
  };
  size_t from = 0;
  size_t to = bytes.size();
  size_t length = 0;
  while (left && from < to && stripped(decode_utf8(bytes, from, &length))) from += length;
  while (right && to > from) {
    size_t last = to - 1;
    while (last > from && (static_cast<unsigned char>(bytes[last]) & 0xC0) == 0x80) --last;
    if (!stripped(decode_utf8(bytes, last, &length))) break;
    to = last;
  }
  return text.slice(from, to);
}

Text replace_text(const Text& text, const Text& old, const Text& fresh, int64_t count, Meter& meter) {
  const std::string_view bytes = text.bytes();
  meter.spend_bytes(bytes.size());
  if (count < 0) count = -1;  // all of them
  TextBuilder builder;
  size_t from = 0;
  const auto put = [&] {
    builder.append(fresh);
    meter.check_size(builder.size());
    --count;
  };
  if (old.empty()) {
    while (count != 0) {  // before each character and at the end
      put();
      if (from >= bytes.size()) break;
      size_t length = 0;
      decode_utf8(bytes, from, &length);
      builder.append(text, from, from + length);
      from += length;
    }
  } else {
    while (count != 0) {
      const size_t at = bytes.find(old.bytes(), from);
      if (at == std::string_view::npos) break;
      builder.append(text, from, at);
      put();
      from = at + old.size();
    }
  }
  builder.append(text, from, bytes.size());
  meter.spend_bytes(builder.size());
  return builder.take();
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  const std::string_view bytes = text.bytes();
  std::vector<Text> lines;
  size_t start = 0;
  for (size_t at = 0; at < bytes.size();) {
    size_t length = 0;
    const char32_t code = decode_utf8(bytes, at, &length);
    const bool ends = (code >= 10 && code <= 13) || (code >= 0x1C && code <= 0x1E) || code == 0x85 || code == 0x2028 ||
                      code == 0x2029;
    size_t next = at + length;
    if (ends) {
      if (code == '\r' && next < bytes.size() && bytes[next] == '\n') ++next;
      lines.push_back(text.slice(start, keep_ends ? next : at));
      start = next;
    }
    at = next;
  }
  if (start < bytes.size()) lines.push_back(text.slice(start, bytes.size()));
  return lines;
}

Value call_string_method(Evaluator& evaluator, const Value& self, const std::string& name, const Arguments& arguments) {
  const Call call{evaluator, self, name, arguments};
  const bool takes_names =
      name == "split" || name == "rsplit" || name == "splitlines" || name == "expandtabs" || name == "format";
  if (!takes_names && !arguments.named.empty()) fail_type("str." + name + "() takes no keyword arguments");
  for (const Row& row : kMethods)
    if (row.name == name) return row.method(call);
  call.meter().spend_bytes(call.text().size());
  if (name == "splitlines") {
    const Bound bound(name, arguments, {"keepends"});
    return list_of(call, split_lines(call.text(), bound.truth(0, false)));
  }
  const Bound bound(name, arguments, {});
  if (name == "upper") return call.make(to_upper(call.text()));
  if (name == "lower") return call.make(to_lower(call.text()));
  if (name == "title") return call.make(to_title(call.text()));
  if (name == "capitalize") return call.make(to_capitalized(call.text()));
  if (name == "swapcase") return call.make(to_swapped(call.text()));
  if (name.substr(0, 2) == "is") return Value::boolean(classify(name, call.text().bytes()));
  fail_unsupported("the method str." + name + "() is not supported in chat templates");
}

}  // namespace slipstream::jinja
