// Rows of the flag table: the HTTP edge, logs and the program's own switches.
#include "config/flag.h"

namespace slipstream::config {

std::vector<Flag> server_flags() {
  std::vector<Flag> rows;
  const std::string_view http = "HTTP", auth = "Keys and origins", watch = "Logs and metrics", program = "Program";

  rows.push_back({.name = "host", .field = SLIP_FIELD(server.host), .group = http, .metavar = "ADDRESS",
                  .help = "Address to listen on; the container image sets 0.0.0.0."});
  rows.push_back({.name = "port", .field = SLIP_FIELD(server.port), .group = http, .metavar = "N",
                  .help = "Port of the API; 0 picks a free one.", .min = 0, .max = 65535});
  rows.push_back({.name = "ops-host", .field = SLIP_FIELD(server.ops_host), .group = http, .metavar = "ADDRESS",
                  .help = "Address of the second listener (health and metrics only)."});
  rows.push_back({.name = "ops-port", .field = SLIP_FIELD(server.ops_port), .group = http, .metavar = "N",
                  .help = "Port of the second listener; 0 switches it off.", .min = 0, .max = 65535});
  rows.push_back({.name = "served-model-name", .field = SLIP_FIELD(server.served_model_names), .group = http,
                  .metavar = "NAME", .help = "Names that requests may use for the model; the first is shown.",
                  .aliases = {{"alias"}, {"a"}}});
  rows.push_back({.name = "any-model-name", .field = SLIP_FIELD(server.any_model_name), .group = http,
                  .help = "Answer requests whatever model they name."});
  rows.push_back({.name = "web-page", .field = SLIP_FIELD(server.web_page), .group = http,
                  .help = "Serve a small chat page at /; it asks for the API key when one is set.",
                  .aliases = {{"webui"}}});
  rows.push_back({.name = "response-store-mb", .field = SLIP_FIELD(server.response_store_mb), .group = http, .metavar = "MB",
                  .help = "Memory for responses that ask for store: true; the least recently used go first, 0 stores none.",
                  .min = 0, .max = 1 << 20});
  rows.push_back({.name = "max-streams", .field = SLIP_FIELD(server.max_streams), .group = http, .metavar = "N",
                  .help = "Requests handled at once; health is served beside them.", .min = 1, .max = 65536,
                  .aliases = {{"threads-http"}}});
  rows.push_back({.name = "max-connections", .field = SLIP_FIELD(server.max_connections), .group = http,
                  .metavar = "N", .help = "Open connections at once; further ones are closed.", .min = 1,
                  .max = 1 << 20});
  rows.push_back({.name = "shutdown-timeout", .field = SLIP_FIELD(server.shutdown_timeout_s), .group = http,
                  .metavar = "SECONDS", .help = "How long SIGTERM waits for running requests.", .min = 0,
                  .max = 86400});
  rows.push_back({.name = "request-timeout", .field = SLIP_FIELD(server.request_timeout_s), .group = http,
                  .metavar = "SECONDS", .help = "Longest time that one request may take.", .min = 1, .max = 604800,
                  .aliases = {{"timeout"}, {"to"}}});
  rows.push_back({.name = "keep-alive-comment", .field = SLIP_FIELD(server.keep_alive_comment_s), .group = http,
                  .metavar = "SECONDS",
                  .help = "A stream without a token for this long gets a comment line, if the scheduler moved.",
                  .min = 1, .max = 3600, .aliases = {{"sse-ping-interval"}}});

  rows.push_back({.name = "api-key", .field = SLIP_FIELD(server.api_keys), .group = auth, .metavar = "KEY",
                  .help = "Key that requests must carry (repeatable); the environment or --api-key-file hides it.",
                  .secret = true});
  rows.push_back({.name = "api-key-file", .field = SLIP_FIELD(server.api_key_file), .group = auth, .metavar = "FILE",
                  .help = "File with one key a line, added to --api-key."});
  rows.push_back({.name = "metrics-api-key", .field = SLIP_FIELD(server.metrics_api_key), .group = auth,
                  .metavar = "KEY", .help = "Key that /metrics asks for; open without it.", .secret = true});
  rows.push_back({.name = "allowed-origins", .field = SLIP_FIELD(server.allowed_origins), .group = auth,
                  .metavar = "ORIGIN", .help = "Origins that get CORS headers, or * for all (repeatable).",
                  .aliases = {{"cors-origins"}, {"cors-allow-origins"}}});

  rows.push_back({.name = "metrics-prefix", .field = SLIP_FIELD(server.metrics_prefix), .group = watch,
                  .metavar = "NAME", .help = "Prefix of the Prometheus series; vllm gives vLLM's names."});
  rows.push_back({.name = "log-level", .field = SLIP_FIELD(server.log_level), .group = watch, .metavar = "LEVEL",
                  .help = "trace, debug, info, warn or error.",
                  .choices = {"trace", "debug", "info", "warn", "error"},
                  .values = {{"warning", "warn"}, {"critical", "error"}},
                  .aliases = {{"uvicorn-log-level"}, {"verbose", false, "debug"}, {"v", false, "debug"}}});
  rows.push_back({.name = "log-format", .field = SLIP_FIELD(server.log_format), .group = watch, .metavar = "FORMAT",
                  .help = "text or json.", .choices = {"text", "json"},
                  .aliases = {{"log-jsonl", false, "json"}}});
  rows.push_back({.name = "log-requests", .field = SLIP_FIELD(server.log_requests), .group = watch,
                  .help = "Add the parameters of each request to its log line; never prompt text.",
                  .aliases = {{"enable-log-requests"}, {"disable-log-requests", true}}});

  rows.push_back({.name = "config", .treatment = Treatment::kAction, .group = program, .metavar = "FILE",
                  .help = "YAML file whose keys are these flags' names."});
  rows.push_back({.name = "print-config", .treatment = Treatment::kAction, .group = program,
                  .help = "Print every effective value and where it came from, then stop.",
                  .arity = Arity::kFlag});
  rows.push_back({.name = "json", .treatment = Treatment::kAction, .group = program,
                  .help = "With --print-config: as JSON.", .arity = Arity::kFlag});
  rows.push_back({.name = "help", .treatment = Treatment::kAction, .group = program, .help = "This text.",
                  .arity = Arity::kFlag, .aliases = {{"h"}}});
  return rows;
}

}  // namespace slipstream::config
