# Inserts style and script into page.html and compiles the page into the executable as one string literal.
set(page_folder ${CMAKE_CURRENT_SOURCE_DIR}/page)
file(READ ${page_folder}/page.html page)
file(READ ${page_folder}/page.css style)
file(READ ${page_folder}/page.js script)
string(CONFIGURE "${page}" page @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
  ${page_folder}/page.html ${page_folder}/page.css ${page_folder}/page.js)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/page.cc @ONLY CONTENT [[
#include "engine/server/page/page.h"

namespace serval::server {

HttpResponse chat_page() {
  return {.content_type = "text/html; charset=utf-8",
          .headers = {{"Content-Security-Policy",
                       "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; "
                       "connect-src 'self'; img-src data:; frame-ancestors 'none'; base-uri 'none'"},
                      {"Cache-Control", "no-cache"}},
          .body = R"page(@page@)page"};
}

}  // namespace serval::server
]])
target_sources(serval_server PRIVATE ${CMAKE_CURRENT_BINARY_DIR}/page.cc)
