// A generation's course as server-sent events: when what is written, keep-alive comments, error and end. What the events say is
// the endpoint's AnswerFormat's.
#pragma once

#include <string>

#include "server/api/answer_format.h"
#include "server/api/generation.h"
#include "server/http_message.h"

namespace slipstream {

struct StreamOutcome {
  bool client_gone = false;
  bool failed = false;
  FinishReason finish = FinishReason::kNone;   // of the last choice that ended
};

/// Writes events until the end. `progress` is the engine's step counter: a keep-alive comment is only sent when it
/// moved, so that a wedged server looks wedged.
StreamOutcome stream_generation(api::Generation& generation, api::AnswerFormat& format, BodySink& sink,
                                const PeerWatch& peer, const std::function<int64_t()>& progress,
                                std::chrono::seconds keep_alive, const std::string& request_id);

}  // namespace slipstream
