// The page at /: a chat with the served model and the server's numbers, as one document without outside parts. Its sources are
// index.html, style.css and chat.js beside this file, compiled in.
#pragma once

#include "server/http_message.h"

namespace slipstream {

/// The page with a content security policy that lets its own script and style run and nothing else.
HttpResponse page();

}  // namespace slipstream
