# The `cairn` command, the examples and the benchmarks: all of them users of the public API, built against
# the shared library. In examples/ and bench/ a file with a main is a program of its own; a file without
# one is linked into every program of its folder.

# cairn_add_programs(PREFIX folder library [EXCLUDE_FROM_ALL]): sets PREFIX_PROGRAMS to the targets made.
function(cairn_add_programs prefix folder library)
  file(GLOB files CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${folder}/*.c)
  set(mains "")
  set(helpers "")
  foreach(file IN LISTS files)
    file(STRINGS ${file} has_main REGEX "^int main\\(")
    if(has_main)
      list(APPEND mains ${file})
    else()
      list(APPEND helpers ${file})
    endif()
  endforeach()
  set(made "")
  string(MAKE_C_IDENTIFIER ${folder} folder_id)
  foreach(file IN LISTS mains)
    cmake_path(GET file STEM name)
    set(target ${folder_id}_${name})
    add_executable(${target} ${ARGN} ${file} ${helpers})
    target_link_libraries(${target} PRIVATE ${library} cairn_strict Threads::Threads m)
    set_target_properties(${target} PROPERTIES
      OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${folder})
    list(APPEND made ${target})
  endforeach()
  set(${prefix}_PROGRAMS ${made} PARENT_SCOPE)
endfunction()

file(GLOB CAIRN_COMMAND_SOURCES CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/cairn/*.c)
if(CAIRN_COMMAND_SOURCES)
  # Compiled once: the Python package has the command too, with another path to the library (CairnPython.cmake).
  add_library(cairn_command_objects OBJECT ${CAIRN_COMMAND_SOURCES})
  target_link_libraries(cairn_command_objects PRIVATE cairn_shared cairn_strict)
  add_executable(cairn_command $<TARGET_OBJECTS:cairn_command_objects>)
  target_link_libraries(cairn_command PRIVATE cairn_shared cairn_strict Threads::Threads m)
  set_target_properties(cairn_command PROPERTIES OUTPUT_NAME cairn)
endif()

if(CAIRN_EXAMPLES)
  file(GLOB example_folders CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} examples/*)
  list(FILTER example_folders EXCLUDE REGEX "\\.[a-z]+$")
  foreach(folder IN ITEMS examples LISTS example_folders)
    if(IS_DIRECTORY ${PROJECT_SOURCE_DIR}/${folder})
      cairn_add_programs(EXAMPLE ${folder} cairn_shared)
      # Examples are what a user writes: they must do with C99.
      foreach(target IN LISTS EXAMPLE_PROGRAMS)
        set_target_properties(${target} PROPERTIES C_STANDARD 99)
      endforeach()
    endif()
  endforeach()
endif()

cairn_add_programs(BENCH bench/cairn cairn_shared EXCLUDE_FROM_ALL)
add_custom_target(bench_programs DEPENDS ${BENCH_PROGRAMS})

# The same against the archive, with parallel regions watched: bench/scaling.
set(scaling_programs "")
foreach(program IN LISTS BENCH_PROGRAMS)
  get_target_property(files ${program} SOURCES)
  get_target_property(name ${program} OUTPUT_NAME)
  set(target bench_model_${name})
  add_executable(${target} EXCLUDE_FROM_ALL ${files} ${PROJECT_SOURCE_DIR}/bench/model/regions.c)
  target_link_libraries(${target} PRIVATE cairn_static cairn_strict Threads::Threads m)
  # An address of a program that lies where it was linked names a function.
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name} POSITION_INDEPENDENT_CODE OFF
    RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench/model)
  target_link_options(${target} PRIVATE -no-pie -Wl,--wrap=cni_parallel_for,--wrap=pthread_create)
  list(APPEND scaling_programs ${target})
endforeach()
add_executable(bench_region_cost EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/bench/model/region_cost.c)
target_link_libraries(bench_region_cost PRIVATE cairn_shared cairn_strict Threads::Threads)
set_target_properties(bench_region_cost PROPERTIES
  OUTPUT_NAME region_cost RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bench/model)
add_custom_target(bench_model DEPENDS ${scaling_programs} bench_region_cost)
