// The program's subcommands; nothing else. Each reads its own arguments.
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "config/check_config.h"
#include "config/load.h"
#include "engine/grammar/schema_keywords.h"
#include "server/api/parameter_table.h"
#include "server/bench.h"
#include "server/build_info.h"
#include "server/calibrate_command.h"
#include "server/doctor_command.h"
#include "server/healthcheck.h"
#include "server/serve.h"

namespace slipstream {
namespace {

constexpr const char* kUsage =
    "usage: slipstream COMMAND …\n"
    "  serve MODEL [flags]     answer OpenAI clients; `slipstream serve --help` lists the flags\n"
    "  check-config FILE       read a configuration as serve would, and say what is wrong\n"
    "  doctor MODEL [flags]    what is wrong with a model, file, backend or kernel, layer by layer\n"
    "  calibrate-drafter TARGET DRAFTER [flags]  find the conventions of a DFlash drafter, or check its config\n"
    "  bench URL [flags]       measure any OpenAI endpoint\n"
    "  healthcheck [--port P]  exit 0 when a server is ready\n"
    "  parameters              the table of request parameters, as JSON\n"
    "  json-schema             the keywords of JSON Schema that structured output enforces, as JSON\n"
    "  --version, --help\n";

int run(const std::string& command, const std::vector<std::string>& args) {
  if (command == "serve") return run_serve(args);
  if (command == "check-config") return run_check_config(args);
  if (command == "doctor") return run_doctor_command(args);
  if (command == "calibrate-drafter") return run_calibrate_command(args);
  if (command == "bench") return run_bench(args);
  if (command == "healthcheck") return run_healthcheck(args);
  if (command == "parameters") {
    std::printf("%s\n", api::parameter_table_json().c_str());
    return 0;
  }
  if (command == "json-schema") {
    std::printf("%s\n", grammar::schema_keywords_json().c_str());
    return 0;
  }
  if (command == "--version" || command == "version") {
    std::printf("slipstream %s\n", std::string(kVersion).c_str());
    return 0;
  }
  if (command == "--help" || command == "-h" || command == "help") {
    std::fputs(kUsage, stdout);
    return 0;
  }
  std::fprintf(stderr, "slipstream: unknown command \"%s\"\n%s", command.substr(0, 64).c_str(), kUsage);
  return kExitBadConfig;
}

}  // namespace
}  // namespace slipstream

int main(int argc, char** argv) {
  using namespace slipstream;
  if (argc < 2) {
    std::fputs(kUsage, stderr);
    return kExitBadConfig;
  }
  try {
    return run(argv[1], std::vector<std::string>(argv + 2, argv + argc));
  } catch (const std::exception& error) {
    // the one catch of last resort: device errors while loading, memory that ran out
    std::fprintf(stderr, "slipstream %s: %s\n", argv[1], error.what());
    return kExitBadConfig;
  }
}
