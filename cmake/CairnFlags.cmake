# How everything is compiled. `cairn_strict` carries the flags of all code of this tree; programs and the
# library link to it privately, so that none of it reaches users of the installed package.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_FLAGS_RELEASE "-O2")
set(CMAKE_C_FLAGS_DEBUG "-O0 -g3")

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

add_library(cairn_strict INTERFACE)
target_compile_options(cairn_strict INTERFACE
  -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla
  -Wno-missing-field-initializers # rows of tables name what they have
  -fwrapv -ffp-contract=off)
if(CMAKE_C_COMPILER_ID MATCHES "Clang") # a loop that it may vectorise (CNI_IVDEP) but does not is no fault
  target_compile_options(cairn_strict INTERFACE -Wno-pass-failed)
endif()
if(CAIRN_WERROR)
  target_compile_options(cairn_strict INTERFACE -Werror)
endif()

# -O3 of the vector units is dropped where it would only cost compile time.
set(CAIRN_ISA_OPT -O3)
if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  set(CAIRN_ISA_OPT "")
endif()

set(CAIRN_SANITIZE_FLAGS "")
if(CAIRN_SANITIZE STREQUAL "address" OR CAIRN_SANITIZE STREQUAL "fuzzer")
  set(CAIRN_SANITIZE_FLAGS -fsanitize=address,undefined -fno-sanitize-recover=all)
elseif(CAIRN_SANITIZE STREQUAL "thread")
  set(CAIRN_SANITIZE_FLAGS -fsanitize=thread)
elseif(NOT CAIRN_SANITIZE STREQUAL "")
  message(FATAL_ERROR "CAIRN_SANITIZE is empty, address, thread or fuzzer, not '${CAIRN_SANITIZE}'")
endif()
if(CAIRN_SANITIZE_FLAGS)
  add_compile_options(${CAIRN_SANITIZE_FLAGS} -fno-omit-frame-pointer)
  add_link_options(${CAIRN_SANITIZE_FLAGS})
  set(CAIRN_ISA_OPT -O1)
endif()
if(CAIRN_SANITIZE STREQUAL "fuzzer")
  if(NOT CMAKE_C_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "CAIRN_SANITIZE=fuzzer needs clang (-DCMAKE_C_COMPILER=clang)")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# Ways to a smaller library that the linker and, for packed relocations, the C library's loader must know.
set(CAIRN_SMALL_LINK "")
include(CheckLinkerFlag)
check_linker_flag(C -Wl,-z,noseparate-code CAIRN_LINKS_TOGETHER)
if(CAIRN_LINKS_TOGETHER)
  list(APPEND CAIRN_SMALL_LINK -Wl,-z,noseparate-code)
endif()
if(NOT CMAKE_CROSSCOMPILING AND NOT DEFINED CAIRN_PACKS_RELOCATIONS)
  file(WRITE ${PROJECT_BINARY_DIR}/check/relocated.c
    "static int value;\nint *const table[] = {&value, &value, &value};\nint main(void) { return *table[1]; }\n")
  try_run(CAIRN_PACKED_RUNS CAIRN_PACKED_LINKS ${PROJECT_BINARY_DIR}/check ${PROJECT_BINARY_DIR}/check/relocated.c
    LINK_OPTIONS -pie -Wl,-z,pack-relative-relocs COMPILE_DEFINITIONS -fPIE)
  set(packs OFF)
  if(CAIRN_PACKED_LINKS AND CAIRN_PACKED_RUNS EQUAL 0)
    set(packs ON)
  endif()
  set(CAIRN_PACKS_RELOCATIONS ${packs} CACHE INTERNAL "relative relocations can be packed")
endif()
if(CAIRN_PACKS_RELOCATIONS)
  list(APPEND CAIRN_SMALL_LINK -Wl,-z,pack-relative-relocs)
endif()
