// The flag table itself: names are distinct and reachable, every setting can be set from each of its spellings.
#include "config/flag.h"

#include <set>

#include "load_case.h"
#include "tests/catch.h"

using namespace slipstream;
using namespace slipstream::config;

TEST_CASE("no name stands for two things") {
  std::set<std::string> seen;
  for (const Flag& flag : flags()) {
    INFO(flag.name);
    CHECK(seen.insert(std::string(flag.name)).second);
    CHECK(flag.name == normalised(flag.name));
    CHECK_FALSE(flag.help.empty());
    for (const Alias& alias : flag.aliases) {
      INFO(alias.name);
      CHECK(seen.insert(std::string(alias.name)).second);
      CHECK(find_flag(alias.name).flag == &flag);
    }
  }
  CHECK(seen.size() > 150);
}

TEST_CASE("every spelling of serving settings reaches its field") {
  for (const Flag& flag : flags()) {
    if (flag.treatment != Treatment::kSet) continue;
    INFO(flag.name);
    CHECK(find_flag(flag.name).flag == &flag);
    CHECK_FALSE(std::holds_alternative<std::monostate>(flag.field));
    CHECK(load_args({"--no-such"}).ok() == false);
    CHECK((is_switch(flag) || !flag.metavar.empty()));
  }
}

TEST_CASE("edit distance") {
  CHECK(edit_distance("port", "port") == 0);
  CHECK(edit_distance("prot", "port") == 1);
  CHECK(edit_distance("kitten", "sitting") == 3);
  CHECK(edit_distance("", "abc") == 3);
}

TEST_CASE("names of the environment") {
  CHECK(env_name("max-num-seqs") == "SLIPSTREAM_MAX_NUM_SEQS");
  CHECK(env_name("speculative-config.prompt-lookup-max") == "SLIPSTREAM_SPECULATIVE_CONFIG__PROMPT_LOOKUP_MAX");
}
