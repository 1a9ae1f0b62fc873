// See sse_stream.h.
#include "server/sse_stream.h"

namespace slipstream {
namespace {

using Clock = std::chrono::steady_clock;

void append_event(std::string& out, const std::string& json) {
  out += "data: ";
  out += json;
  out += "\n\n";
}

}  // namespace

StreamOutcome stream_generation(api::Generation& generation, const api::AnswerHead& head, BodySink& sink,
                                const PeerWatch& peer, const std::function<int64_t()>& progress,
                                std::chrono::seconds keep_alive, const std::string& request_id) {
  StreamOutcome outcome;
  std::vector<bool> begun(generation.choices(), false);
  std::vector<api::ChoicePiece> pieces;
  std::string out;
  auto last_write = Clock::now();
  int64_t seen_progress = -1;  // the step counter once the stream has been silent for a second; -1: not silent

  const auto flush = [&] {
    if (out.empty()) return true;
    const bool ok = sink.write(out);
    out.clear();
    last_write = Clock::now();
    seen_progress = -1;
    return ok;
  };

  bool more = true;
  while (more) {
    pieces.clear();
    more = generation.next(std::chrono::milliseconds(100), &pieces);
    const api::Usage usage = head.continuous_usage ? generation.usage() : api::Usage{};
    for (const api::ChoicePiece& piece : pieces) {
      if (!begun[piece.index]) {
        begun[piece.index] = true;
        const bool first_of_prompt = piece.index % head.n == 0;
        // completions have no role: their first chunk exists only to carry an echo or the prompt's ids
        if (head.endpoint == api::kChat || !head.echo.empty() || head.return_token_ids)
          append_event(out, format_first_chunk(head, piece.index, usage,
                                               head.return_token_ids && first_of_prompt
                                                   ? &generation.prompt(piece.index / head.n) : nullptr));
      }
      if (!piece.text.empty() || !piece.tokens.empty()) {
        // without log-probabilities or ids a chunk without text says nothing
        if (!piece.text.empty() || head.logprobs || head.return_token_ids)
          append_event(out, format_text_chunk(head, piece, usage));
      }
      if (piece.finish != FinishReason::kNone) {
        append_event(out, format_finish_chunk(head, piece, usage));
        outcome.finish = piece.finish;
      }
    }
    if (generation.failed() && !peer.gone()) {
      outcome.failed = true;
      append_event(out, api::error_body(generation.error(), request_id));
    } else if (!more && head.include_usage) {
      append_event(out, format_usage_chunk(head, generation.usage()));
    }
    if (!more && !peer.gone()) out += "data: [DONE]\n\n";
    if (out.empty()) {
      const auto silent = Clock::now() - last_write;
      if (seen_progress < 0 && silent >= std::chrono::seconds(1))
        seen_progress = progress();
      else if (seen_progress >= 0 && silent >= keep_alive && progress() != seen_progress)
        out = ": keep-alive\n\n";
    }
    if (peer.gone()) {
      append_event(out, api::error_body(api::client_closed_error(), request_id));
      out += "data: [DONE]\n\n";
    }
    if (!flush() || peer.gone()) {
      outcome.client_gone = true;
      generation.cancel();
      return outcome;
    }
  }
  return outcome;
}

}  // namespace slipstream
