# The Python package. bindings/python/src and what tools/bindgen writes from the op table become
# python/cairn/_C.abi3.so in the build folder; the package's Python files, the stubs, libcairn, the plugins that were
# built and the command (bin/cairn) lie beside it, so that PYTHONPATH=<build>/python is enough, and the folder is what a
# wheel holds.
# Only the stable ABI is used: one binary serves CPython 3.11 and later, and no libpython is linked.
set(CAIRN_PYTHON_BUILT OFF)
set(CAIRN_PYTHON_SOURCE ${PROJECT_SOURCE_DIR}/bindings/python)
set(CAIRN_PYTHON_PACKAGE ${PROJECT_BINARY_DIR}/python/cairn)
set(CAIRN_PYTHON_GEN ${PROJECT_BINARY_DIR}/python-gen)
file(GLOB CAIRN_PYTHON_SOURCES CONFIGURE_DEPENDS ${CAIRN_PYTHON_SOURCE}/src/*.c)

# Sets CAIRN_PYTHON_MISSING to what stands in the way, or to nothing, and CAIRN_PYTHON_INCLUDE.
function(cairn_look_for_python)
  set(missing "")
  set(include "")
  if(CAIRN_SANITIZE)
    set(missing "an interpreter without the sanitizer cannot load a library with it (CAIRN_SANITIZE)")
  elseif(CMAKE_CROSSCOMPILING)
    set(missing "the op table is read by running the cairn command, which was built for another machine")
  elseif(NOT TARGET cairn_command)
    set(missing "the cairn command is not built")
  else()
    find_package(Python3 3.11 COMPONENTS Interpreter QUIET)
    if(Python3_Interpreter_FOUND)
      execute_process(COMMAND ${Python3_EXECUTABLE} -c
        "import sysconfig; print(sysconfig.get_path('include'), end='')" OUTPUT_VARIABLE include)
      if(NOT EXISTS ${include}/Python.h)
        set(missing "${Python3_EXECUTABLE} has no Python.h: install its development files (Debian: python3-dev)")
      endif()
    else()
      set(missing "Python 3.11 or later was not found (Debian: python3 python3-dev; -DPython3_EXECUTABLE=...)")
    endif()
  endif()
  set(CAIRN_PYTHON_MISSING "${missing}" PARENT_SCOPE)
  set(CAIRN_PYTHON_INCLUDE "${include}" PARENT_SCOPE)
  set(Python3_EXECUTABLE "${Python3_EXECUTABLE}" PARENT_SCOPE)
endfunction()

if(NOT CAIRN_PYTHON MATCHES "^(OFF|NO|0)$" AND EXISTS ${CAIRN_PYTHON_SOURCE}/src/module.c
   AND EXISTS ${PROJECT_SOURCE_DIR}/tools/bindgen/__main__.py)
  cairn_look_for_python()
  if(CAIRN_PYTHON_MISSING STREQUAL "")
    set(CAIRN_PYTHON_BUILT ON)
  elseif(CAIRN_PYTHON STREQUAL "AUTO")
    message(STATUS "Python package: not built; ${CAIRN_PYTHON_MISSING}")
  else()
    message(FATAL_ERROR "CAIRN_PYTHON=${CAIRN_PYTHON}, but ${CAIRN_PYTHON_MISSING}")
  endif()
endif()
if(NOT CAIRN_PYTHON_BUILT)
  return()
endif()

# The tables of ops and classes, asked from the library itself. Left as they were when nothing changed, so that only a
# change of a table makes anything else anew.
foreach(table ops classes)
  set(json ${PROJECT_BINARY_DIR}/${table}.json)
  add_custom_command(OUTPUT ${json}
    COMMAND cairn_command ${table} --json > ${json}.new
    COMMAND ${CMAKE_COMMAND} -E copy_if_different ${json}.new ${json}
    DEPENDS cairn_command cairn_shared VERBATIM)
endforeach()

file(GLOB_RECURSE bindgen CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/tools/bindgen/* ${CAIRN_PYTHON_SOURCE}/cairn/*.pyi.in ${CAIRN_PYTHON_SOURCE}/cairn/_forms*.py
  ${CAIRN_PYTHON_SOURCE}/cairn/_tensor.py ${CAIRN_PYTHON_SOURCE}/cairn/nn/_*.py)
list(FILTER bindgen EXCLUDE REGEX "__pycache__")
add_custom_command(OUTPUT ${CAIRN_PYTHON_GEN}/ops.gen.c
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CAIRN_PYTHON_GEN}
  COMMAND ${CMAKE_COMMAND} -E make_directory ${CAIRN_PYTHON_GEN}
  COMMAND ${CMAKE_COMMAND} -E env PYTHONDONTWRITEBYTECODE=1 ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/bindgen
    python --json ${PROJECT_BINARY_DIR}/ops.json --out ${CAIRN_PYTHON_GEN}
  DEPENDS ${PROJECT_BINARY_DIR}/ops.json ${PROJECT_BINARY_DIR}/classes.json ${bindgen} VERBATIM)

add_library(cairn_python_extension MODULE ${CAIRN_PYTHON_SOURCES} ${CAIRN_PYTHON_GEN}/ops.gen.c)
target_link_libraries(cairn_python_extension PRIVATE cairn_shared cairn_strict)
target_include_directories(cairn_python_extension PRIVATE ${CAIRN_PYTHON_SOURCE}/src)
target_include_directories(cairn_python_extension SYSTEM PRIVATE ${CAIRN_PYTHON_INCLUDE})
target_compile_definitions(cairn_python_extension PRIVATE Py_LIMITED_API=0x030b0000)
target_compile_options(cairn_python_extension PRIVATE -fPIC -fvisibility=hidden)
# An rpath of the old kind: the library of the package is meant, whatever LD_LIBRARY_PATH offers.
target_link_options(cairn_python_extension PRIVATE -Wl,--disable-new-dtags)
set_target_properties(cairn_python_extension PROPERTIES
  PREFIX "" OUTPUT_NAME _C SUFFIX .abi3.so LIBRARY_OUTPUT_DIRECTORY ${CAIRN_PYTHON_PACKAGE}
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN")

# The command, which finds the library of the package and no other.
add_executable(cairn_python_command $<TARGET_OBJECTS:cairn_command_objects>)
target_link_libraries(cairn_python_command PRIVATE cairn_shared cairn_strict Threads::Threads m)
target_link_options(cairn_python_command PRIVATE -Wl,--disable-new-dtags)
set_target_properties(cairn_python_command PROPERTIES
  OUTPUT_NAME cairn RUNTIME_OUTPUT_DIRECTORY ${CAIRN_PYTHON_PACKAGE}/bin
  BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH "$ORIGIN/..")

# Copies a built library into the package. Renamed into place: a running program keeps the file it has mapped.
function(cairn_python_library target name)
  set(stamp ${PROJECT_BINARY_DIR}/python/${target}.stamp)
  add_custom_command(OUTPUT ${stamp}
    COMMAND ${CMAKE_COMMAND} -E copy $<TARGET_FILE:${target}> ${PROJECT_BINARY_DIR}/python/${target}.new
    COMMAND ${CMAKE_COMMAND} -E rename ${PROJECT_BINARY_DIR}/python/${target}.new ${CAIRN_PYTHON_PACKAGE}/${name}
    COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
    DEPENDS ${target} cairn_python_extension VERBATIM)
  set(CAIRN_PYTHON_STAMPS ${CAIRN_PYTHON_STAMPS} ${stamp} PARENT_SCOPE)
endfunction()
set(CAIRN_PYTHON_STAMPS "")
cairn_python_library(cairn_shared $<TARGET_SONAME_FILE_NAME:cairn_shared>)
if(CAIRN_CUDA_BUILT)
  cairn_python_library(cairn_cuda libcairn_cuda.so)
endif()
if(CAIRN_PJRT_BUILT)
  cairn_python_library(cairn_pjrt libcairn_pjrt.so)
endif()
if(CAIRN_IMAGE_BUILT)
  cairn_python_library(cairn_image libcairn_image.so)
endif()

file(GLOB_RECURSE python_files CONFIGURE_DEPENDS
  ${CAIRN_PYTHON_SOURCE}/cairn/*.py ${CAIRN_PYTHON_SOURCE}/cairn/*.pyi ${CAIRN_PYTHON_SOURCE}/cairn/*.bin
  ${CAIRN_PYTHON_SOURCE}/cairn/py.typed)
# Written when the list of files changes: a file that was removed is then removed from the package too.
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/python/files.txt CONTENT "${python_files}\n")
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/files.stamp
  COMMAND ${CMAKE_COMMAND} -D OUT=${CAIRN_PYTHON_PACKAGE} -D FROM=${CAIRN_PYTHON_SOURCE}/cairn,${CAIRN_PYTHON_GEN}/cairn
    -P ${PROJECT_SOURCE_DIR}/cmake/CairnPackage.cmake
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/python/files.stamp
  DEPENDS ${python_files} ${PROJECT_BINARY_DIR}/python/files.txt ${CAIRN_PYTHON_GEN}/ops.gen.c
    ${PROJECT_SOURCE_DIR}/cmake/CairnPackage.cmake VERBATIM)

# The public headers, for extensions that programs compile (cairn.utils.cpp_extension).
file(GLOB_RECURSE public_headers CONFIGURE_DEPENDS
  ${PROJECT_SOURCE_DIR}/include/*.h ${PROJECT_SOURCE_DIR}/bindings/cpp/include/*)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/python/headers.stamp
  COMMAND ${CMAKE_COMMAND} -E rm -rf ${CAIRN_PYTHON_PACKAGE}/include
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/include ${CAIRN_PYTHON_PACKAGE}/include
  COMMAND ${CMAKE_COMMAND} -E copy_directory ${PROJECT_SOURCE_DIR}/bindings/cpp/include ${CAIRN_PYTHON_PACKAGE}/include
  COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/python/headers.stamp
  DEPENDS ${public_headers} VERBATIM)
list(APPEND CAIRN_PYTHON_STAMPS ${PROJECT_BINARY_DIR}/python/headers.stamp)

add_custom_target(cairn_python ALL
  DEPENDS cairn_python_extension cairn_python_command ${PROJECT_BINARY_DIR}/python/files.stamp ${CAIRN_PYTHON_STAMPS})
