// Values of the template language: Python's None, bool, int, float, str, list, tuple, dict and the few objects that
// templates meet. Owns representation, equality, order, truth and iteration; must never know syntax or scopes.
//
// Containers are immutable once built (as jinja2's immutable sandbox keeps them), so values are shared freely between
// threads. The exceptions live in one rendering only: iterators, namespaces, loops.
#pragma once

#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/text/template_text.h"

namespace slipstream::jinja {

/// Python's int, as far as templates need it; overflow of 128 bits is an error.
using Integer = __int128;

enum class Kind : uint8_t {
  kUndefined, kNone, kBool, kInt, kFloat, kString, kList, kTuple, kDict,
  kRange, kView, kIterator, kNamespace, kMacro, kMethod, kFunction, kLoop, kCycler, kJoiner,
};

/// What a template does wrong, or a limit that it hits. Thrown inside the interpreter, caught in chat_template.cpp.
struct Failure {
  enum class What { kError, kRaised, kLimit, kUnsupported };
  What what = What::kError;
  std::string message;
  int line = 0;  // 0: not known yet
};
[[noreturn]] void fail(std::string message);
[[noreturn]] void fail_type(std::string message);         // Python's TypeError
[[noreturn]] void fail_unsupported(std::string message);  // known in Jinja, not in ours

/// The budget of one rendering. Everything that loops or copies spends from it.
class Meter {
 public:
  Meter(int64_t steps, int64_t output_bytes, int depth)
      : steps_(steps), steps_limit_(steps), output_bytes_(output_bytes), depth_(depth) {}
  void spend(int64_t steps);
  /// For work that is cheap per byte.
  void spend_bytes(size_t bytes) { spend(1 + static_cast<int64_t>(bytes / 256)); }
  /// Refuses a text that could never be printed.
  void check_size(uint64_t bytes) const;
  int max_depth() const { return depth_; }
  int64_t max_output() const { return output_bytes_; }

 private:
  int64_t steps_;
  int64_t steps_limit_;
  int64_t output_bytes_;
  int depth_;
};

/// What a value points to. `depth` counts the containers below and itself, so that no chain of values grows past what
/// recursion (printing, comparing, destroying) can bear.
struct Object {
  virtual ~Object() = default;
  int depth = 0;
};

enum class ViewKind : uint8_t { kKeys, kValues, kItems };

struct Value;
struct ListObject;
struct DictObject;
struct UndefinedObject;

struct Value {
  Kind kind = Kind::kUndefined;
  bool flag = false;  // the value of a bool; of a string: markupsafe.Markup
  Integer integer = 0;
  double real = 0;
  std::shared_ptr<Object> object;

  static Value none();
  static Value boolean(bool value);
  static Value of_integer(Integer value);
  static Value of_real(double value);
  static Value string(Text text, bool markup = false);
  static Value literal(std::string_view text) { return string(Text(std::string(text), false)); }
  static Value undefined(std::string message);
  static Value list(std::vector<Value> items, const Meter& meter);
  static Value tuple(std::vector<Value> items, const Meter& meter);
  static Value dict(std::shared_ptr<DictObject> entries);
  static Value iterator(std::vector<Value> items, const Meter& meter);
  static Value view(const Value& dict, ViewKind what);
  static Value method(const Value& self, std::string_view name);

  bool is(Kind other) const { return kind == other; }
  bool is_sequence() const { return kind == Kind::kList || kind == Kind::kTuple; }
  bool is_number() const { return kind == Kind::kInt || kind == Kind::kFloat || kind == Kind::kBool; }
  bool is_integral() const { return kind == Kind::kInt || kind == Kind::kBool; }
  const Text& text() const;                  // kString
  const std::vector<Value>& items() const;   // kList, kTuple
  const ListObject& sequence() const;        // kList, kTuple
  const DictObject& entries() const;         // kDict
  Integer as_integer() const { return kind == Kind::kBool ? Integer(flag) : integer; }  // kInt, kBool
  double as_real() const { return kind == Kind::kFloat ? real : static_cast<double>(as_integer()); }
};

struct TextObject : Object {
  Text text;
};

struct UndefinedObject : Object {
  std::string message;
};

struct ListObject : Object {
  std::vector<Value> items;
  bool group = false;  // groupby's (grouper, list) pair with named fields
};

/// Keys keep their order. Grows only while it is being built.
struct DictObject : Object {
  DictObject() { depth = 1; }
  std::vector<std::pair<Value, Value>> entries;
  void set(Value key, Value value, const Meter& meter);
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;

 private:
  std::unordered_map<std::string, size_t> index_;  // of string keys, once there are many
};

struct RangeObject : Object {
  Integer start = 0, stop = 0, step = 1;
  Integer size() const;
};

struct ViewObject : Object {
  Value dict;
  ViewKind what = ViewKind::kKeys;
};

/// A Python generator: items are computed, but handed out once.
struct IteratorObject : Object {
  std::vector<Value> items;
  size_t next = 0;
};

struct NamespaceObject : Object {
  std::vector<std::pair<std::string, Value>> attributes;
  const Value* find(std::string_view name) const;
  void set(std::string_view name, Value value);
};

/// A method of a value, not yet called.
struct MethodObject : Object {
  Value self;
  std::string name;
};

enum class Function { kRange, kDict, kNamespace, kCycler, kJoiner, kRaise, kStrftime, kLipsum };
struct FunctionObject : Object {
  Function function = Function::kRange;
  std::string name;
};

struct CyclerObject : Object {
  std::vector<Value> items;
  size_t position = 0;
};

struct JoinerObject : Object {
  Value separator;
  bool used = false;
};

template <typename T>
T& object_as(const Value& value) {
  return static_cast<T&>(*value.object);
}

/// Python's type name: "str", "int", "NoneType", …
std::string type_name(const Value& value);
bool is_truthy(const Value& value);
/// Python's ==.
bool equal(const Value& a, const Value& b, Meter& meter);
/// Python's a < b; a TypeError for types that have no order.
bool less(const Value& a, const Value& b, Meter& meter, const char* symbol = "<");
/// Python's `needle in haystack`.
bool contains(const Value& haystack, const Value& needle, Meter& meter);
bool is_hashable(const Value& value);
bool is_iterable(const Value& value);
/// len(), where Python has one.
std::optional<Integer> length_of(const Value& value);
/// Containers below and including the value.
inline int depth_of(const Value& value) { return value.object ? value.object->depth : 0; }
/// A limit error when the depth is more than the meter allows.
void check_depth(int depth, const Meter& meter);
/// The attribute of an undefined value was used.
[[noreturn]] void fail_undefined(const Value& undefined);

/// Hands out the items of any iterable, lazily where Python does. The value must be iterable (TypeError otherwise).
class Cursor {
 public:
  explicit Cursor(Value iterable);
  bool next(Value* item);
  /// len() of the iterable where Python has one.
  std::optional<Integer> length() const { return length_of(iterable_); }

 private:
  Value iterable_;
  size_t position_ = 0;
  Integer number_ = 0;
};

/// All items, at once.
std::vector<Value> collect(const Value& iterable, Meter& meter);

/// JSON as the client sent it; every string is user text, or `user` says otherwise.
Value from_json(const nlohmann::ordered_json& json, bool user, const Meter& meter, int depth = 0);

}  // namespace slipstream::jinja
