// The page at "/": a chat for the browser. One file without references to other addresses.
#pragma once

#include "engine/server/http/message.h"

namespace serval::server {

HttpResponse chat_page();

}  // namespace serval::server
