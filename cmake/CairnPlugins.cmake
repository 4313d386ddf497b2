# Plugins: shared libraries that cairn loads when they are there.
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
  # Kernels are .cu files that the plugin carries as text and compiles for the device it finds.
  set(kernel_folder ${PROJECT_SOURCE_DIR}/src/backends/cuda/kernels)
  file(GLOB kernel_files CONFIGURE_DEPENDS RELATIVE ${kernel_folder} ${kernel_folder}/*.cu)
  file(GLOB kernel_paths CONFIGURE_DEPENDS ${kernel_folder}/*.cu ${kernel_folder}/*.cuh)
  file(GLOB maths_paths CONFIGURE_DEPENDS
    ${PROJECT_SOURCE_DIR}/src/base/maths*.h ${PROJECT_SOURCE_DIR}/src/base/philox.h
    ${PROJECT_SOURCE_DIR}/src/codegen/device.cuh)
  list(JOIN kernel_files "," kernel_names)
  set(CAIRN_CUDA_TEXTS ${PROJECT_BINARY_DIR}/gen/cuda_texts.c)
  add_custom_command(OUTPUT ${CAIRN_CUDA_TEXTS}
    COMMAND ${CMAKE_COMMAND} -D OUT=${CAIRN_CUDA_TEXTS} -D SOURCE=${PROJECT_SOURCE_DIR}/src -D FOLDER=${kernel_folder}
      -D FILES=${kernel_names} -P ${PROJECT_SOURCE_DIR}/cmake/CairnEmbedKernels.cmake
    DEPENDS ${kernel_paths} ${maths_paths} ${PROJECT_SOURCE_DIR}/cmake/CairnEmbedKernels.cmake VERBATIM)
  add_library(cairn_cuda MODULE ${CAIRN_CUDA_SOURCES} ${CAIRN_CUDA_TEXTS})
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

# PJRT: TPUs and other devices of XLA. Nothing of a vendor is needed to build it.
file(GLOB_RECURSE CAIRN_PJRT_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/backends/pjrt/*.c)
set(CAIRN_PJRT_BUILT OFF)
if(NOT CAIRN_MINIMAL)
  set(CAIRN_PJRT_BUILT ON)
  add_library(cairn_pjrt MODULE ${CAIRN_PJRT_SOURCES})
  target_link_libraries(cairn_pjrt PRIVATE cairn_strict Threads::Threads ${CMAKE_DL_LIBS})
  target_include_directories(cairn_pjrt PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src/backends/pjrt)
  target_compile_options(cairn_pjrt PRIVATE -fPIC -fvisibility=hidden)
endif()

# Image formats: libpng and libjpeg are linked by this plugin alone. It is made when both are there.
file(GLOB CAIRN_IMAGE_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/plugins/image/*.c)
set(CAIRN_IMAGE_BUILT OFF)
if(NOT CAIRN_IMAGE MATCHES "^(OFF|NO|0)$" AND NOT CAIRN_MINIMAL)
  find_package(PNG QUIET)
  find_package(JPEG QUIET)
  if(PNG_FOUND AND JPEG_FOUND)
    set(CAIRN_IMAGE_BUILT ON)
  elseif(CAIRN_IMAGE STREQUAL "ON")
    message(FATAL_ERROR "CAIRN_IMAGE=ON, but libpng or libjpeg was not found (libpng-dev, libjpeg-dev)")
  endif()
endif()
if(CAIRN_IMAGE_BUILT)
  add_library(cairn_image MODULE ${CAIRN_IMAGE_SOURCES})
  target_link_libraries(cairn_image PRIVATE cairn_strict PNG::PNG JPEG::JPEG)
  target_include_directories(cairn_image PRIVATE ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src/plugins/image)
  target_compile_options(cairn_image PRIVATE -fPIC -fvisibility=hidden)
  # A wheel brings both libraries along, beside the plugin (tools/dist).
  set_target_properties(cairn_image PROPERTIES BUILD_RPATH "$ORIGIN")
endif()
