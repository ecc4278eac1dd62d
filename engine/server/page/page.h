// The page at "/": a chat in a browser, one file that names no other address.
#pragma once

#include "engine/server/http/message.h"

namespace serval::server {

HttpResponse chat_page();

}  // namespace serval::server
