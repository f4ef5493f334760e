# llama.cpp: an installed one, or the one that scripts/llama.sh has built. Sets OFFPATH_LLAMA to ON where
# what is built on it can be compiled, else to OFF with the reason in OFFPATH_LLAMA_REASON.
find_package(llama CONFIG QUIET)
if(NOT llama_FOUND)
  find_package(llama CONFIG QUIET PATHS ${PROJECT_SOURCE_DIR}/build/llama NO_DEFAULT_PATH)
endif()
set(OFFPATH_LLAMA OFF)
if(NOT llama_FOUND)
  set(OFFPATH_LLAMA_REASON "not found: scripts/llama.sh builds it")
else()
  # Its interface changes often, and its version numbers do not say when.
  set(CMAKE_REQUIRED_LIBRARIES llama)
  include(CheckCXXSourceCompiles)
  check_cxx_source_compiles("#include <ggml-cpu.h>
    #include <llama.h>
    int main() {
      llama_context_params params = llama_context_default_params();
      params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
      params.kv_unified = true;
      params.n_outputs_max = 1;
      ggml_threadpool_params pool = ggml_threadpool_params_default(1);
      ggml_threadpool_free(ggml_threadpool_new(&pool));
      return llama_memory_seq_rm(nullptr, -1, 0, -1) && ggml_custom_4d != nullptr;
    }" OFFPATH_LLAMA_FITS)
  unset(CMAKE_REQUIRED_LIBRARIES)
  if(OFFPATH_LLAMA_FITS)
    set(OFFPATH_LLAMA ON)
    # Ours are held to them, not its headers.
    set_target_properties(llama PROPERTIES INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${LLAMA_INCLUDE_DIR}")
  else()
    set(OFFPATH_LLAMA_REASON "the one in ${llama_DIR} has another interface: scripts/llama.sh builds one that fits, -Dllama_DIR=${PROJECT_SOURCE_DIR}/build/llama/lib/cmake/llama takes it")
  endif()
endif()
if(NOT OFFPATH_LLAMA)
  message(STATUS "llama.cpp ${OFFPATH_LLAMA_REASON}")
endif()
