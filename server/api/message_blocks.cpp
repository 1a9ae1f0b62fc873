// See message_blocks.h.
#include "server/api/message_blocks.h"

#include "server/api/answer_format.h"
#include "server/json_guard.h"
#include "server/json_text.h"

namespace slipstream::api {
namespace {

/// What stands for a signature: nothing here is signed, and clients want a text that they can send back.
constexpr std::string_view kSignature = "unsigned";

/// Ids of this API begin with toolu_.
std::string tool_id(const std::string& call_id) {
  return call_id.starts_with("call_") ? "toolu_" + call_id.substr(5) : call_id;
}

void append_event(std::string* out, const Json& event) {
  append_named_event(out, event["type"].get_ref<const std::string&>(), dump(event));
}

/// Where a JSON text that ends too early can be closed: behind the last value that was complete, with the brackets that are
/// open there.
struct CutPoint {
  size_t bytes = 0;
  std::string closers;
};

CutPoint last_complete(const std::string& text) {
  CutPoint best;
  std::string closers;
  bool in_string = false, escaped = false, key = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (escaped)
        escaped = false;
      else if (c == '\\')
        escaped = true;
      else if (c == '"') {
        in_string = false;
        // a key is complete only with its value
        if (!key) best = {i + 1, {closers.rbegin(), closers.rend()}};
      }
      continue;
    }
    switch (c) {
      case '"': in_string = true; break;
      case '{':
      case '[':
        closers.push_back(c == '{' ? '}' : ']');
        key = c == '{';
        best = {i + 1, {closers.rbegin(), closers.rend()}};
        break;
      case '}':
      case ']':
        if (closers.empty() || closers.back() != c) return best;
        closers.pop_back();
        key = false;
        best = {i + 1, {closers.rbegin(), closers.rend()}};
        break;
      case ':': key = false; break;
      case ',':
        // numbers and words end here
        best = {i, {closers.rbegin(), closers.rend()}};
        key = !closers.empty() && closers.back() == '}';
        break;
      default: break;
    }
  }
  return best;
}

}  // namespace

Json arguments_object(const std::string& text) {
  for (const bool cut : {false, true}) {
    std::string whole = text;
    if (cut) {
      const CutPoint at = last_complete(text);
      whole = text.substr(0, at.bytes) + at.closers;
    }
    if (!check_json(whole).ok()) continue;
    Json parsed = Json::parse(whole, nullptr, false);
    if (parsed.is_object()) return parsed;
  }
  return Json::object();
}

void MessageBlocks::add(const std::vector<AnswerPart>& parts, std::string* out) {
  for (const AnswerPart& part : parts) {
    switch (part.kind) {
      case PartKind::kReasoning:
        if (open_ != Open::kThinking) open(Open::kThinking, nullptr, out);
        break;
      case PartKind::kContent:
        if (open_ != Open::kText) open(Open::kText, nullptr, out);
        break;
      case PartKind::kCallStart: open(Open::kTool, &part, out); continue;
      case PartKind::kCallArguments: break;
    }
    extend(part.text, out);
  }
}

void MessageBlocks::finish(std::string* out) {
  if (open_ == Open::kNone && done_.empty()) open(Open::kText, nullptr, out);
  close(out);
}

Json MessageBlocks::block(bool begun) const {
  switch (open_) {
    case Open::kThinking:
      return {{"type", "thinking"}, {"thinking", begun ? "" : text_}, {"signature", begun ? "" : kSignature}};
    case Open::kTool: {
      Json out = {{"type", "tool_use"}, {"id", id_}, {"name", name_}};
      out["input"] = begun ? Json::object() : arguments_object(text_);
      return out;
    }
    default: return {{"type", "text"}, {"text", begun ? "" : text_}, {"citations", nullptr}};
  }
}

void MessageBlocks::open(Open kind, const AnswerPart* call, std::string* out) {
  close(out);
  open_ = kind;
  text_.clear();
  if (call) {
    calls_ = true;
    id_ = tool_id(call->call_id);
    name_ = call->text;
  }
  if (out)
    append_event(out, {{"type", "content_block_start"}, {"index", done_.size()}, {"content_block", block(/*begun=*/true)}});
}

void MessageBlocks::extend(const std::string& text, std::string* out) {
  if (open_ == Open::kThinking && omit_thinking_) return;
  text_ += text;
  if (!out) return;
  constexpr const char* openings[] = {"", R"({"type":"thinking_delta","thinking":)", R"({"type":"text_delta","text":)",
                                      R"({"type":"input_json_delta","partial_json":)"};
  std::string event = R"({"type":"content_block_delta","index":)";
  json_text::append_int(event, static_cast<int64_t>(done_.size()));
  event += ",\"delta\":";
  event += openings[static_cast<int>(open_)];
  json_text::append_string(event, text);
  event += "}}";
  append_named_event(out, "content_block_delta", event);
}

void MessageBlocks::close(std::string* out) {
  if (open_ == Open::kNone) return;
  if (out) {
    if (open_ == Open::kThinking)
      append_event(out, {{"type", "content_block_delta"},
                         {"index", done_.size()},
                         {"delta", {{"type", "signature_delta"}, {"signature", kSignature}}}});
    append_event(out, {{"type", "content_block_stop"}, {"index", done_.size()}});
  }
  done_.push_back(block(/*begun=*/false));
  open_ = Open::kNone;
}

}  // namespace slipstream::api
