// Who may ask for what. One filter in front of all routes; knows paths by class only. Keys are kept as hashes and
// compared in constant time, all of them, whatever matched.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "engine/base/result.h"
#include "server/http_message.h"
#include "server/sha256.h"

namespace slipstream {

class Auth {
 public:
  /// Keys as given and from the file (one a line; blank lines and lines that start with # are skipped). Errors name
  /// the file.
  static Result<Auth> create(const std::vector<std::string>& keys, const std::string& key_file,
                             const std::string& metrics_key);

  struct Verdict {
    bool allowed = false;
    std::string key_salt;      // of the key that matched; "" when none is needed
    bool key_given = false;
  };
  /// Health paths and preflights are always open; /metrics needs the metrics key (or an API key) only when a metrics
  /// key is set; all else needs an API key when one is set.
  Verdict judge(const HttpRequest& request) const;
  bool required() const { return !keys_.empty(); }

 private:
  std::vector<Sha256> keys_;
  std::vector<Sha256> metrics_keys_;
};

}  // namespace slipstream
