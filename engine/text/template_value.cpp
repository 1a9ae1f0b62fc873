// Construction, equality, order and membership of values. Must never know syntax.
#include "engine/text/template_value.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "kernels/check.h"

namespace slipstream::jinja {

namespace {

constexpr size_t kIndexFrom = 8;  // entries from which a dict keeps a hash index

// Takes the items into a container and sets its depth.
template <typename Container>
std::shared_ptr<Container> contain(std::vector<Value> items, const Meter& meter) {
  auto object = std::make_shared<Container>();
  int deepest = 0;
  for (const Value& item : items) deepest = std::max(deepest, depth_of(item));
  object->depth = deepest + 1;
  check_depth(object->depth, meter);
  object->items = std::move(items);
  return object;
}

Value make_sequence(Kind kind, std::vector<Value> items, const Meter& meter) {
  auto object = contain<ListObject>(std::move(items), meter);
  Value value;
  value.kind = kind;
  value.object = std::move(object);
  return value;
}

bool equal_numbers(const Value& a, const Value& b) {
  if (a.is_integral() && b.is_integral()) return a.as_integer() == b.as_integer();
  return a.as_real() == b.as_real();
}

bool equal_dicts(const DictObject& a, const DictObject& b, Meter& meter) {
  if (a.entries.size() != b.entries.size()) return false;
  for (const auto& [key, value] : a.entries) {
    const Value* other = b.find(key);
    if (other == nullptr || !equal(value, *other, meter)) return false;
  }
  return true;
}

// Hash and equality of keys need no budget: keys are scalars or short tuples.
bool same_key(const Value& a, const Value& b) {
  if (a.is(Kind::kString) || b.is(Kind::kString))
    return a.kind == b.kind && a.text().bytes() == b.text().bytes();
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind != b.kind) return false;
  if (a.is(Kind::kTuple)) {
    if (a.items().size() != b.items().size()) return false;
    for (size_t i = 0; i < a.items().size(); ++i)
      if (!same_key(a.items()[i], b.items()[i])) return false;
    return true;
  }
  return a.is(Kind::kNone) || a.is(Kind::kUndefined) || a.object == b.object;
}

}  // namespace

void fail(std::string message) { throw Failure{Failure::What::kError, std::move(message), 0}; }
void fail_type(std::string message) { fail(std::move(message)); }
void fail_unsupported(std::string message) { throw Failure{Failure::What::kUnsupported, std::move(message), 0}; }

void fail_undefined(const Value& undefined) {
  fail(undefined.object ? object_as<UndefinedObject>(undefined).message : std::string("a value is undefined"));
}

void check_depth(int depth, const Meter& meter) {
  if (depth > meter.max_depth())
    throw Failure{Failure::What::kLimit,
                  "a value is nested deeper than " + std::to_string(meter.max_depth()) + " levels", 0};
}

void Meter::spend(int64_t steps) {
  steps_ -= steps;
  if (steps_ < 0)
    throw Failure{Failure::What::kLimit,
                  "the chat template takes more than " + std::to_string(steps_limit_) + " steps on this request", 0};
}

void Meter::check_size(uint64_t bytes) const {
  if (bytes > static_cast<uint64_t>(output_bytes_))
    throw Failure{Failure::What::kLimit,
                  "the chat template makes a text of " + std::to_string(bytes) + " bytes; the limit is " +
                      std::to_string(output_bytes_),
                  0};
}

Value Value::none() {
  Value value;
  value.kind = Kind::kNone;
  return value;
}

Value Value::boolean(bool truth) {
  Value value;
  value.kind = Kind::kBool;
  value.flag = truth;
  return value;
}

Value Value::of_integer(Integer number) {
  Value value;
  value.kind = Kind::kInt;
  value.integer = number;
  return value;
}

Value Value::of_real(double number) {
  Value value;
  value.kind = Kind::kFloat;
  value.real = number;
  return value;
}

Value Value::string(Text text, bool markup) {
  auto object = std::make_shared<TextObject>();
  object->text = std::move(text);
  Value value;
  value.kind = Kind::kString;
  value.flag = markup;
  value.object = std::move(object);
  return value;
}

Value Value::undefined(std::string message) {
  auto object = std::make_shared<UndefinedObject>();
  object->message = std::move(message);
  Value value;
  value.object = std::move(object);
  return value;
}

Value Value::list(std::vector<Value> items, const Meter& meter) {
  return make_sequence(Kind::kList, std::move(items), meter);
}

Value Value::tuple(std::vector<Value> items, const Meter& meter) {
  return make_sequence(Kind::kTuple, std::move(items), meter);
}

Value Value::dict(std::shared_ptr<DictObject> entries) {
  Value value;
  value.kind = Kind::kDict;
  value.object = std::move(entries);
  return value;
}

Value Value::iterator(std::vector<Value> items, const Meter& meter) {
  Value value;
  value.kind = Kind::kIterator;
  value.object = contain<IteratorObject>(std::move(items), meter);
  return value;
}

Value Value::view(const Value& dict, ViewKind what) {
  auto object = std::make_shared<ViewObject>();
  object->dict = dict;
  object->what = what;
  object->depth = depth_of(dict) + 1;
  Value value;
  value.kind = Kind::kView;
  value.object = std::move(object);
  return value;
}

Value Value::method(const Value& self, std::string_view name) {
  auto object = std::make_shared<MethodObject>();
  object->self = self;
  object->name = name;
  object->depth = depth_of(self) + 1;
  Value value;
  value.kind = Kind::kMethod;
  value.object = std::move(object);
  return value;
}

const Text& Value::text() const { return object_as<TextObject>(*this).text; }
const std::vector<Value>& Value::items() const { return object_as<ListObject>(*this).items; }
const ListObject& Value::sequence() const { return object_as<ListObject>(*this); }
const DictObject& Value::entries() const { return object_as<DictObject>(*this); }

void DictObject::set(Value key, Value value, const Meter& meter) {
  if (!is_hashable(key)) fail_type("unhashable type: '" + type_name(key) + "'");
  depth = std::max({depth, depth_of(value) + 1, depth_of(key) + 1});
  check_depth(depth, meter);
  if (const Value* present = find(key)) {
    const_cast<Value&>(*present) = std::move(value);
    return;
  }
  if (!index_.empty() || entries.size() + 1 >= kIndexFrom) {
    if (index_.empty())
      for (size_t i = 0; i < entries.size(); ++i)
        if (entries[i].first.is(Kind::kString)) index_.emplace(entries[i].first.text().bytes(), i);
    if (key.is(Kind::kString)) index_.emplace(key.text().bytes(), entries.size());
  }
  entries.emplace_back(std::move(key), std::move(value));
}

const Value* DictObject::find(const Value& key) const {
  if (key.is(Kind::kString)) return find(std::string_view(key.text().bytes()));
  for (const auto& [present, value] : entries)
    if (same_key(present, key)) return &value;
  return nullptr;
}

const Value* DictObject::find(std::string_view key) const {
  if (!index_.empty()) {
    const auto found = index_.find(std::string(key));
    return found == index_.end() ? nullptr : &entries[found->second].second;
  }
  for (const auto& [present, value] : entries)
    if (present.is(Kind::kString) && present.text().bytes() == key) return &value;
  return nullptr;
}

Integer RangeObject::size() const {
  if (step > 0) return start < stop ? (stop - start - 1) / step + 1 : 0;
  return start > stop ? (start - stop - 1) / -step + 1 : 0;
}

const Value* NamespaceObject::find(std::string_view name) const {
  for (const auto& [present, value] : attributes)
    if (present == name) return &value;
  return nullptr;
}

void NamespaceObject::set(std::string_view name, Value value) {
  for (auto& [present, old] : attributes)
    if (present == name) {
      old = std::move(value);
      return;
    }
  attributes.emplace_back(std::string(name), std::move(value));
}

bool equal(const Value& a, const Value& b, Meter& meter) {
  meter.spend(1);
  if (a.is_number() && b.is_number()) return equal_numbers(a, b);
  if (a.kind != b.kind) return false;
  switch (a.kind) {
    case Kind::kUndefined:
    case Kind::kNone: return true;
    case Kind::kString:
      meter.spend_bytes(std::min(a.text().size(), b.text().size()));
      return a.text().bytes() == b.text().bytes();
    case Kind::kList:
    case Kind::kTuple: {
      if (a.items().size() != b.items().size()) return false;
      for (size_t i = 0; i < a.items().size(); ++i)
        if (!equal(a.items()[i], b.items()[i], meter)) return false;
      return true;
    }
    case Kind::kDict: return equal_dicts(a.entries(), b.entries(), meter);
    case Kind::kRange: {
      const auto& x = object_as<RangeObject>(a);
      const auto& y = object_as<RangeObject>(b);
      return x.size() == y.size() &&
             (x.size() == 0 || (x.start == y.start && (x.size() == 1 || x.step == y.step)));
    }
    default: return a.object == b.object;
  }
}

bool less(const Value& a, const Value& b, Meter& meter, const char* symbol) {
  meter.spend(1);
  if (a.is(Kind::kUndefined)) fail_undefined(a);
  if (b.is(Kind::kUndefined)) fail_undefined(b);
  if (a.is_integral() && b.is_integral()) return a.as_integer() < b.as_integer();
  if (a.is_number() && b.is_number()) return a.as_real() < b.as_real();
  if (a.is(Kind::kString) && b.is(Kind::kString)) {
    meter.spend_bytes(std::min(a.text().size(), b.text().size()));
    return a.text().bytes() < b.text().bytes();  // UTF-8 keeps the order of code points
  }
  if (a.is_sequence() && a.kind == b.kind) {
    const size_t common = std::min(a.items().size(), b.items().size());
    for (size_t i = 0; i < common; ++i)
      if (!equal(a.items()[i], b.items()[i], meter)) return less(a.items()[i], b.items()[i], meter, symbol);
    return a.items().size() < b.items().size();
  }
  fail_type(std::string("'") + symbol + "' not supported between instances of '" + type_name(a) + "' and '" +
            type_name(b) + "'");
}

bool contains(const Value& haystack, const Value& needle, Meter& meter) {
  meter.spend(1);
  switch (haystack.kind) {
    case Kind::kString:
      if (!needle.is(Kind::kString))
        fail_type("'in <string>' requires string as left operand, not " + type_name(needle));
      meter.spend_bytes(haystack.text().size());
      return haystack.text().bytes().find(needle.text().bytes()) != std::string::npos;
    case Kind::kDict:
      if (!is_hashable(needle)) fail_type("unhashable type: '" + type_name(needle) + "'");
      return haystack.entries().find(needle) != nullptr;
    case Kind::kRange:
      if (needle.is_integral()) {
        const auto& range = object_as<RangeObject>(haystack);
        if (needle.as_integer() > INT64_MAX || needle.as_integer() < INT64_MIN) return false;
        const Integer offset = needle.as_integer() - range.start;
        return offset % range.step == 0 && offset / range.step >= 0 && offset / range.step < range.size();
      }
      break;
    default: break;
  }
  if (!is_iterable(haystack)) fail_type("argument of type '" + type_name(haystack) + "' is not iterable");
  Cursor cursor(haystack);
  Value item;
  while (cursor.next(&item))
    if (equal(item, needle, meter)) return true;
  return false;
}

Value from_json(const nlohmann::ordered_json& json, bool user, const Meter& meter, int depth) {
  check_depth(depth, meter);
  switch (json.type()) {
    case nlohmann::json::value_t::boolean: return Value::boolean(json.get<bool>());
    case nlohmann::json::value_t::number_integer: return Value::of_integer(json.get<int64_t>());
    case nlohmann::json::value_t::number_unsigned: return Value::of_integer(json.get<uint64_t>());
    case nlohmann::json::value_t::number_float: return Value::of_real(json.get<double>());
    case nlohmann::json::value_t::string: {
      const auto& bytes = json.get_ref<const std::string&>();
      if (const size_t at = first_invalid_utf8(bytes); at != std::string::npos)
        fail("a string of the request is not valid UTF-8 at byte " + std::to_string(at));
      return Value::string(Text(bytes, user));
    }
    case nlohmann::json::value_t::array: {
      std::vector<Value> items;
      items.reserve(json.size());
      for (const auto& item : json) items.push_back(from_json(item, user, meter, depth + 1));
      return Value::list(std::move(items), meter);
    }
    case nlohmann::json::value_t::object: {
      auto dict = std::make_shared<DictObject>();
      for (const auto& [key, value] : json.items()) {
        if (const size_t at = first_invalid_utf8(key); at != std::string::npos)
          fail("a key of the request is not valid UTF-8 at byte " + std::to_string(at));
        dict->set(Value::string(Text(key, user)), from_json(value, user, meter, depth + 1), meter);
      }
      return Value::dict(std::move(dict));
    }
    default: return Value::none();
  }
}

}  // namespace slipstream::jinja
