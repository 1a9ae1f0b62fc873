// See generation.h.
#include "server/api/generation.h"

#include <algorithm>
#include <random>

#include "config/limits.h"

namespace slipstream::api {
namespace {

using Clock = std::chrono::steady_clock;

// Events wait here while the handler writes to a slow client; past this the engine cancels the request.
constexpr size_t kChannelEvents = 4096;
constexpr size_t kMaxGaps = 4096;

double seconds(Clock::duration d) { return std::chrono::duration<double>(d).count(); }

ApiError context_error(int64_t prompt, int64_t output, int64_t context, const std::string& param) {
  std::string message = "This model's maximum context length is " + std::to_string(context) +
                        " tokens. However, the request has " + std::to_string(prompt) + " prompt tokens";
  message += output > 0 ? " and asks for " + std::to_string(output) + " output tokens (" +
                              std::to_string(prompt + output) + " in all). Shorten the prompt or lower " + param + "."
                        : ", which leaves no room for output. Shorten the prompt.";
  ApiError error({ErrorCode::kContextLength, std::move(message), output > 0 ? param : std::string()});
  error.prompt_tokens = prompt;
  error.context_tokens = context;
  return error;
}

uint64_t drawn_seed() {
  thread_local std::mt19937_64 generator{std::random_device{}()};
  // a 53-bit seed survives every JSON reader
  return generator() >> 11;
}

}  // namespace

ApiError deadline_error() {
  return {Error{ErrorCode::kUnavailable, "the request ran longer than the server's limit of one request; shorten it or "
                                         "raise --request-timeout", {}},
          503, "deadline_exceeded"};
}

ApiError engine_error(const OutputEvent& event) {
  switch (event.cause) {
    case ErrorCause::kDeadline: return deadline_error();
    case ErrorCause::kShutdown: return {Error{ErrorCode::kUnavailable, event.error, {}}, 503, "shutting_down"};
    case ErrorCause::kConstraint: return Error{ErrorCode::kInvalidArgument, event.error, {}};
    case ErrorCause::kFault: break;
  }
  return Error{ErrorCode::kInternal, event.error.empty() ? "the engine failed" : event.error, {}};
}

void FinishedChoice::take(ChoicePiece piece) {
  for (AnswerPart& part : piece.parts) {
    switch (part.kind) {
      case PartKind::kReasoning: reasoning += part.text; break;
      case PartKind::kContent: content += part.text; break;
      case PartKind::kCallStart: calls.push_back({std::move(part.call_id), std::move(part.text), {}}); break;
      case PartKind::kCallArguments: calls[part.call].arguments += part.text; break;
    }
  }
  tokens.insert(tokens.end(), std::make_move_iterator(piece.tokens.begin()), std::make_move_iterator(piece.tokens.end()));
  if (piece.finish == FinishReason::kNone) return;
  finish = piece.finish;
  stop_string = std::move(piece.stop_string);
  stop_token = piece.stop_token;
}

std::variant<std::unique_ptr<Generation>, ApiError> Generation::submit(const Services& services,
                                                                       const GenerationRequest& call,
                                                                       std::vector<std::vector<int32_t>> prompts,
                                                                       const std::string& id) {
  const int64_t context = services.model.context_length;
  std::unique_ptr<Generation> out(new Generation);
  out->tokenizer_ = services.tokenizer;
  out->n_ = call.n;
  out->include_stop_ = call.include_stop;
  out->stop_strings_ = call.stop;
  out->stop_token_ids_ = call.sampling.stop_ids;
  const uint64_t configured = services.config.engine.seed;
  out->seed_ = call.seed ? static_cast<uint64_t>(*call.seed) : configured > 0 ? configured : drawn_seed();
  out->start_ = out->last_ = Clock::now();

  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto length = static_cast<int64_t>(prompts[i].size());
    if (length == 0)
      return ApiError(invalid_argument("the prompt holds no token", call.prompts.empty() ? "messages" : "prompt"));
    if (length >= context) return context_error(length, 0, context, "");
    if (call.sampling.max_tokens > 0 && length + call.sampling.max_tokens > context)
      return context_error(length, call.sampling.max_tokens, context, call.max_tokens_name);
    if (length + call.sampling.min_tokens > context)
      return context_error(length, call.sampling.min_tokens, context, call.min_tokens_name);
    auto request = std::make_shared<Request>();
    request->id = prompts.size() == 1 ? id : id + "-" + std::to_string(i);
    request->sampling = call.sampling;
    request->sampling.seed = out->seed_;
    const auto choices = static_cast<int64_t>(prompts.size()) * call.n;
    auto output_tokens = output_tokens_per_choice(call, choices, context - length);
    if (!output_tokens.ok()) return ApiError(output_tokens.error());
    request->sampling.max_tokens = *output_tokens;
    if (!call.ignore_eos)
      request->sampling.stop_ids.insert(request->sampling.stop_ids.end(), services.model.eos_ids.begin(),
                                        services.model.eos_ids.end());
    request->n = call.n;
    request->priority = call.priority;
    request->cache_salt = call.cache_salt;
    request->speculate = call.speculate;
    request->constraint = call.constraint;
    request->arrival = out->start_;
    request->deadline = out->start_ + std::chrono::seconds(services.config.server.request_timeout_s);
    request->output = std::make_shared<OutputChannel>(kChannelEvents);
    request->prompt = std::move(prompts[i]);
    out->usage_.prompt_tokens += length;
    out->running_.push_back(std::move(request));
    for (int32_t c = 0; c < call.n; ++c) {
      ChoiceText text{Detokenizer(services.tokenizer, call.skip_special), StopStrings(call.stop, call.include_stop)};
      if (call.make_parser) text.parser = call.make_parser();
      out->texts_.push_back(std::move(text));
    }
  }
  out->cached_known_.assign(out->running_.size(), false);
  out->open_ = out->texts_.size();
  out->no_output_ = call.no_output;
  if (call.no_output) return out;
  for (auto& request : out->running_) {
    Status status = services.engine->submit(request);
    if (!status.ok()) {
      out->cancel();  // those submitted before
      return ApiError(status.error());
    }
  }
  return out;
}

Generation::~Generation() {
  if (open_ > 0) cancel();
}

void Generation::cancel() {
  for (auto& request : running_) request->cancelled.store(true, std::memory_order_release);
}

bool Generation::next(std::chrono::milliseconds timeout, std::vector<ChoicePiece>* out) {
  if (open_ == 0 || error_) return false;
  if (no_output_) {
    for (; open_ > 0; --open_) {
      ChoicePiece piece;
      piece.index = static_cast<int32_t>(texts_.size() - open_);
      piece.finish = FinishReason::kLength;
      out->push_back(std::move(piece));
    }
    return false;
  }
  bool any = false;
  for (size_t i = 0; i < running_.size() && !error_; ++i) {
    for (OutputEvent& event : running_[i]->output->drain()) {
      any = true;
      absorb(i, std::move(event), out);
      if (error_) break;
    }
  }
  if (!any && open_ > 0 && !error_) {
    // wait on a request that still runs; several are polled in turn
    const auto wait = running_.size() == 1 ? timeout : std::min(timeout, std::chrono::milliseconds(5));
    for (size_t i = 0; i < running_.size(); ++i) {
      bool open = false;
      for (int32_t c = 0; c < n_; ++c) open = open || !texts_[i * n_ + c].done;
      if (!open) continue;
      if (auto event = running_[i]->output->pop(wait)) absorb(i, std::move(*event), out);
      break;
    }
  }
  if (!error_ && open_ > 0) {
    for (const auto& request : running_) {
      if (request->output->overflowed())
        error_ = ApiError(Error{ErrorCode::kUnavailable, "the client reads too slowly", {}}, 503, "slow_reader");
      else if (Clock::now() > request->deadline)
        error_ = deadline_error();
    }
  }
  if (error_) cancel();
  times_.total_s = seconds(Clock::now() - start_);
  return open_ > 0 && !error_;
}

void Generation::absorb(size_t request, OutputEvent event, std::vector<ChoicePiece>* out) {
  const size_t index = request * n_ + event.choice;
  if (event.choice < 0 || event.choice >= n_) return;
  if (!cached_known_[request] && event.cached_tokens > 0) {
    cached_known_[request] = true;
    usage_.cached_tokens += event.cached_tokens;
  }
  ChoiceText& text = texts_[index];
  if (text.done) return;  // the overrun behind a stop string
  if (event.finish == FinishReason::kError) {
    error_ = engine_error(event);
    return;
  }
  usage_.accepted_draft_tokens += event.accepted_draft_tokens;
  usage_.rejected_draft_tokens += event.rejected_draft_tokens;

  ChoicePiece piece;
  piece.index = static_cast<int32_t>(index);
  std::string published;
  bool stopped = false;
  for (size_t i = 0; i < event.tokens.size() && !stopped; ++i) {
    TokenEntry entry;
    entry.id = event.tokens[i];
    if (i < event.logprobs.size()) entry.logprob = std::move(event.logprobs[i]);
    entry.text_offset = text.raw_bytes;
    entry.char_offset = text.raw_chars;
    const std::string spelled = spell(text, entry.id);
    text.raw_bytes += static_cast<int64_t>(spelled.size());
    for (const char c : spelled) text.raw_chars += (c & 0xc0) != 0x80;
    ++text.completion_tokens;
    text.waiting.push_back(std::move(entry));
    if (spelled.empty()) continue;
    StopStrings::Piece safe = text.stops.push(spelled);
    published += safe.text;
    if (safe.matched >= 0) {
      stopped = true;
      piece.stop_string = stop_strings_[safe.matched];
    }
  }
  const auto now = Clock::now();
  if (!event.tokens.empty()) {
    if (times_.first_token_s < 0)
      times_.first_token_s = seconds(now - start_);
    else if (times_.gaps_s.size() < kMaxGaps)
      times_.gaps_s.push_back(seconds(now - last_));
    last_ = now;
  }

  if (stopped) {
    piece.finish = FinishReason::kStop;
    running_[request]->stopped_choices.fetch_or(1u << event.choice, std::memory_order_acq_rel);
  } else if (event.finish != FinishReason::kNone) {
    piece.finish = event.finish;
    if (event.stop_id >= 0) {
      ++text.completion_tokens;  // drawn, though not part of the text
      if (std::find(stop_token_ids_.begin(), stop_token_ids_.end(), event.stop_id) != stop_token_ids_.end())
        piece.stop_token = event.stop_id;
    }
    // the tail may complete a stop string
    const std::string tail = text.detokenizer.finish();
    if (text.parser) text.spellings.push_back({tail, text.raw_bytes, false, false, false});
    text.raw_bytes += static_cast<int64_t>(tail.size());
    StopStrings::Piece safe = text.stops.push(tail);
    published += safe.text;
    if (safe.matched >= 0) {
      piece.finish = FinishReason::kStop;
      piece.stop_string = stop_strings_[safe.matched];
      stopped = true;
    } else {
      published += text.stops.finish();
    }
  }
  text.published_bytes += static_cast<int64_t>(published.size());
  give_parts(text, std::move(published), piece.finish != FinishReason::kNone, &piece);
  if (piece.finish == FinishReason::kNone && text.parser && text.parser->done()) {  // the one call that was allowed is whole
    piece.finish = FinishReason::kStop;
    running_[request]->stopped_choices.fetch_or(1u << event.choice, std::memory_order_acq_rel);
  }
  piece.called = text.called;
  if (piece.finish == FinishReason::kCancelled) {
    error_ = ApiError(Error{ErrorCode::kUnavailable, "the request was cancelled by the server", {}}, 503, "cancelled");
    return;
  }
  // behind a stop string, tokens that spell none of the published text are dropped with it
  release_tokens(text, piece.finish != FinishReason::kNone && !(stopped && !include_stop_), &piece);
  piece.completion_tokens = text.completion_tokens;
  if (piece.finish != FinishReason::kNone) finish_choice(index, request);
  if (!piece.parts.empty() || !piece.tokens.empty() || piece.finish != FinishReason::kNone)
    out->push_back(std::move(piece));
}

std::string Generation::spell(ChoiceText& text, int32_t id) {
  std::string spelled = text.detokenizer.push(id);
  if (!text.parser) return spelled;
  if (!tokenizer_->is_special(id)) {
    text.spellings.push_back({spelled, text.raw_bytes});
    return spelled;
  }
  const std::string own(tokenizer_->token_bytes(id));
  const bool hidden = !spelled.ends_with(own);
  // in front of a shown one stands what was left of a character
  const std::string before = hidden ? spelled : spelled.substr(0, spelled.size() - own.size());
  const auto begin = text.raw_bytes + static_cast<int64_t>(before.size());
  if (!before.empty()) text.spellings.push_back({before, text.raw_bytes, false, false, false});
  text.spellings.push_back({own, begin, true, hidden});
  return spelled;
}

void Generation::give_parts(ChoiceText& text, std::string published, bool ended, ChoicePiece* piece) {
  if (!text.parser) {
    if (!published.empty()) piece->parts.push_back({PartKind::kContent, std::move(published), -1, {}});
    return;
  }
  OutputParser& parser = *text.parser;
  while (!text.spellings.empty() && !parser.done()) {
    Spelling& next = text.spellings.front();
    const int64_t room = text.published_bytes - next.begin;  // bytes of it that are past the stop strings
    const auto size = static_cast<int64_t>(next.text.size());
    const bool passed = next.hidden ? room >= 0 : room >= size;
    const bool thinking = parser.reasoning();
    if (!passed) {  // a special token counts only whole
      if (room > 0 && !next.hidden && (!next.control || ended)) {
        parser.push(std::string_view(next.text).substr(0, static_cast<size_t>(room)), false, &piece->parts);
        next.text.erase(0, static_cast<size_t>(room));
        next.begin += room;
      }
      break;
    }
    parser.push(next.text, next.control, &piece->parts);
    if (next.whole && (thinking || parser.reasoning())) ++text.reasoning_tokens;
    text.spellings.pop_front();
  }
  if (ended) parser.finish(&piece->parts);
  for (const AnswerPart& part : piece->parts) text.called = text.called || part.kind == PartKind::kCallStart;
}

void Generation::release_tokens(ChoiceText& text, bool all, ChoicePiece* piece) {
  size_t count = 0;
  while (count < text.waiting.size() && (all || text.waiting[count].text_offset < text.published_bytes)) ++count;
  piece->tokens.insert(piece->tokens.end(), std::make_move_iterator(text.waiting.begin()),
                       std::make_move_iterator(text.waiting.begin() + count));
  text.waiting.erase(text.waiting.begin(), text.waiting.begin() + count);
}

void Generation::finish_choice(size_t index, size_t request) {
  texts_[index].done = true;
  --open_;
  bool open = false;
  for (int32_t c = 0; c < n_; ++c) open = open || !texts_[request * n_ + c].done;
  // the engine may still be drawing behind a stop string
  if (!open && running_[request]->stopped_choices.load(std::memory_order_acquire) != 0)
    running_[request]->cancelled.store(true, std::memory_order_release);
}

int32_t Generation::longest_choice() const {
  int32_t out = 0;
  for (const ChoiceText& text : texts_) out = std::max(out, text.completion_tokens);
  return out;
}

Usage Generation::usage() const {
  Usage out = usage_;
  for (const ChoiceText& text : texts_) {
    out.completion_tokens += text.completion_tokens;
    out.reasoning_tokens += text.reasoning_tokens;
  }
  return out;
}

}  // namespace slipstream::api
