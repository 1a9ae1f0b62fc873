// Contents that are text, or a list of typed parts of which text is served: how /v1/responses and /v1/messages read them.
// Knows no role.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "server/api/request_schema.h"

namespace slipstream::api {

/// The type of an object that must have one, as a string.
Result<std::string> read_type(const Json& object, const std::string& at, const char* what);

/// A string member that must be there.
Result<std::string> read_text(const Json& object, const char* key, const std::string& at);

/// The refusal of a part or an item that is none of those served: by name when it is known, otherwise with what is served.
Error unserved_type(const std::string& type, const std::string& at, const char* what, std::string_view served);

/// A string, or parts whose types are among `types`, joined with newlines.
Result<std::string> read_text_parts(const Json& content, const std::string& at, std::initializer_list<std::string_view> types);

}  // namespace slipstream::api
