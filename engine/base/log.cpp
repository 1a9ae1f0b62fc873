#include "engine/base/log.h"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>

#include "engine/base/utf8.h"

namespace slipstream::log {

namespace {

std::atomic<bool> json_format{false};

spdlog::level::level_enum spd_level(Level level) {
  switch (level) {
    case Level::kTrace: return spdlog::level::trace;
    case Level::kDebug: return spdlog::level::debug;
    case Level::kInfo: return spdlog::level::info;
    case Level::kWarn: return spdlog::level::warn;
    case Level::kError: return spdlog::level::err;
  }
  return spdlog::level::info;
}

spdlog::logger& logger() {
  static auto instance = [] {
    auto made = std::make_shared<spdlog::logger>("slipstream", std::make_shared<spdlog::sinks::stderr_sink_mt>());
    made->set_pattern("%v");
    made->set_level(spdlog::level::info);
    made->flush_on(spdlog::level::trace);
    return made;
  }();
  return *instance;
}

std::string timestamp() {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::system_clock::to_time_t(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  std::tm utc{};
  gmtime_r(&seconds, &utc);
  char text[40];
  std::snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, static_cast<int>(ms));
  return text;
}

const char* level_name(Level level) {
  static constexpr const char* names[] = {"trace", "debug", "info", "warn", "error"};
  return names[static_cast<int>(level)];
}

std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[40];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string to_text(const Value& value, bool quote_always) {
  if (const auto* s = std::get_if<std::string>(&value)) {
    const bool plain = !s->empty() && s->find_first_of(" \t\r\n\"=\\") == std::string::npos;
    std::string quoted = json_quote(*s);
    return !quote_always && plain && quoted.size() == s->size() + 2 ? *s : quoted;
  }
  if (const auto* i = std::get_if<int64_t>(&value)) return std::to_string(*i);
  if (const auto* d = std::get_if<double>(&value)) return number(*d);
  return std::get<bool>(value) ? "true" : "false";
}

}  // namespace

std::string json_quote(std::string_view text) {
  std::string out = "\"";
  for (size_t i = 0; i < text.size();) {
    const Utf8Sequence sequence = utf8_sequence_at(text, i);
    const size_t length = sequence.bytes;
    if (!sequence.complete) {
      out += "\\ufffd";
      ++i;
      continue;
    }
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if (length > 1) {
      out.append(text.substr(i, length));
    } else if (c == '"' || c == '\\') {
      out += '\\';
      out += static_cast<char>(c);
    } else if (c == '\n') {
      out += "\\n";
    } else if (c == '\t') {
      out += "\\t";
    } else if (c == '\r') {
      out += "\\r";
    } else if (c < 0x20 || c == 0x7F) {
      char escape[8];
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += escape;
    } else {
      out += static_cast<char>(c);
    }
    i += length;
  }
  out += '"';
  return out;
}

std::string json_quote_cut(std::string_view text, size_t shown_bytes) {
  if (text.size() <= shown_bytes) return json_quote(text);
  return json_quote(std::string(text.substr(0, shown_bytes)) + "...");
}

void init(std::string_view level, std::string_view format) {
  json_format = format == "json";
  for (const Level candidate : {Level::kTrace, Level::kDebug, Level::kInfo, Level::kWarn, Level::kError})
    if (level == level_name(candidate)) logger().set_level(spd_level(candidate));
}

bool enabled(Level level) { return logger().should_log(spd_level(level)); }

void write(Level level, std::string_view event, std::span<const Field> fields) {
  if (!enabled(level)) return;
  std::string line;
  if (json_format) {
    line = "{\"time\":\"" + timestamp() + "\",\"level\":\"" + level_name(level) + "\",\"event\":" + json_quote(event);
    for (const Field& field : fields) line += "," + json_quote(field.key) + ":" + to_text(field.value, true);
    line += "}";
  } else {
    line = timestamp() + " " + level_name(level) + " " + std::string(event);
    for (const Field& field : fields) line += " " + std::string(field.key) + "=" + to_text(field.value, false);
  }
  logger().log(spd_level(level), line);
}

}  // namespace slipstream::log
