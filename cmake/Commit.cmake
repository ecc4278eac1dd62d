# The commit that is built, as a header that changes only when the commit does: generated/serval_commit.h. Run as a
# script at every build (-P), and included once to set that up.
if(CMAKE_SCRIPT_MODE_FILE)
  execute_process(COMMAND git -c safe.directory=* -C ${SOURCE_DIR} describe --always --dirty --abbrev=12 --exclude=*
                  OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  if(NOT commit)
    set(commit unknown)
  endif()
  file(CONFIGURE OUTPUT ${HEADER} @ONLY CONTENT
       "#pragma once\n\nnamespace serval {\n\ninline constexpr const char* kCommit = \"${commit}\";\n\n}  // namespace serval\n")
  return()
endif()

set(serval_commit_header ${CMAKE_BINARY_DIR}/generated/serval_commit.h)
add_custom_target(serval_commit BYPRODUCTS ${serval_commit_header}
  COMMAND ${CMAKE_COMMAND} -D SOURCE_DIR=${PROJECT_SOURCE_DIR} -D HEADER=${serval_commit_header}
          -P ${CMAKE_CURRENT_LIST_FILE}
  COMMENT "Looking at the commit" VERBATIM)
