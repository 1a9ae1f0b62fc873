// The flag table for other programs.
#pragma once

#include <string>

namespace slipstream::config {

/// A JSON array of {name, treatment, group, switch, metavar, aliases, help, default, env, refused_values}: what
/// docs/compatibility.md is made from and checked against.
std::string flag_table_json();

}  // namespace slipstream::config
