// See sse_stream.h.
#include "server/sse_stream.h"

namespace slipstream {

using Clock = std::chrono::steady_clock;

StreamOutcome stream_generation(api::Generation& generation, api::AnswerFormat& format, BodySink& sink,
                                const PeerWatch& peer, const std::function<int64_t()>& progress,
                                std::chrono::seconds keep_alive, const std::string& request_id) {
  StreamOutcome outcome;
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

  format.begin(generation, &out);
  bool more = true;
  while (more) {
    pieces.clear();
    more = generation.next(out.empty() ? std::chrono::milliseconds(100) : std::chrono::milliseconds(0), &pieces);
    for (const api::ChoicePiece& piece : pieces) {
      format.piece(piece, generation, &out);
      if (piece.finish != FinishReason::kNone) outcome.finish = piece.finish;
    }
    if (generation.failed() && !peer.gone()) {
      outcome.failed = true;
      format.fail(generation.error(), request_id, &out);
    } else if (!more && !peer.gone()) {
      format.end(generation, &out);
    }
    if (out.empty()) {
      const auto silent = Clock::now() - last_write;
      if (seen_progress < 0 && silent >= std::chrono::seconds(1))
        seen_progress = progress();
      else if (seen_progress >= 0 && silent >= keep_alive && progress() != seen_progress)
        format.keep_alive(&out);
    }
    if (peer.gone()) format.fail(api::client_closed_error(), request_id, &out);
    if (!flush() || peer.gone()) {
      outcome.client_gone = true;
      generation.cancel();
      return outcome;
    }
  }
  return outcome;
}

}  // namespace slipstream
