// One request on its way through the routes, with what the access line and the metrics will say about it. Knows no
// socket.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "server/http_message.h"
#include "server/metrics.h"
#include "server/services.h"

namespace slipstream::api {

/// Filled along the way; written out as the access line when the response has ended.
struct CallRecord {
  std::string request_id;           // the body's own, where it counts; otherwise ""
  std::string error_code;           // of an error inside a stream, too
  bool generation = false, stream = false;
  int64_t prompt_tokens = 0, completion_tokens = 0, cached_tokens = 0;
  int32_t n = 0, max_tokens = 0;
  float temperature = -1, top_p = -1;
  uint64_t seed = 0;
  double first_token_s = -1;
  std::string finish;               // "stop", "length", "cancelled", "error"
  bool client_gone = false;
};

struct Call {
  const HttpRequest& http;
  PeerWatch& peer;
  const Services* services;         // null while loading
  Metrics& metrics;
  std::string request_id;           // what x-request-id says; see take_request_id
  std::string key_salt;             // of the API key that was used; "" without one
  std::shared_ptr<CallRecord> record;
};

// One function per endpoint, each in the file of its name. `services` is never null in these.
HttpResponse chat_completions(Call& call);
HttpResponse completions(Call& call);
HttpResponse models(Call& call);
HttpResponse tokenize(Call& call);
HttpResponse detokenize(Call& call);
HttpResponse apply_template(Call& call);
HttpResponse tokenizer_info(Call& call);
HttpResponse info(Call& call);
HttpResponse responses(Call& call);
HttpResponse response_input_tokens(Call& call);
HttpResponse stored_response(Call& call);  // GET and DELETE
HttpResponse response_input_items(Call& call);
HttpResponse cancel_response(Call& call);
HttpResponse messages(Call& call);
HttpResponse count_message_tokens(Call& call);

}  // namespace slipstream::api
