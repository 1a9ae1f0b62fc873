// The filters on sequences and mappings. What jinja2 makes a generator is one here too, though its items are computed
// at once. Must never know syntax.
#include <algorithm>

#include "engine/text/template_builtins.h"
#include "engine/text/template_evaluator.h"
#include "engine/text/template_filters.h"
#include "engine/text/template_format.h"
#include "engine/text/template_unicode.h"

namespace slipstream::jinja {

namespace {

Value fold_case(const Value& value) {
  return value.is(Kind::kString) ? Value::string(to_lower(value.text()), value.flag) : value;
}

// "address.city" or 0: the path of items from an element to a key.
class Path {
 public:
  explicit Path(const Value* attribute) {
    if (attribute == nullptr || attribute->is(Kind::kNone)) return;
    if (!attribute->is(Kind::kString)) {
      parts_.push_back(*attribute);
      return;
    }
    add(attribute->text().bytes());
  }
  explicit Path(std::string_view dotted) { add(dotted); }

  Value follow(Evaluator& evaluator, Value item, const Value* fallback = nullptr) const {
    for (const Value& part : parts_) {
      item = evaluator.get_item(item, part);
      if (fallback != nullptr && !fallback->is(Kind::kNone) && item.is(Kind::kUndefined)) item = *fallback;
    }
    return item;
  }

 private:
  void add(std::string_view dotted) {
    for (size_t from = 0;;) {
      const size_t dot = dotted.find('.', from);
      const std::string_view part = dotted.substr(from, dot == std::string_view::npos ? dot : dot - from);
      Integer index = 0;
      const bool number = !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
      if (number && parse_integer(part, 10, &index))
        parts_.push_back(Value::of_integer(index));
      else
        parts_.push_back(Value::literal(part));
      if (dot == std::string_view::npos) return;
      from = dot + 1;
    }
  }

  std::vector<Value> parts_;
};

struct Keyed {
  std::vector<Value> key;
  Value item;
};

void sort_keyed(std::vector<Keyed>* rows, bool reverse, Meter& meter) {
  const auto before = [&](const Keyed& a, const Keyed& b) {
    for (size_t i = 0; i < a.key.size(); ++i)
      if (!equal(a.key[i], b.key[i], meter)) return less(a.key[i], b.key[i], meter);
    return false;
  };
  std::stable_sort(rows->begin(), rows->end(),
                   [&](const Keyed& a, const Keyed& b) { return reverse ? before(b, a) : before(a, b); });
}

Value extreme(Evaluator& evaluator, const Value& input, const Arguments& arguments, bool largest) {
  const Bound bound(largest ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const Path path(bound.get(1));
  const bool fold = !bound.truth(0, false);
  const std::vector<Value> items = collect(input, evaluator.meter());
  if (items.empty()) return Value::undefined("No aggregated item, sequence was empty.");
  const auto key_of = [&](const Value& item) {
    const Value key = path.follow(evaluator, item);
    return fold ? fold_case(key) : key;
  };
  size_t best = 0;
  Value best_key = key_of(items[0]);
  for (size_t i = 1; i < items.size(); ++i) {
    Value key = key_of(items[i]);
    if (largest ? !less(best_key, key, evaluator.meter(), "<") : !less(key, best_key, evaluator.meter())) continue;
    best = i;
    best_key = std::move(key);
  }
  return items[best];
}

// select, reject and their attribute forms: the first argument names an attribute, the next a test.
Value choose(Evaluator& evaluator, const Value& input, const Arguments& arguments, bool keep, bool by_attribute) {
  if (!is_truthy(input)) return Value::iterator({}, evaluator.meter());
  size_t used = 0;
  Path path{static_cast<const Value*>(nullptr)};
  if (by_attribute) {
    if (arguments.positional.empty()) fail("Missing parameter for attribute name");
    path = Path(&arguments.positional[used++]);
  }
  std::string test;
  Arguments rest;
  if (used < arguments.positional.size()) {
    const Value& name = arguments.positional[used++];
    if (!name.is(Kind::kString)) fail("the name of a test must be a string");
    test = name.text().bytes();
    rest.positional.assign(arguments.positional.begin() + static_cast<ptrdiff_t>(used), arguments.positional.end());
    rest.named = arguments.named;
  }
  std::vector<Value> chosen;
  for (const Value& item : collect(input, evaluator.meter())) {
    const Value subject = path.follow(evaluator, item);
    const bool passes = test.empty() ? is_truthy(subject) : evaluator.test(test, subject, rest);
    if (passes == keep) chosen.push_back(item);
  }
  return Value::iterator(std::move(chosen), evaluator.meter());
}

Value list_pieces(std::vector<std::vector<Value>> pieces, Meter& meter) {
  std::vector<Value> lists;
  for (auto& piece : pieces) lists.push_back(Value::list(std::move(piece), meter));
  return Value::iterator(std::move(lists), meter);
}

}  // namespace

Value filter_attr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("attr", arguments, {"name"}, 1);
  const std::string& name = bound.text(0).bytes();
  const bool item_only = input.is(Kind::kDict) && find_attribute(input, name) == Attribute::kNone;
  if (item_only || input.is(Kind::kUndefined))
    return Value::undefined("'" + type_name(input) + " object' has no attribute '" + name + "'");
  return evaluator.get_attribute(input, name);
}

Value filter_batch(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const int64_t count = bound.integer(0, 0);
  std::vector<std::vector<Value>> pieces;
  std::vector<Value> current;
  for (const Value& item : collect(input, evaluator.meter())) {
    if (static_cast<int64_t>(current.size()) == count) {
      pieces.push_back(std::move(current));
      current.clear();
    }
    current.push_back(item);
  }
  if (!current.empty()) {
    if (bound.has(1) && !bound.get(1)->is(Kind::kNone))
      while (static_cast<int64_t>(current.size()) < count) {
        evaluator.meter().spend(1);
        current.push_back(*bound.get(1));
      }
    pieces.push_back(std::move(current));
  }
  return list_pieces(std::move(pieces), evaluator.meter());
}

Value filter_slice(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("slice", arguments, {"slices", "fill_with"}, 1);
  const std::vector<Value> items = collect(input, evaluator.meter());
  const int64_t slices = bound.integer(0, 0);
  if (slices == 0) fail("integer division or modulo by zero");
  const auto size = static_cast<int64_t>(items.size());
  std::vector<std::vector<Value>> pieces;
  int64_t from = 0;
  for (int64_t i = 0; i < slices; ++i) {
    evaluator.meter().spend(1);
    const bool extra = i < size % slices;
    const int64_t to = from + size / slices + (extra ? 1 : 0);
    std::vector<Value> piece(items.begin() + from, items.begin() + to);
    if (bound.has(1) && !bound.get(1)->is(Kind::kNone) && !extra) piece.push_back(*bound.get(1));
    pieces.push_back(std::move(piece));
    from = to;
  }
  return list_pieces(std::move(pieces), evaluator.meter());
}

Value filter_dictsort(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  Meter& meter = evaluator.meter();
  const std::string by = bound.has(1) ? bound.text(1).bytes() : "key";
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (input.is(Kind::kUndefined)) fail_undefined(input);
  if (!input.is(Kind::kDict)) fail("'" + type_name(input) + "' object has no attribute 'items'");
  const bool fold = !bound.truth(0, false);
  std::vector<Keyed> rows;
  for (const auto& [key, value] : input.entries().entries) {
    const Value& chosen = by == "key" ? key : value;
    rows.push_back({{fold ? fold_case(chosen) : chosen}, Value::tuple({key, value}, meter)});
  }
  sort_keyed(&rows, bound.truth(2, false), meter);
  std::vector<Value> items;
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return Value::list(std::move(items), meter);
}

Value filter_first(Evaluator&, const Value& input, const Arguments& arguments) {
  const Bound bound("first", arguments, {});
  Cursor cursor(input);
  Value item;
  return cursor.next(&item) ? item : Value::undefined("No first item, sequence was empty.");
}

Value filter_last(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("last", arguments, {});
  if (input.is(Kind::kIterator)) fail_type("'generator' object is not reversible");
  const std::vector<Value> items = collect(input, evaluator.meter());
  return items.empty() ? Value::undefined("No last item, sequence was empty.") : items.back();
}

Value filter_length(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("length", arguments, {});
  if (input.is(Kind::kString)) evaluator.meter().spend_bytes(input.text().size());
  if (input.is(Kind::kLoop)) return evaluator.get_attribute(input, "length");
  const auto length = length_of(input);
  if (!length) fail_type("object of type '" + type_name(input) + "' has no len()");
  return Value::of_integer(*length);
}

Value filter_list(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("list", arguments, {});
  return Value::list(collect(input, evaluator.meter()), evaluator.meter());
}

Value filter_items(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("items", arguments, {});
  if (input.is(Kind::kUndefined)) return Value::iterator({}, evaluator.meter());
  if (!input.is(Kind::kDict)) fail_type("Can only get item pairs from a mapping.");
  return Value::iterator(collect(Value::view(input, ViewKind::kItems), evaluator.meter()), evaluator.meter());
}

Value filter_join(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("join", arguments, {"d", "attribute"});
  Meter& meter = evaluator.meter();
  const Text separator = bound.has(0) ? to_str(*bound.get(0), meter) : Text();
  const Path path(bound.get(1));
  TextBuilder builder;
  bool first = true;
  for (const Value& item : collect(input, meter)) {
    if (!first) builder.append(separator);
    first = false;
    builder.append(to_str(path.follow(evaluator, item), meter));
    meter.check_size(builder.size());
  }
  meter.spend_bytes(builder.size());
  return Value::string(builder.take());
}

Value filter_map(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  Meter& meter = evaluator.meter();
  if (!is_truthy(input)) return Value::iterator({}, meter);
  std::vector<Value> mapped;
  if (arguments.positional.empty() && arguments.find("attribute") != nullptr) {
    const Bound bound("map", arguments, {"attribute", "default"});
    const Path path(bound.get(0));
    for (const Value& item : collect(input, meter)) mapped.push_back(path.follow(evaluator, item, bound.get(1)));
    return Value::iterator(std::move(mapped), meter);
  }
  if (arguments.positional.empty()) fail("map requires a filter argument");
  if (!arguments.positional[0].is(Kind::kString)) fail("the name of a filter must be a string");
  const std::string& name = arguments.positional[0].text().bytes();
  Arguments rest;
  rest.positional.assign(arguments.positional.begin() + 1, arguments.positional.end());
  rest.named = arguments.named;
  for (const Value& item : collect(input, meter)) mapped.push_back(evaluator.filter(name, item, rest));
  return Value::iterator(std::move(mapped), meter);
}

Value filter_max(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return extreme(evaluator, input, arguments, true);
}

Value filter_min(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return extreme(evaluator, input, arguments, false);
}

Value filter_select(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, true, false);
}

Value filter_reject(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, false, false);
}

Value filter_selectattr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, true, true);
}

Value filter_rejectattr(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  return choose(evaluator, input, arguments, false, true);
}

Value filter_reverse(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("reverse", arguments, {});
  Meter& meter = evaluator.meter();
  if (input.is(Kind::kString)) {
    const Value back = Value::of_integer(-1);
    return apply_slice(input, nullptr, nullptr, &back, meter);
  }
  if (!is_iterable(input)) fail("argument must be iterable");
  std::vector<Value> items = collect(input, meter);
  std::reverse(items.begin(), items.end());
  return input.is(Kind::kIterator) ? Value::list(std::move(items), meter) : Value::iterator(std::move(items), meter);
}

Value filter_sort(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  Meter& meter = evaluator.meter();
  std::vector<Path> paths;
  if (bound.has(2) && bound.get(2)->is(Kind::kString)) {
    const std::string_view names = bound.text(2).bytes();
    for (size_t from = 0;;) {
      const size_t comma = names.find(',', from);
      paths.emplace_back(names.substr(from, comma == std::string_view::npos ? comma : comma - from));
      if (comma == std::string_view::npos) break;
      from = comma + 1;
    }
  } else {
    paths.emplace_back(bound.get(2));
  }
  const bool fold = !bound.truth(1, false);
  std::vector<Keyed> rows;
  for (Value& item : collect(input, meter)) {
    Keyed row;
    for (const Path& path : paths) {
      const Value key = path.follow(evaluator, item);
      row.key.push_back(fold ? fold_case(key) : key);
    }
    row.item = std::move(item);
    rows.push_back(std::move(row));
  }
  sort_keyed(&rows, bound.truth(0, false), meter);
  std::vector<Value> items;
  for (Keyed& row : rows) items.push_back(std::move(row.item));
  return Value::list(std::move(items), meter);
}

Value filter_groupby(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  Meter& meter = evaluator.meter();
  const Path path(bound.get(0));
  const bool fold = !bound.truth(2, false);
  std::vector<Keyed> rows;
  for (Value& item : collect(input, meter)) {
    const Value key = path.follow(evaluator, item, bound.get(1));
    rows.push_back({{fold ? fold_case(key) : key}, std::move(item)});
  }
  sort_keyed(&rows, false, meter);
  std::vector<Value> groups;
  for (size_t from = 0; from < rows.size();) {
    size_t to = from + 1;
    while (to < rows.size() && equal(rows[from].key[0], rows[to].key[0], meter)) ++to;
    std::vector<Value> members;
    for (size_t i = from; i < to; ++i) members.push_back(rows[i].item);
    const Value grouper = fold ? path.follow(evaluator, members[0], bound.get(1)) : rows[from].key[0];
    Value group = Value::tuple({grouper, Value::list(std::move(members), meter)}, meter);
    object_as<ListObject>(group).group = true;
    groups.push_back(std::move(group));
    from = to;
  }
  return Value::list(std::move(groups), meter);
}

Value filter_sum(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("sum", arguments, {"attribute", "start"});
  Meter& meter = evaluator.meter();
  const Path path(bound.get(0));
  Value total = bound.has(1) ? *bound.get(1) : Value::of_integer(0);
  if (total.is(Kind::kString)) fail_type("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& item : collect(input, meter))
    total = apply_binary(Op::kAdd, total, path.follow(evaluator, item), meter);
  return total;
}

Value filter_unique(Evaluator& evaluator, const Value& input, const Arguments& arguments) {
  const Bound bound("unique", arguments, {"case_sensitive", "attribute"});
  Meter& meter = evaluator.meter();
  const Path path(bound.get(1));
  const bool fold = !bound.truth(0, false);
  DictObject seen;
  std::vector<Value> items;
  for (const Value& item : collect(input, meter)) {
    Value key = path.follow(evaluator, item);
    if (fold) key = fold_case(key);
    if (!is_hashable(key)) fail_type("unhashable type: '" + type_name(key) + "'");
    if (!key.is(Kind::kString)) meter.spend(static_cast<int64_t>(seen.entries.size() / 16));
    if (seen.find(key) != nullptr) continue;
    seen.set(std::move(key), Value::boolean(true), meter);
    items.push_back(item);
  }
  return Value::iterator(std::move(items), meter);
}

}  // namespace slipstream::jinja
