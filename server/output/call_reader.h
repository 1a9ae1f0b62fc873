// The tool stage of the output parsers: finds calls in text and hands the rest through. One class per way to write a call; what
// they share is here. Must never know where the text comes from or where parts go.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "server/output/part_sink.h"
#include "server/output/tool_set.h"

namespace slipstream::output {

/// Handler thread only. Holds text back only while it may still become a call.
class CallReader {
 public:
  CallReader(PartSink* sink, std::shared_ptr<const ToolSet> tools) : sink_(sink), tools_(std::move(tools)) {}
  virtual ~CallReader() = default;

  void push(std::string_view text);
  /// No more text belongs to this stretch (the thinking, the answer): what is held is decided now.
  void finish();

 protected:
  /// One decision about rest(): true when something was consumed or the state changed, false when more text must come first.
  /// `last`: there will be no more, so false is allowed only for an empty rest.
  virtual bool step(std::string_view rest, bool last) = 0;
  /// After the last step: nothing that was kept apart from rest() may stay.
  virtual void end() = 0;
  void consume(size_t bytes) { at_ += bytes; }
  /// Consumes and hands through as plain text.
  void release(size_t bytes);

  PartSink* const sink_;
  const std::shared_ptr<const ToolSet> tools_;  // never null

 private:
  void run(bool last);
  std::string held_;
  size_t at_ = 0;
};

/// The first of `tags` in a text that may go on.
struct TagSearch {
  size_t at = 0;         // text before it belongs to no tag
  int tag = -1;          // index of the whole tag at `at`; -1: none yet, though one may begin at `at`
};
TagSearch find_tag(std::string_view text, std::span<const std::string> tags, bool last);

enum class Match : uint8_t { kNo, kMaybe, kYes };
/// Whether `text` begins with `tag`; kMaybe when it ends too early to know and more may come.
Match begins_with(std::string_view text, std::string_view tag, bool last);

/// How many bytes of blanks lead `text`; npos when there are more than ever stand between the parts of a call.
size_t leading_blanks(std::string_view text);

/// Longer names are none.
inline constexpr size_t kLongestName = 128;
/// The length of the name that leads `text`; npos while it may go on, or is too long to be one (then `*too_long`).
size_t leading_name(std::string_view text, bool last, bool* too_long);

}  // namespace slipstream::output
