# The device interpreter's language. nvcc need not be on the PATH: CUDA's own folder is searched too.

find_program(SERVAL_NVCC nvcc HINTS ENV CUDACXX ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES bin)
mark_as_advanced(SERVAL_NVCC)
if(NOT SERVAL_NVCC)
  message(FATAL_ERROR "SERVAL_CUDA is ON, but nvcc was not found: install the CUDA toolkit (12.0 or later), set "
                      "CUDA_HOME to it, or configure without SERVAL_CUDA")
endif()
if(NOT CMAKE_CUDA_COMPILER)
  set(CMAKE_CUDA_COMPILER ${SERVAL_NVCC})
endif()
# The folders of the GPU's own code (docs/add_an_architecture.md).
set(SERVAL_GPU_ARCHITECTURE sm90)
# sm_90a: wgmma and setmaxnreg are Hopper's alone; the "a" says that no other GPU will run the code.
if(NOT CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90a-real)
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
enable_language(CUDA)
# CMake 3.25 (Debian 12) does not know yet that nvcc speaks C++20 since 12.0.
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
find_package(CUDAToolkit 12.0 REQUIRED)
