// Truth, length and iteration of values. Must never know syntax.
#include "engine/text/template_value.h"
#include "kernels/check.h"

namespace slipstream::jinja {

std::string type_name(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined: return "Undefined";
    case Kind::kNone: return "NoneType";
    case Kind::kBool: return "bool";
    case Kind::kInt: return "int";
    case Kind::kFloat: return "float";
    case Kind::kString: return value.flag ? "Markup" : "str";
    case Kind::kList: return "list";
    case Kind::kTuple: return value.sequence().group ? "_GroupTuple" : "tuple";
    case Kind::kDict: return "dict";
    case Kind::kRange: return "range";
    case Kind::kView:
      switch (object_as<ViewObject>(value).what) {
        case ViewKind::kKeys: return "dict_keys";
        case ViewKind::kValues: return "dict_values";
        case ViewKind::kItems: return "dict_items";
      }
      return "dict_keys";
    case Kind::kIterator: return "generator";
    case Kind::kNamespace: return "TemplateNamespace";
    case Kind::kMacro: return "Macro";
    case Kind::kMethod: return "builtin_function_or_method";
    case Kind::kFunction: return "function";
    case Kind::kLoop: return "LoopContext";
    case Kind::kCycler: return "Cycler";
    case Kind::kJoiner: return "Joiner";
  }
  return "object";
}

bool is_truthy(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kNone: return false;
    case Kind::kBool: return value.flag;
    case Kind::kInt: return value.integer != 0;
    case Kind::kFloat: return value.real != 0;
    case Kind::kString: return !value.text().empty();
    case Kind::kList:
    case Kind::kTuple: return !value.items().empty();
    case Kind::kDict: return !value.entries().entries.empty();
    case Kind::kRange:
    case Kind::kView: return length_of(value) != Integer(0);
    default: return true;
  }
}

bool is_hashable(const Value& value) {
  switch (value.kind) {
    case Kind::kList:
    case Kind::kDict:
    case Kind::kView: return false;
    case Kind::kTuple:
      for (const Value& item : value.items())
        if (!is_hashable(item)) return false;
      return true;
    default: return true;
  }
}

bool is_iterable(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined:
    case Kind::kString:
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kDict:
    case Kind::kRange:
    case Kind::kView:
    case Kind::kIterator: return true;
    default: return false;
  }
}

std::optional<Integer> length_of(const Value& value) {
  switch (value.kind) {
    case Kind::kUndefined: return 0;
    case Kind::kString: return value.text().length();
    case Kind::kList:
    case Kind::kTuple: return static_cast<Integer>(value.items().size());
    case Kind::kDict: return static_cast<Integer>(value.entries().entries.size());
    case Kind::kRange: return object_as<RangeObject>(value).size();
    case Kind::kView: return length_of(object_as<ViewObject>(value).dict);
    default: return std::nullopt;
  }
}

Cursor::Cursor(Value iterable) : iterable_(std::move(iterable)) {
  if (!is_iterable(iterable_)) fail_type("'" + type_name(iterable_) + "' object is not iterable");
}

bool Cursor::next(Value* item) {
  switch (iterable_.kind) {
    case Kind::kString: {
      const Text& text = iterable_.text();
      if (position_ >= text.size()) return false;
      size_t length = 0;
      decode_utf8(text.bytes(), position_, &length);
      *item = Value::string(text.slice(position_, position_ + length), iterable_.flag);
      position_ += length;
      return true;
    }
    case Kind::kList:
    case Kind::kTuple:
      if (position_ >= iterable_.items().size()) return false;
      *item = iterable_.items()[position_++];
      return true;
    case Kind::kDict:
      if (position_ >= iterable_.entries().entries.size()) return false;
      *item = iterable_.entries().entries[position_++].first;
      return true;
    case Kind::kRange: {
      const auto& range = object_as<RangeObject>(iterable_);
      if (number_ >= range.size()) return false;
      *item = Value::of_integer(range.start + number_++ * range.step);
      return true;
    }
    case Kind::kView: {
      const auto& view = object_as<ViewObject>(iterable_);
      const auto& entries = view.dict.entries().entries;
      if (position_ >= entries.size()) return false;
      const auto& [key, value] = entries[position_++];
      if (view.what == ViewKind::kItems) {
        auto pair = std::make_shared<ListObject>();
        pair->items = {key, value};
        pair->depth = view.dict.entries().depth + 1;
        item->kind = Kind::kTuple;
        item->object = std::move(pair);
      } else {
        *item = view.what == ViewKind::kKeys ? key : value;
      }
      return true;
    }
    case Kind::kIterator: {
      auto& shared = object_as<IteratorObject>(iterable_);
      if (shared.next >= shared.items.size()) return false;
      *item = shared.items[shared.next++];
      return true;
    }
    default: return false;
  }
}

std::vector<Value> collect(const Value& iterable, Meter& meter) {
  Cursor cursor(iterable);
  std::vector<Value> items;
  Value item;
  while (cursor.next(&item)) {
    meter.spend(1);
    items.push_back(item);
  }
  return items;
}

}  // namespace slipstream::jinja
