// `slipstream serve`: settings, then run_server over the real model.
#include <cstdio>

#include "config/load.h"
#include "engine/base/log.h"
#include "server/load_model.h"
#include "server/serve.h"

namespace slipstream {

int run_serve(const std::vector<std::string>& args) {
  for (const std::string& arg : args) {
    if (arg == "--help" || arg == "-h") {
      std::fputs(serve_help().c_str(), stdout);
      return 0;
    }
  }
  std::vector<std::string> rest;
  bool print = false, json = false;
  for (const std::string& arg : args) {
    if (arg == "--print-config")
      print = true;
    else if (arg == "--json")
      json = true;
    else
      rest.push_back(arg);
  }
  auto config = load_config(rest);
  if (!config.ok()) {
    std::fprintf(stderr, "slipstream serve: %s\n", config.error().message.c_str());
    return kExitBadConfig;
  }
  if (print) {
    std::fputs(describe_config(*config, json).c_str(), stdout);
    return 0;
  }
  log::init(config->server.log_level, config->server.log_format);
  return run_server(*config, load_served_model);
}

}  // namespace slipstream
