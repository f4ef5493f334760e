# One function a kind of target, so that every module is declared the same way and nothing is globbed.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_SCAN_FOR_MODULES OFF)
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# Flags of our own targets. Contraction is off everywhere: whether a*b+c is fused must not depend on the machine,
# since floats reach the bytes that a batch is compared by.
add_library(offpath_flags INTERFACE)
target_compile_options(offpath_flags INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wconversion
                       -Wno-sign-conversion -ffp-contract=off $<$<BOOL:${OFFPATH_WERROR}>:-Werror>
                       # g++ 12 at -O3 sees overlaps and overruns in std::string's own operators (GCC bugs 105651,
                       # 105329); clang and the sanitizers watch over the same code.
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict> $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overflow>
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-stringop-overread>)
if(OFFPATH_SANITIZE)
  target_compile_options(offpath_flags INTERFACE -fsanitize=${OFFPATH_SANITIZE} -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  target_link_options(offpath_flags INTERFACE -fsanitize=${OFFPATH_SANITIZE})
endif()
if(OFFPATH_BUILD_FUZZ)
  # The fuzzer is led by the coverage of the libraries, not of the targets alone.
  target_compile_options(offpath_flags INTERFACE -fsanitize=fuzzer-no-link)
  target_link_options(offpath_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# offpath_module(base SOURCES a.cc HEADERS a.h PUBLIC offpath::x PRIVATE fmt::fmt)
# A static library offpath_<name> with the alias offpath::<name>; headers are included as "offpath/base/a.h", are
# installed, and each is compiled alone by the target all_verify_interface_header_sets.
# ADAPTER: it stands on a framework, and is not installed: whoever uses it would need the same build of that.
function(offpath_module name)
  cmake_parse_arguments(ARG "ADAPTER" "" "SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
  add_library(offpath_${name} STATIC ${ARG_SOURCES})
  add_library(offpath::${name} ALIAS offpath_${name})
  target_sources(offpath_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${ARG_HEADERS})
  set_target_properties(offpath_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(offpath_${name} PUBLIC cxx_std_20)
  target_link_libraries(offpath_${name} PUBLIC ${ARG_PUBLIC} PRIVATE ${ARG_PRIVATE} $<BUILD_INTERFACE:offpath_flags>)
  if(NOT ARG_ADAPTER)
    set_property(GLOBAL APPEND PROPERTY OFFPATH_MODULES offpath_${name})
  endif()
endfunction()

# offpath_test(codec SOURCES rows_test.cc LINK offpath::codec [LABELS quick] [THREADS])
# A GoogleTest program <name>_test. The label `quick` (the default) also runs under the sanitizers; `slow` does not.
# THREADS: it starts threads, so that it is built under the thread sanitizer too, where others prove nothing.
function(offpath_test name)
  cmake_parse_arguments(ARG "THREADS" "" "SOURCES;LINK;LABELS" ${ARGN})
  if(OFFPATH_SANITIZE MATCHES thread AND NOT ARG_THREADS)
    return()
  endif()
  if(NOT ARG_LABELS)
    set(ARG_LABELS quick)
  endif()
  add_executable(${name}_test ${ARG_SOURCES})
  target_link_libraries(${name}_test PRIVATE ${ARG_LINK} GTest::gmock GTest::gtest_main offpath_flags)
  target_include_directories(${name}_test PRIVATE ${PROJECT_SOURCE_DIR})
  # As with the warnings above: g++ 12 at -O3 sees overruns in "r" + std::to_string(i).
  target_compile_options(${name}_test PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-array-bounds>)
  # One precompiled header for all of them: compiling GoogleTest's headers once a program would cost more than
  # compiling the tests.
  if(NOT TARGET offpath_test_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/offpath_test_pch.cc "int main() {}\n")
    add_executable(offpath_test_pch EXCLUDE_FROM_ALL ${PROJECT_BINARY_DIR}/offpath_test_pch.cc)
    target_link_libraries(offpath_test_pch PRIVATE GTest::gmock GTest::gtest offpath_flags)
    target_precompile_headers(offpath_test_pch PRIVATE <gtest/gtest.h> <gmock/gmock.h> <vector> <string> <random>)
  endif()
  target_precompile_headers(${name}_test REUSE_FROM offpath_test_pch)
  gtest_discover_tests(${name}_test DISCOVERY_MODE PRE_TEST DISCOVERY_TIMEOUT 60
                       PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT 300)
endfunction()

# offpath_fuzz(npy SOURCES npy_fuzz.cc LINK offpath::base [RUNS 20000])
# A libFuzzer program <name>_fuzz, and a test labelled `fuzz` that runs it for a fixed number of inputs.
function(offpath_fuzz name)
  cmake_parse_arguments(ARG "" "RUNS" "SOURCES;LINK" ${ARGN})
  if(NOT ARG_RUNS)
    set(ARG_RUNS 20000)
  endif()
  add_executable(${name}_fuzz ${ARG_SOURCES})
  target_link_libraries(${name}_fuzz PRIVATE ${ARG_LINK} offpath_flags)
  target_include_directories(${name}_fuzz PRIVATE ${PROJECT_SOURCE_DIR})
  target_compile_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  target_link_options(${name}_fuzz PRIVATE -fsanitize=fuzzer)
  add_test(NAME fuzz_${name} COMMAND ${name}_fuzz -runs=${ARG_RUNS} -seed=1 -max_len=4096 -timeout=10 -rss_limit_mb=2048)
  set_tests_properties(fuzz_${name} PROPERTIES LABELS fuzz TIMEOUT 300)
endfunction()

# offpath_bench(codec SOURCES codec_bench.cc LINK offpath::codec)  ->  program bench_<name>
function(offpath_bench name)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINK" ${ARGN})
  add_executable(bench_${name} ${ARG_SOURCES})
  target_link_libraries(bench_${name} PRIVATE ${ARG_LINK} offpath_flags)
  target_include_directories(bench_${name} PRIVATE ${PROJECT_SOURCE_DIR})
endfunction()
