# What `make install` puts under a prefix: headers of C and C++, both libraries, plugins, the command, pkg-config files
# and a CMake package (cairn::cairn shared, cairn::static). All of it can be moved after installing.
include(CMakePackageConfigHelpers)
set(CAIRN_CMAKE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/cairn)

install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h")
install(DIRECTORY ${PROJECT_SOURCE_DIR}/bindings/cpp/include/cairn DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.hpp" PATTERN "*.inc")
install(TARGETS cairn_shared cairn_static EXPORT cairnTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# cairn_static names these in its link interface.
install(TARGETS cairn_system EXPORT cairnTargets)
# --strip leaves archives alone; their debug information is most of their size.
install(CODE "
  if(CMAKE_INSTALL_DO_STRIP)
    set(archive \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_LIBDIR}/libcairn.a\")
    execute_process(COMMAND \"${CMAKE_STRIP}\" --strip-debug \"\${archive}\")
  endif()")
if(CAIRN_CUDA_BUILT)
  install(TARGETS cairn_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cairn) # no program links it
endif()
if(CAIRN_PJRT_BUILT)
  install(TARGETS cairn_pjrt LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cairn)
endif()
if(CAIRN_IMAGE_BUILT)
  install(TARGETS cairn_image LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}/cairn)
endif()
if(TARGET cairn_command)
  file(RELATIVE_PATH bin_to_lib
    /prefix/${CMAKE_INSTALL_BINDIR} /prefix/${CMAKE_INSTALL_LIBDIR})
  # Under /usr the loader finds the library by itself, and Debian wants no other path in a program.
  if(NOT CMAKE_INSTALL_PREFIX STREQUAL "/usr")
    set_target_properties(cairn_command PROPERTIES INSTALL_RPATH "$ORIGIN/${bin_to_lib}")
  endif()
  install(TARGETS cairn_command RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

set(CAIRN_PC_PRIVATE "-lm -lpthread -ldl")
# Paths in the .pc files are relative to the file itself.
file(RELATIVE_PATH CAIRN_PC_PREFIX /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
string(REGEX REPLACE "/$" "" CAIRN_PC_PREFIX "${CAIRN_PC_PREFIX}")
foreach(pc cairn cairn-static)
  configure_file(${PROJECT_SOURCE_DIR}/cmake/${pc}.pc.in ${PROJECT_BINARY_DIR}/${pc}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${pc}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endforeach()

install(EXPORT cairnTargets NAMESPACE cairn:: DESTINATION ${CAIRN_CMAKE_DIR})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/cairnConfig.cmake.in
  ${PROJECT_BINARY_DIR}/cairnConfig.cmake INSTALL_DESTINATION ${CAIRN_CMAKE_DIR})
write_basic_package_version_file(${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/cairnConfig.cmake ${PROJECT_BINARY_DIR}/cairnConfigVersion.cmake
  DESTINATION ${CAIRN_CMAKE_DIR})
