# Third-party libraries. What every build needs is required here; what is optional is found, and its absence is
# said in one line and by `offpath doctor`.

find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)
pkg_check_modules(hwy REQUIRED IMPORTED_TARGET libhwy)
pkg_check_modules(libzip REQUIRED IMPORTED_TARGET libzip)
pkg_check_modules(isal REQUIRED IMPORTED_TARGET libisal)

if(OFFPATH_BUILD_CLI)
  find_package(CLI11 REQUIRED)
  find_package(spdlog REQUIRED)
endif()
if(OFFPATH_BUILD_TESTS)
  find_package(GTest REQUIRED)
  include(GoogleTest)
endif()
if(OFFPATH_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
