# Toolchain: 64-bit ARM, by Debian's cross compiler, its programs run by QEMU's user-mode emulator (preset `arm`).
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)

set(CAIRN_ARM_ROOT /usr/aarch64-linux-gnu)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64;-L;${CAIRN_ARM_ROOT}
  CACHE STRING "what runs the programs; tools/run-tests reads it here") # QEMU_CPU=cortex-a53: another processor

# Programs of the host, headers and libraries of the target alone: an x86 library that is found cannot be linked.
set(CMAKE_FIND_ROOT_PATH ${CAIRN_ARM_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
