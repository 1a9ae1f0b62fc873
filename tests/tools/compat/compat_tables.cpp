// {"flags": [...], "parameters": [...]}: the program's own tables, for scripts/make_compat and its test.
#include <cstdio>

#include "config/flag_json.h"
#include "server/api/parameter_table.h"

int main() {
  std::printf("{\"flags\": %s, \"parameters\": %s}\n", slipstream::config::flag_table_json().c_str(),
              slipstream::api::parameter_table_json().c_str());
  return 0;
}
