# Tools that wrap every compilation: ccache where it is installed, clang-tidy where it is asked for.

find_program(SERVAL_CCACHE ccache)
mark_as_advanced(SERVAL_CCACHE)
if(SERVAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SERVAL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SERVAL_CCACHE})
endif()

if(SERVAL_CLANG_TIDY)
  # The distribution's own release, because an older one stumbles over the headers of a newer GCC.
  find_program(SERVAL_CLANG_TIDY_PROGRAM NAMES clang-tidy clang-tidy-14)
  mark_as_advanced(SERVAL_CLANG_TIDY_PROGRAM)
  if(NOT SERVAL_CLANG_TIDY_PROGRAM)
    message(FATAL_ERROR "SERVAL_CLANG_TIDY needs clang-tidy (Debian and Ubuntu package clang-tidy)")
  endif()
  # Warnings that only GCC knows must not trouble clang.
  set(CMAKE_CXX_CLANG_TIDY ${SERVAL_CLANG_TIDY_PROGRAM} --quiet --extra-arg=-Wno-unknown-warning-option)
endif()
