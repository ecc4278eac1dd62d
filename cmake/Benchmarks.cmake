# serval_benchmark(NAME source...): one Google Benchmark executable; the target `bench` builds and runs all of them.
find_package(benchmark REQUIRED)
add_custom_target(bench)

function(serval_benchmark name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE serval serval_options benchmark::benchmark_main)
  add_custom_target(run_${name} COMMAND ${name} USES_TERMINAL VERBATIM)
  add_dependencies(bench run_${name})
endfunction()
