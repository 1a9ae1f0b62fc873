// Responses of /v1/responses that a client asked to keep: in memory, bounded in bytes, the least recently used go first. A key's
// responses are its own. Knows no HTTP and nothing of what a response says. Thread-safe.
#pragma once

#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace slipstream::api {

/// All as JSON texts.
struct StoredResponse {
  std::string body;          // the response
  std::string input;         // the items that were sent
  std::string conversation;  // all items so far: those before, those sent, those answered
  std::vector<std::pair<std::string, std::string>> items;  // id and text of those sent and answered
};

class ResponseStore {
 public:
  /// 0: keeps nothing.
  explicit ResponseStore(int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  bool enabled() const { return limit_bytes_ > 0; }
  /// One that alone exceeds the limit is not kept.
  void put(const std::string& key, const std::string& id, StoredResponse response);
  /// Null when there is none of that key.
  std::shared_ptr<const StoredResponse> find(const std::string& key, const std::string& id);
  /// The text of one item of any stored response of that key.
  std::optional<std::string> find_item(const std::string& key, const std::string& item_id);
  bool erase(const std::string& key, const std::string& id);
  int64_t bytes() const;

 private:
  using Name = std::pair<std::string, std::string>;  // key, id
  struct Entry {
    Name name;
    std::shared_ptr<const StoredResponse> response;
    int64_t bytes = 0;
  };
  void remove(std::list<Entry>::iterator entry);

  const int64_t limit_bytes_;
  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // most recently used first
  std::map<Name, std::list<Entry>::iterator> by_id_;
  std::map<Name, std::list<Entry>::iterator> by_item_;
  int64_t bytes_ = 0;
};

}  // namespace slipstream::api
