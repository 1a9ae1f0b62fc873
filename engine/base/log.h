// Structured log lines: one per event, text or JSON, control characters escaped. Never prompt text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>

namespace slipstream::log {

using Value = std::variant<std::string, int64_t, double, bool>;
struct Field {
  std::string_view key;
  Value value;
  Field(std::string_view k, std::string v) : key(k), value(std::move(v)) {}
  Field(std::string_view k, const char* v) : key(k), value(std::string(v)) {}
  Field(std::string_view k, bool v) : key(k), value(v) {}
  Field(std::string_view k, double v) : key(k), value(v) {}
  template <typename T>
    requires std::is_integral_v<T>
  Field(std::string_view k, T v) : key(k), value(static_cast<int64_t>(v)) {}
};

enum class Level { kTrace, kDebug, kInfo, kWarn, kError };

/// Call once, before any thread logs. level: trace|debug|info|warn|error; format: text|json. Lines go to stderr.
void init(std::string_view level, std::string_view format);
bool enabled(Level level);
/// One line: time, level, event, fields. Thread-safe. A failed write is counted, never fatal.
void write(Level level, std::string_view event, std::span<const Field> fields);
inline void write(Level level, std::string_view event, std::initializer_list<Field> fields = {}) {
  write(level, event, std::span<const Field>(fields.begin(), fields.size()));
}

inline void info(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::kInfo, event, fields);
}
inline void warn(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::kWarn, event, fields);
}
inline void error(std::string_view event, std::initializer_list<Field> fields = {}) {
  write(Level::kError, event, fields);
}

/// JSON string literal of `text` (quotes included): control characters and invalid UTF-8 escaped.
std::string json_quote(std::string_view text);
/// The same of at most `shown_bytes`, then "...": for names and values of unknown length in error messages.
std::string json_quote_cut(std::string_view text, size_t shown_bytes);

}  // namespace slipstream::log
