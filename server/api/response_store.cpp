// See response_store.h.
#include "server/api/response_store.h"

namespace slipstream::api {
namespace {

constexpr int64_t kEntryBytes = 512;  // the nodes of the list and the maps

int64_t size_of(const StoredResponse& response) {
  auto bytes = static_cast<int64_t>(response.body.size() + response.input.size() + response.conversation.size()) + kEntryBytes;
  for (const auto& [id, text] : response.items) bytes += static_cast<int64_t>(2 * id.size() + text.size()) + kEntryBytes;
  return bytes;
}

}  // namespace

void ResponseStore::put(const std::string& key, const std::string& id, StoredResponse response) {
  const int64_t bytes = size_of(response);
  if (bytes > limit_bytes_) return;
  std::lock_guard lock(mutex_);
  if (const auto old = by_id_.find({key, id}); old != by_id_.end()) remove(old->second);
  while (bytes_ + bytes > limit_bytes_) remove(std::prev(entries_.end()));
  entries_.push_front({{key, id}, std::make_shared<const StoredResponse>(std::move(response)), bytes});
  bytes_ += bytes;
  by_id_[{key, id}] = entries_.begin();
  for (const auto& [item, text] : entries_.front().response->items) by_item_[{key, item}] = entries_.begin();
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& key, const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find({key, id});
  if (found == by_id_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->response;
}

std::optional<std::string> ResponseStore::find_item(const std::string& key, const std::string& item_id) {
  std::lock_guard lock(mutex_);
  const auto found = by_item_.find({key, item_id});
  if (found == by_item_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  for (const auto& [id, text] : found->second->response->items)
    if (id == item_id) return text;
  return std::nullopt;
}

bool ResponseStore::erase(const std::string& key, const std::string& id) {
  std::lock_guard lock(mutex_);
  const auto found = by_id_.find({key, id});
  if (found == by_id_.end()) return false;
  remove(found->second);
  return true;
}

int64_t ResponseStore::bytes() const {
  std::lock_guard lock(mutex_);
  return bytes_;
}

void ResponseStore::remove(std::list<Entry>::iterator entry) {
  bytes_ -= entry->bytes;
  by_id_.erase(entry->name);
  for (const auto& [item, text] : entry->response->items) {
    // a later response may have brought the same item again
    const auto found = by_item_.find({entry->name.first, item});
    if (found != by_item_.end() && found->second == entry) by_item_.erase(found);
  }
  entries_.erase(entry);
}

}  // namespace slipstream::api
