# What wraps every compilation: ccache where it is installed.

find_program(SERVAL_CCACHE ccache)
mark_as_advanced(SERVAL_CCACHE)
if(SERVAL_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${SERVAL_CCACHE})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${SERVAL_CCACHE})
endif()
