# The library: every object is compiled once and goes into both libcairn.so and libcairn.a.
# Vector code comes in two forms:
#   src/backends/cpu/**/NAME_isa.c   one text, compiled once per instruction set with CNI_ISA_LEVEL
#                                    (its number) and CNI_ISA_SUFFIX (its name: base, avx2, ...) defined
#   src/backends/cpu/**/{avx2,avx512,neon}/  code for that instruction set alone, with the same defines
# Nothing else may use instructions beyond the baseline of the machine's architecture.
set(CAIRN_FOLDERS
  base tensor ops autograd graph codegen compile backends/common backends/cpu backends/meta backends/mirror
  nn optim data dist train zoo formats serve)

set(CAIRN_SOURCES "")
foreach(folder IN LISTS CAIRN_FOLDERS)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/${folder}/*.c)
  list(APPEND CAIRN_SOURCES ${found})
endforeach()
file(GLOB found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/init.c)
list(APPEND CAIRN_SOURCES ${found})

# The code generator pastes the maths that the CPU kernels include into what it writes.
set(CAIRN_EMBEDDED codegen/device.cuh base/convert.h base/maths.h base/maths_f64.h base/maths_f32.h base/maths_gamma.h
  base/maths_special.h base/maths_zeta.h base/maths_bessel.h base/maths_polynomial.h ops/pointwise_fn.h
  backends/cpu/pointwise/avx512/exp16.h)
set(embedded_paths ${CAIRN_EMBEDDED})
list(TRANSFORM embedded_paths PREPEND ${PROJECT_SOURCE_DIR}/src/)
list(JOIN CAIRN_EMBEDDED "," embedded_names)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/gen/embedded.c
  COMMAND ${CMAKE_COMMAND} -D OUT=${PROJECT_BINARY_DIR}/gen/embedded.c -D SOURCE=${PROJECT_SOURCE_DIR}/src
    -D HEADERS=${embedded_names} -P ${PROJECT_SOURCE_DIR}/cmake/CairnEmbed.cmake
  DEPENDS ${embedded_paths} ${PROJECT_SOURCE_DIR}/cmake/CairnEmbed.cmake VERBATIM)
list(APPEND CAIRN_SOURCES ${PROJECT_BINARY_DIR}/gen/embedded.c)

set(CAIRN_ISA_SOURCES ${CAIRN_SOURCES})
list(FILTER CAIRN_ISA_SOURCES INCLUDE REGEX "/src/backends/cpu/.*_isa\\.c$")
list(FILTER CAIRN_SOURCES EXCLUDE REGEX "/src/backends/cpu/.*_isa\\.c$")

set(CAIRN_ISA_LEVELS base)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|AMD64|amd64)$")
  list(APPEND CAIRN_ISA_LEVELS avx2 avx512)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "^(aarch64|arm64|ARM64)$")
  list(APPEND CAIRN_ISA_LEVELS neon)
endif()
set(CAIRN_ISA_LEVEL_base 0)
set(CAIRN_ISA_LEVEL_avx2 1)
set(CAIRN_ISA_LEVEL_avx512 2)
set(CAIRN_ISA_LEVEL_neon 1)
set(CAIRN_ISA_FLAGS_base "")
set(CAIRN_ISA_FLAGS_avx2 -mavx2 -mfma -mf16c)
set(CAIRN_ISA_FLAGS_avx512 -mavx512f -mavx512dq -mavx512bw -mavx512vl -mfma -mf16c
  -mprefer-vector-width=512)
set(CAIRN_ISA_FLAGS_neon "")

# Files neon/NAME_EXTENSION.c and avx512/NAME_EXTENSION.c are for processors that have it besides; callers ask
# (src/backends/cpu/isa.h).
set(CAIRN_EXTENSION_FLAGS_neon_dotprod -march=armv8.2-a+dotprod)
set(CAIRN_EXTENSION_FLAGS_neon_i8mm -march=armv8.2-a+i8mm)
set(CAIRN_EXTENSION_FLAGS_neon_bf16 -march=armv8.2-a+bf16)
set(CAIRN_EXTENSION_FLAGS_avx512_vnni -mavx512vnni)
set(CAIRN_EXTENSION_FLAGS_avx512_amx -mamx-tile -mamx-bf16 -mamx-int8 -mavx512bf16 -mavx512vnni)
foreach(extension neon_dotprod neon_i8mm neon_bf16 avx512_vnni avx512_amx)
  string(REPLACE "_" "/[^/]*_" pattern ${extension})
  set(files ${CAIRN_SOURCES})
  list(FILTER files INCLUDE REGEX "/${pattern}\\.c$")
  set_source_files_properties(${files} PROPERTIES COMPILE_OPTIONS "${CAIRN_EXTENSION_FLAGS_${extension}}")
endforeach()

# What all objects of the library share. Position independent even for the archive, so that it can go
# into a user's shared library; initial-exec keeps the per-thread state one instruction away.
add_library(cairn_internal INTERFACE)
target_link_libraries(cairn_internal INTERFACE cairn_strict Threads::Threads)
target_include_directories(cairn_internal INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_compile_options(cairn_internal INTERFACE
  -fPIC -fvisibility=hidden -ftls-model=initial-exec -fno-semantic-interposition)
target_compile_definitions(cairn_internal INTERFACE CNI_BUILD=1)
if(CAIRN_MINIMAL)
  target_compile_definitions(cairn_internal INTERFACE CNI_MINIMAL=1)
endif()

# oneDNN is loaded at run time; only its header is needed here.
if(NOT CAIRN_MINIMAL)
  find_path(CAIRN_DNNL_INCLUDE dnnl.h)
  mark_as_advanced(CAIRN_DNNL_INCLUDE)
  if(CAIRN_DNNL_INCLUDE)
    target_compile_definitions(cairn_internal INTERFACE CNI_HAVE_DNNL_H=1)
    target_include_directories(cairn_internal SYSTEM INTERFACE ${CAIRN_DNNL_INCLUDE})
  endif()
endif()

# No exception may pass through C (callbacks report errors), and debuggers have tables of their own: without these the
# library is 0.3 MB smaller.
target_compile_options(cairn_internal INTERFACE -fno-asynchronous-unwind-tables)

set(CAIRN_OBJECTS "")
# Adds one object library to CAIRN_OBJECTS; a folder without sources yet adds nothing.
macro(cairn_add_objects name)
  if("${ARGN}" STREQUAL "")
  else()
    add_library(${name} OBJECT ${ARGN})
    target_link_libraries(${name} PRIVATE cairn_internal)
    list(APPEND CAIRN_OBJECTS $<TARGET_OBJECTS:${name}>)
  endif()
endmacro()

# What runs once a step or once a file need not be fast, so that the library stays small.
if(CAIRN_ISA_OPT STREQUAL "-O3")
  set(cold ${CAIRN_SOURCES})
  list(FILTER cold INCLUDE REGEX "/src/(ops|graph|compile|codegen|nn|optim|train|zoo|serve|formats|backends/cpu/jit)/|\
/src/backends/common/(autotune|code|host|listing|measure|override|recording|recording_pool)\\.c$|\
/src/backends/common/(registry|repeat|whole_graph)\\.c$|\
/src/(autograd/(api|check|jvp)|tensor/(dlpack|pin|print|share)|base/(os_cache|os_file|os_program|system|text))\\.c$|\
/src/data/(dataset|download|file|loader|sampler|tokenizer_json|tokens|transform)\\.c$")
  list(FILTER cold EXCLUDE REGEX "/src/compile/(compile|key)\\.c$") # every call of a compiled function
  list(FILTER cold EXCLUDE REGEX "/src/formats/zip/") # as many bytes as files have
  foreach(file IN LISTS cold)
    file(STRINGS ${file} mark REGEX "^#include \"hot.h\"$" LIMIT_COUNT 1) # src/ops/hot.h: every call passes these
    if(mark)
      list(REMOVE_ITEM cold ${file})
    endif()
  endforeach()
  set_source_files_properties(${cold} PROPERTIES COMPILE_OPTIONS -Os)
endif()

# Groups that the system's compiler makes code of while a program runs are compiled as the kernels of each level are.
set(jit_flags "")
foreach(isa IN LISTS CAIRN_ISA_LEVELS)
  list(JOIN CAIRN_ISA_FLAGS_${isa} " " flags)
  list(APPEND jit_flags "\"${flags}\"")
endforeach()
list(JOIN jit_flags "," jit_flags)
set_property(SOURCE ${PROJECT_SOURCE_DIR}/src/backends/cpu/jit/unit.c APPEND PROPERTY
  COMPILE_DEFINITIONS "CNI_JIT_FLAGS={${jit_flags}}")

set(CAIRN_PLAIN_SOURCES ${CAIRN_SOURCES})
list(FILTER CAIRN_PLAIN_SOURCES EXCLUDE REGEX "/src/backends/cpu/(.*/)?(avx2|avx512|neon)/")
cairn_add_objects(cairn_plain ${CAIRN_PLAIN_SOURCES})

foreach(isa IN LISTS CAIRN_ISA_LEVELS)
  set(own ${CAIRN_SOURCES})
  list(FILTER own INCLUDE REGEX "/src/backends/cpu/(.*/)?${isa}/")
  if(isa STREQUAL "base")
    set(own "")
  endif()
  cairn_add_objects(cairn_isa_${isa} ${CAIRN_ISA_SOURCES} ${own})
  if(TARGET cairn_isa_${isa})
    target_compile_definitions(cairn_isa_${isa} PRIVATE
      CNI_ISA_SUFFIX=${isa} CNI_ISA_LEVEL=${CAIRN_ISA_LEVEL_${isa}})
    target_compile_options(cairn_isa_${isa} PRIVATE
      ${CAIRN_ISA_OPT} -fno-math-errno -fno-trapping-math ${CAIRN_ISA_FLAGS_${isa}})
    if(CAIRN_ISA_OPT STREQUAL "-O3" AND isa STREQUAL "base" AND NOT CAIRN_ISA_LEVELS STREQUAL "base")
      target_compile_options(cairn_isa_base PRIVATE -Os) # what few processors still run is small rather than fast
    endif()
  endif()
endforeach()

# Programs that link the archive need these too; pkg-config and the CMake package repeat them.
add_library(cairn_system INTERFACE)
target_link_libraries(cairn_system INTERFACE Threads::Threads m ${CMAKE_DL_LIBS})

add_library(cairn_shared SHARED ${CAIRN_OBJECTS})
target_link_libraries(cairn_shared PRIVATE cairn_system)
set_target_properties(cairn_shared PROPERTIES
  OUTPUT_NAME cairn EXPORT_NAME cairn LINKER_LANGUAGE C
  VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
# Calls of public functions from inside the library go straight there, not through the PLT.
target_link_options(cairn_shared PRIVATE -Wl,-Bsymbolic-functions ${CAIRN_SMALL_LINK})
if(NOT CAIRN_SANITIZE)
  target_link_options(cairn_shared PRIVATE -Wl,--no-undefined)
endif()

add_library(cairn_static STATIC ${CAIRN_OBJECTS})
target_link_libraries(cairn_static PUBLIC cairn_system)
set_target_properties(cairn_static PROPERTIES
  OUTPUT_NAME cairn EXPORT_NAME static LINKER_LANGUAGE C)

foreach(lib cairn_shared cairn_static)
  target_include_directories(${lib} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
endforeach()
