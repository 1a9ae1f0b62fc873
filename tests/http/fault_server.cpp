// `slipstream serve` with a device that fails: `fault_server --fault=POINT@STEP [--fault-spans=N] [flags of serve] MODEL`. Points
// are those of faulty_executor.h; STEP counts, from 1, the forwards of at least N spans (1).
#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "config/load.h"
#include "engine/base/log.h"
#include "server/load_model.h"
#include "tests/http/faulty_executor.h"

using namespace slipstream;

namespace {

int refuse(const std::string& why) {
  std::fprintf(stderr, "fault_server: %s\n", why.c_str());
  return kExitBadConfig;
}

}  // namespace

int main(int argc, char** argv) {
  auto faults = std::make_shared<FaultSchedule>();
  std::vector<std::string> args;
  int64_t spans = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string arg = argv[i];
    if (arg.starts_with("--fault-spans=")) {
      std::from_chars(arg.data() + 14, arg.data() + arg.size(), spans);
      continue;
    }
    if (!arg.starts_with("--fault=")) {
      args.push_back(arg);
      continue;
    }
    const size_t at = arg.find('@');
    const std::string point = arg.substr(8, at - 8);
    int64_t step = 0;
    if (at != std::string::npos) std::from_chars(arg.data() + at + 1, arg.data() + arg.size(), step);
    if (!test::is_fault_point(point) || step < 1) return refuse(arg + " is no --fault=POINT@STEP");
    faults->fire_at(point, step);
  }
  auto config = load_config(args);
  if (!config.ok()) return refuse(config.error().message);
  log::init(config->server.log_level, config->server.log_format);
  return run_server(*config, [&](const Config& settings, EngineHooks hooks, const std::function<void(std::string)>& progress) {
    return load_decorated_model(settings, std::move(hooks), progress, [&](std::unique_ptr<StepExecutor> executor, Ops& ops) {
      return test::make_faulty_executor(std::move(executor), ops, faults, static_cast<size_t>(spans));
    });
  });
}
