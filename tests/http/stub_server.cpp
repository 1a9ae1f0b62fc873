// The whole edge over a model without weights: `stub_server [--stub-* …] [flags of serve]`.
#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "config/load.h"
#include "engine/base/log.h"
#include "server/api/parameter_table.h"
#include "tests/http/stub_model.h"

using namespace slipstream;

int main(int argc, char** argv) {
  stub::StubOptions options;
  std::vector<std::string> args = {"stub"};
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    const size_t equals = arg.find('=');
    const std::string name = arg.substr(0, equals);
    int value = 0;
    if (equals != std::string::npos) std::from_chars(arg.data() + equals + 1, arg.data() + arg.size(), value);
    if (name == "--stub-step-us")
      options.step_delay = std::chrono::microseconds(value);
    else if (name == "--stub-context")
      options.context = value;
    else if (name == "--stub-blocks")
      options.blocks = value;
    else if (name == "--stub-drafts")
      options.drafts = value;
    else if (name == "--stub-nan-row")
      options.nan_row = value;
    else if (name == "--stub-device-error")
      options.device_error = value;
    else if (name == "--stub-load-ms")
      options.load_delay = std::chrono::milliseconds(value);
    else if (name == "--stub-script")
      options.script = true;
    else if (name == "--stub-special")
      options.specials.push_back(arg.substr(equals + 1));
    else if (name == "--stub-no-thread")
      options.no_thread = true;
    else if (name == "--stub-parameters") {
      std::printf("%s\n", api::parameter_table_json().c_str());
      return 0;
    } else if (name == "--stub-no-template")
      options.chat_template = false;
    else
      args.push_back(arg);
  }
  auto config = load_config(args);
  if (!config.ok()) {
    std::fprintf(stderr, "stub_server: %s\n", config.error().message.c_str());
    return kExitBadConfig;
  }
  log::init(config->server.log_level, config->server.log_format);
  return run_server(*config, stub::make_loader(options));
}
