# Backend plugins: shared libraries that see only the headers and the cn_host table, and load their
# vendor's libraries themselves. The vendor's headers are needed to build one, nothing of it to link.
file(GLOB_RECURSE CAIRN_CUDA_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/cuda/*.c)
set(CAIRN_CUDA_BUILT OFF)
if(NOT CAIRN_CUDA MATCHES "^(OFF|NO|0)$" AND NOT CAIRN_MINIMAL)
  find_path(CAIRN_CUDA_INCLUDE cuda.h
    HINTS ENV CUDA_HOME ENV CUDA_PATH PATHS /usr/local/cuda PATH_SUFFIXES include)
  mark_as_advanced(CAIRN_CUDA_INCLUDE)
  if(CAIRN_CUDA_INCLUDE AND CAIRN_CUDA_SOURCES)
    set(CAIRN_CUDA_BUILT ON)
  elseif(CAIRN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "CAIRN_CUDA=ON, but cuda.h was not found (set CUDA_HOME)")
  endif()
endif()

if(CAIRN_CUDA_BUILT)
  add_library(cairn_cuda MODULE ${CAIRN_CUDA_SOURCES})
  target_link_libraries(cairn_cuda PRIVATE cairn_strict Threads::Threads m ${CMAKE_DL_LIBS})
  target_include_directories(cairn_cuda PRIVATE
    ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src/backends/cuda)
  target_include_directories(cairn_cuda SYSTEM PRIVATE ${CAIRN_CUDA_INCLUDE})
  target_compile_options(cairn_cuda PRIVATE -fPIC -fvisibility=hidden)
  find_path(CAIRN_CUDNN_INCLUDE cudnn.h HINTS ${CAIRN_CUDA_INCLUDE})
  mark_as_advanced(CAIRN_CUDNN_INCLUDE)
  if(CAIRN_CUDNN_INCLUDE)
    target_compile_definitions(cairn_cuda PRIVATE CNI_HAVE_CUDNN_H=1)
    target_include_directories(cairn_cuda SYSTEM PRIVATE ${CAIRN_CUDNN_INCLUDE})
  endif()
endif()
