/* emulated.h: a test program that starts itself again where the CUDA plugin finds the emulation of the driver
 * (tests/simt) in front of the vendor's libraries. CAIRN_EMULATED says that it has. */
#ifndef CNI_TESTS_EMULATED_H
#define CNI_TESTS_EMULATED_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Starts this program again with the emulation found first; returns where that cannot be. */
static inline void emulate(char **argv)
{
  char folder[1000], path[1100];
  const char *slash = strrchr(argv[0], '/');
  if (getenv("CAIRN_EMULATED") || !slash) return;
  snprintf(folder, sizeof folder, "%.*s/..", (int)(slash - argv[0]), argv[0]);
  snprintf(path, sizeof path, "%s/simt/libcuda.so.1", folder);
  if (access(path, R_OK) || system("${CXX:-c++} --version >/dev/null 2>&1")) return;
  snprintf(path, sizeof path, "%s/simt", folder);
  setenv("LD_LIBRARY_PATH", path, 1);
  snprintf(path, sizeof path, "%s/..", folder);
  setenv("CAIRN_PLUGIN_PATH", path, 1);
  snprintf(path, sizeof path, "%s/simt/cache", folder);
  setenv("CAIRN_CACHE", path, 1);
  setenv("CAIRN_EMULATED", "1", 1);
  execv(argv[0], argv);
}

#endif
