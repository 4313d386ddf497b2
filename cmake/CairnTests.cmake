# Test programs. They link the archive, so that they reach the internal cni_ functions too.
#   tests/ops/*.c            one program, test_ops
#   tests/FOLDER/test_*.c    a program each; the folder's other files are linked into all of them
#   tests/fuzz/fuzz_*.c      libFuzzer targets, built only with CAIRN_SANITIZE=fuzzer
# tests/unit/runner.c stands in for cmocka where that is not installed.
if(NOT CAIRN_TESTS)
  return()
endif()
enable_testing()

add_library(cairn_test STATIC ${PROJECT_SOURCE_DIR}/tests/unit/runner.c)
target_include_directories(cairn_test PUBLIC
  ${PROJECT_SOURCE_DIR}/tests/unit ${PROJECT_SOURCE_DIR}/tests
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src)
target_link_libraries(cairn_test PUBLIC cairn_strict cairn_static Threads::Threads m)
# Generated C is compiled by the compiler of the build: what the programs can load.
target_compile_definitions(cairn_test PUBLIC
  CN_TEST_SOURCE_DIR="${PROJECT_SOURCE_DIR}" CN_TEST_CC="${CMAKE_C_COMPILER}")
if(CMAKE_CROSSCOMPILING)
  target_compile_definitions(cairn_test PUBLIC CN_TEST_EMULATED=1)
endif()
if(CAIRN_MINIMAL)
  target_compile_definitions(cairn_test PUBLIC CNI_MINIMAL=1)
endif()
if(CAIRN_CMOCKA)
  find_path(CAIRN_CMOCKA_INCLUDE cmocka.h)
  find_library(CAIRN_CMOCKA_LIBRARY cmocka)
  mark_as_advanced(CAIRN_CMOCKA_INCLUDE CAIRN_CMOCKA_LIBRARY)
endif()
if(CAIRN_CMOCKA AND CAIRN_CMOCKA_INCLUDE AND CAIRN_CMOCKA_LIBRARY)
  target_include_directories(cairn_test SYSTEM PUBLIC ${CAIRN_CMOCKA_INCLUDE})
  target_link_libraries(cairn_test PUBLIC ${CAIRN_CMOCKA_LIBRARY})
else()
  message(STATUS "cmocka: not used; tests run with the plain runner")
  target_compile_definitions(cairn_test PUBLIC CN_TEST_PLAIN=1)
endif()

function(cairn_add_test folder name)
  set(target ${name})
  if(TARGET ${target})
    set(target ${folder}_${name})
  endif()
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE cairn_test)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
  add_test(NAME ${folder}/${name} COMMAND ${target} WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_property(TEST ${folder}/${name} PROPERTY SKIP_RETURN_CODE 77)
endfunction()

file(GLOB test_folders CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}/tests tests/*)
foreach(folder IN LISTS test_folders)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.c)
  list(REMOVE_ITEM files ${PROJECT_SOURCE_DIR}/tests/unit/runner.c)
  if(folder STREQUAL "ops" AND files)
    cairn_add_test(ops test_ops ${files})
    continue()
  endif()
  set(helpers ${files})
  list(FILTER helpers EXCLUDE REGEX "/(test|fuzz)_[^/]*$")
  foreach(file IN LISTS files)
    cmake_path(GET file STEM LAST_ONLY name)
    if(name MATCHES "^test_")
      cairn_add_test(${folder} ${name} ${file} ${helpers})
    elseif(name MATCHES "^fuzz_" AND CAIRN_SANITIZE STREQUAL "fuzzer")
      add_executable(${name} ${file} ${helpers})
      target_link_libraries(${name} PRIVATE cairn_test)
      target_link_options(${name} PRIVATE -fsanitize=fuzzer)
      set_target_properties(${name} PROPERTIES
        RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${folder})
    endif()
  endforeach()
endforeach()

# The CUDA plugin on the CPU: tests/simt stands in for the vendor's libraries, under their names.
if(CAIRN_CUDA_BUILT AND CMAKE_SYSTEM_NAME STREQUAL "Linux")
  add_library(simt SHARED
    ${PROJECT_SOURCE_DIR}/tests/simt/simt.c ${PROJECT_SOURCE_DIR}/tests/simt/simt_memory.c
    ${PROJECT_SOURCE_DIR}/tests/simt/nvrtc.c ${PROJECT_SOURCE_DIR}/tests/simt/devices.c
    ${PROJECT_SOURCE_DIR}/tests/simt/sensors.c)
  target_include_directories(simt SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE})
  target_link_libraries(simt PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_definitions(simt PRIVATE SIMT_FOLDER="${PROJECT_SOURCE_DIR}/tests/simt")
  set_target_properties(simt PROPERTIES C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/simt)
  foreach(name libcuda.so.1 libnvrtc.so.13 libcublasLt.so.13 libcudnn.so.9 libcufft.so.12
      libcusolver.so.12 libcublas.so.13 libnvidia-ml.so.1)
    add_custom_command(TARGET simt POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink libsimt.so ${PROJECT_BINARY_DIR}/tests/simt/${name})
  endforeach()
  add_dependencies(test_cuda simt cairn_cuda)
  find_library(CAIRN_TEST_LAPACK NAMES openblas lapack)
  mark_as_advanced(CAIRN_TEST_LAPACK)
  if(CAIRN_TEST_LAPACK AND EXISTS ${CAIRN_CUDA_INCLUDE}/cusolverDn.h)
    add_library(simt_solver SHARED ${PROJECT_SOURCE_DIR}/tests/simt/solver.c)
    target_include_directories(simt_solver SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE})
    target_link_libraries(simt_solver PRIVATE ${CAIRN_TEST_LAPACK})
    set_target_properties(simt_solver PROPERTIES C_VISIBILITY_PRESET hidden OUTPUT_NAME cusolver
      SUFFIX ".so.12" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/simt/solver)
    add_custom_command(TARGET simt_solver POST_BUILD
      COMMAND ${CMAKE_COMMAND} -E create_symlink libcusolver.so.12
        ${PROJECT_BINARY_DIR}/tests/simt/solver/libcublas.so.13)
    add_dependencies(test_emulated_solver simt_solver simt cairn_cuda)
  endif()
  add_library(simt_blaslt SHARED ${PROJECT_SOURCE_DIR}/tests/simt/blaslt.c)
  target_include_directories(simt_blaslt SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE})
  set_target_properties(simt_blaslt PROPERTIES C_VISIBILITY_PRESET hidden OUTPUT_NAME cublasLt
    SUFFIX ".so.13" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/simt/blaslt)
  add_dependencies(test_emulated_types simt_blaslt simt cairn_cuda)
  if(CAIRN_CUDNN_INCLUDE)
    add_library(simt_dnn SHARED ${PROJECT_SOURCE_DIR}/tests/simt/dnn.c)
    target_include_directories(simt_dnn SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE} ${CAIRN_CUDNN_INCLUDE})
    target_link_libraries(simt_dnn PRIVATE ${CMAKE_DL_LIBS})
    set_target_properties(simt_dnn PROPERTIES C_VISIBILITY_PRESET hidden OUTPUT_NAME cudnn
      SUFFIX ".so.9" LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/simt/dnn)
    add_dependencies(test_emulated_dnn simt_dnn simt cairn_cuda)
  endif()
endif()
# A PJRT plugin for the tests of the PJRT backend, which is loaded by its path.
if(CAIRN_PJRT_BUILT)
  add_library(fake_pjrt MODULE ${PROJECT_SOURCE_DIR}/tests/pjrt/plugin/plugin.c)
  target_link_libraries(fake_pjrt PRIVATE Threads::Threads)
  set_target_properties(fake_pjrt PROPERTIES C_VISIBILITY_PRESET hidden
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/pjrt)
  foreach(name IN ITEMS test_pjrt test_pjrt_training)
    add_dependencies(${name} fake_pjrt cairn_pjrt)
  endforeach()
endif()
# The CUDA plugin's kernels, compiled without a device.
if(CAIRN_CUDA_BUILT)
  target_sources(test_cuda_code PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/cuda/code.c ${CAIRN_CUDA_TEXTS})
  target_include_directories(test_cuda_code PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/cuda)
  target_include_directories(test_cuda_code SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE})
  target_compile_definitions(test_cuda_code PRIVATE CNI_HAVE_CUDA=1)
  target_link_libraries(test_cuda_code PRIVATE ${CMAKE_DL_LIBS})
  add_dependencies(test_cuda_code cairn_cuda) # which writes the texts
endif()
# Its graphs, for a device that is described.
if(CAIRN_CUDA_BUILT AND CAIRN_CUDNN_INCLUDE)
  target_sources(test_dnn_graphs PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/cuda/dnn_graph.c
    ${PROJECT_SOURCE_DIR}/src/backends/cuda/attention_graph.c ${PROJECT_SOURCE_DIR}/src/backends/cuda/conv_graph.c)
  target_include_directories(test_dnn_graphs PRIVATE ${PROJECT_SOURCE_DIR}/src/backends/cuda)
  target_include_directories(test_dnn_graphs SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE} ${CAIRN_CUDNN_INCLUDE})
  target_compile_definitions(test_dnn_graphs PRIVATE CNI_HAVE_CUDNN_H=1)
  target_link_libraries(test_dnn_graphs PRIVATE ${CMAKE_DL_LIBS})
endif()
