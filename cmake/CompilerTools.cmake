# Tools that wrap every compilation: ccache where it is installed, clang-tidy where it is asked for.

find_program(SERVAL_CCACHE ccache)
mark_as_advanced(SERVAL_CCACHE)
if(SERVAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SERVAL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SERVAL_CCACHE})
endif()

if(SERVAL_CLANG_TIDY)
  # `make tidy` passes the release that tools/clang_tidy.txt pins, so that findings are the same on every machine.
  find_program(SERVAL_CLANG_TIDY_PROGRAM NAMES clang-tidy)
  mark_as_advanced(SERVAL_CLANG_TIDY_PROGRAM)
  if(NOT SERVAL_CLANG_TIDY_PROGRAM)
    message(FATAL_ERROR "SERVAL_CLANG_TIDY needs clang-tidy: run `make tidy`, which installs it")
  endif()
  # Warnings that only GCC knows must not trouble clang. The analyzer's default of 225,000 nodes for a function
  # takes half as long again and finds nothing more in this code.
  set(CMAKE_CXX_CLANG_TIDY ${SERVAL_CLANG_TIDY_PROGRAM} --quiet --extra-arg=-Wno-unknown-warning-option
      --extra-arg=-Xclang --extra-arg=-analyzer-config --extra-arg=-Xclang --extra-arg=max-nodes=50000)
endif()
