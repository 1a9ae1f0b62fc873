// See part_sink.h.
#include "server/output/part_sink.h"

#include "server/output/value_text.h"

namespace slipstream::output {

using api::AnswerPart;
using api::PartKind;

void PartSink::add(PartKind kind, std::string_view text) {
  if (text.empty()) return;
  const bool of_call = kind == PartKind::kCallArguments;
  const int32_t call = of_call ? calls_ - 1 : -1;
  if (!out_->empty() && out_->back().kind == kind && out_->back().call == call)
    out_->back().text += text;
  else
    out_->push_back({kind, std::string(text), call, {}});
}

void PartSink::begin(PartKind mode) {
  if (mode == mode_) return;
  // content that ended in blanks before thinking went on keeps them; thoughts do not
  if (mode_ == PartKind::kContent && !blanks_.empty()) add(PartKind::kContent, blanks_);
  blanks_.clear();
  mode_ = mode;
  lead_ = mode == PartKind::kReasoning ? Lead::kBlanks : Lead::kLines;
}

void PartSink::plain(std::string_view text) {
  if (done_) return;
  std::string shown;
  if (text.find(kMark) != std::string_view::npos) {
    for (size_t i = 0; i < text.size(); ++i) {
      if (text[i] != kMark) {
        shown.push_back(text[i]);
        continue;
      }
      const size_t mark = ++i < text.size() ? static_cast<unsigned char>(text[i]) : options_.marks.size();
      if (options_.show_marks && mark < options_.marks.size()) shown += options_.marks[mark];
    }
    text = shown;
  }
  if (lead_ != Lead::kExact) {
    const auto dropped = [&](char c) { return lead_ == Lead::kBlanks ? is_space(c) : c == '\n' || c == '\r'; };
    while (!text.empty() && dropped(text.front())) text.remove_prefix(1);
  }
  if (text.empty()) return;
  lead_ = Lead::kExact;
  // blanks wait where something may follow that they only separate
  size_t keep = text.size();
  if (options_.calls || mode_ == PartKind::kReasoning)
    while (keep > 0 && is_space(text[keep - 1])) --keep;
  if (keep > 0) {
    add(mode_, blanks_);
    blanks_.clear();
    add(mode_, text.substr(0, keep));
  }
  blanks_ += text.substr(keep);
}

void PartSink::start_call(std::string_view name) {
  if (done_) return;
  blanks_.clear();
  mode_ = PartKind::kContent;
  lead_ = Lead::kBlanks;
  in_call_ = true;
  has_arguments_ = false;
  out_->push_back({PartKind::kCallStart, std::string(name), calls_++, options_.call_id ? options_.call_id() : std::string()});
}

void PartSink::arguments(std::string_view fragment) {
  if (done_ || !in_call_ || fragment.empty()) return;
  has_arguments_ = true;
  add(PartKind::kCallArguments, fragment);
}

void PartSink::end_call() {
  if (done_ || !in_call_) return;
  if (!has_arguments_) arguments("{}");
  in_call_ = false;
  done_ = options_.single_call;
}

void PartSink::finish() {
  if (mode_ == PartKind::kContent && !done_ && !in_call_) add(PartKind::kContent, blanks_);
  blanks_.clear();
}

}  // namespace slipstream::output
