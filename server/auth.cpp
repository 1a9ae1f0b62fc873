// See auth.h.
#include "server/auth.h"

#include <sstream>

#include "engine/base/text_file.h"

namespace slipstream {
namespace {

std::string_view trimmed(std::string_view text) {
  const char* blanks = " \t\r\n";
  const size_t first = text.find_first_not_of(blanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(blanks) - first + 1);
}

/// The key of `Authorization: Bearer K` or `X-Api-Key: K`; "" when neither is there.
std::string_view given_key(const HttpRequest& request) {
  const std::string_view authorization = request.header("authorization");
  if (authorization.size() > 7) {
    constexpr std::string_view scheme = "bearer ";
    bool bearer = true;
    for (size_t i = 0; i < scheme.size(); ++i)
      bearer = bearer && (authorization[i] | 0x20) == (scheme[i] | 0x20);
    if (bearer) return trimmed(authorization.substr(scheme.size()));
  }
  return request.header("x-api-key");
}

bool holds(const std::vector<Sha256>& keys, const Sha256& key) {
  bool found = false;
  for (const Sha256& known : keys) found = equal_constant_time(known, key) || found;
  return found;
}

}  // namespace

Result<Auth> Auth::create(const std::vector<std::string>& keys, const std::string& key_file,
                          const std::string& metrics_key) {
  Auth out;
  for (const std::string& key : keys) {
    if (trimmed(key).empty()) return invalid_argument("api-key: an empty key; give a key or leave it out", "api-key");
    out.keys_.push_back(sha256(trimmed(key)));
  }
  if (!key_file.empty()) {
    constexpr int64_t kLimitBytes = 1 << 20;
    SLIP_TRY(const std::string text, read_text_file(key_file, "api-key-file", kLimitBytes));
    std::istringstream file(text);
    size_t count = 0;
    for (std::string line; std::getline(file, line);) {
      const std::string_view key = trimmed(line);
      if (key.empty() || key.front() == '#') continue;
      out.keys_.push_back(sha256(key));
      ++count;
    }
    if (count == 0) return invalid_argument("api-key-file: " + key_file + " holds no key", "api-key-file");
  }
  if (!metrics_key.empty()) out.metrics_keys_.push_back(sha256(trimmed(metrics_key)));
  return out;
}

Auth::Verdict Auth::judge(const HttpRequest& request) const {
  Verdict verdict;
  const std::string_view key = given_key(request);
  verdict.key_given = !key.empty();
  const Sha256 hash = sha256(key);
  const bool is_key = verdict.key_given && holds(keys_, hash);
  if (is_key) verdict.key_salt = to_hex(sha256("salt|" + to_hex(hash))).substr(0, 16);

  const bool health = request.path == "/health" || request.path.starts_with("/health/");
  if (health || request.path == "/" || request.method == "OPTIONS")  // the page itself tells nothing
    verdict.allowed = true;
  else if (request.path == "/metrics")
    verdict.allowed = metrics_keys_.empty() || is_key || (verdict.key_given && holds(metrics_keys_, hash));
  else
    verdict.allowed = keys_.empty() || is_key;
  return verdict;
}

}  // namespace slipstream
