/* test_download.c: downloads from a server on loopback (server.py): whole, in parts, broken off, changed meanwhile, by
 * several processes at once; checksums, offline. Skipped where python3 or libcurl is not there. */
#define _POSIX_C_SOURCE 200809L
#include <cairn/cairn.h>
#include <cairn/data.h>
#include <cairn/ext/system.h>
#include <signal.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "data/sha256.h"
#include "test.h"

enum { SIZE = 300000 }; /* as in server.py */

static char home[64], url[96], sums[2][CNI_SHA256_TEXT];
static unsigned char *whole;
static pid_t server;
static int server_in = -1, port;

/* ---- setting up ---- */

static bool start_server(void)
{
  int in[2], out[2];
  char text[32] = "";
  if (pipe(in) || pipe(out)) return false;
  server = fork();
  if (server == 0) {
    dup2(in[0], 0);
    dup2(out[1], 1);
    close(in[0]), close(in[1]), close(out[0]), close(out[1]);
    execlp("python3", "python3", CN_TEST_SOURCE_DIR "/tests/data/server.py", (char *)NULL);
    _exit(127);
  }
  close(in[0]), close(out[1]);
  server_in = in[1];
  for (size_t n = 0; n < sizeof text - 1 && !strchr(text, '\n'); n++)
    if (read(out[0], text + n, 1) != 1) break;
  close(out[0]);
  port = atoi(text);
  return port > 0;
}

static void fill(int version)
{
  for (uint64_t i = 0; i < SIZE; i++) whole[i] = (unsigned char)((i * i >> 3) + (uint64_t)version);
}

static int set_up(void **state)
{
  (void)state;
  const char *tmp = getenv("TMPDIR");
  snprintf(home, sizeof home, "%s/cairn-download-XXXXXX", tmp ? tmp : "/tmp");
  whole = malloc(SIZE);
  if (!whole || !mkdtemp(home)) return -1;
  setenv("CAIRN_HOME", home, 1);
  setenv("no_proxy", "127.0.0.1", 1);
  unsetenv("CAIRN_OFFLINE");
  for (int v = 1; v >= 0; v--) {
    cni_sha256 s;
    fill(v);
    cni_sha256_begin(&s);
    cni_sha256_put(&s, whole, SIZE);
    cni_sha256_text(sums[v], &s);
  }
  return 0;
}

static int tear_down(void **state)
{
  (void)state;
  char command[128];
  if (server_in >= 0) close(server_in);
  if (server > 0) waitpid(server, NULL, 0);
  snprintf(command, sizeof command, "rm -rf %s", home);
  free(whole);
  return system(command);
}

static const char *at(const char *name)
{
  snprintf(url, sizeof url, "http://127.0.0.1:%d/%s", port, name);
  return url;
}

/* ---- looking ---- */

static bool exists(const char *name)
{
  char path[192];
  snprintf(path, sizeof path, "%s/downloads/%s", home, name);
  return cn_path_kind_of(path) != CN_PATH_NONE;
}

/* The file is there, whole, of this version; no part of it is left. Takes the path over. */
static void check_file(char *path, int version)
{
  if (!path) print_message("%s\n", cn_err_message());
  assert_non_null(path);
  cn_mapping m;
  fill(version);
  assert_int_equal(cn_map_open(&m, path), 0);
  assert_int_equal(m.size, SIZE);
  assert_memory_equal(m.data, whole, SIZE);
  cn_map_close(&m);
  char part[256];
  snprintf(part, sizeof part, "%.200s.part", path);
  assert_int_equal(cn_path_kind_of(part), CN_PATH_NONE);
  snprintf(part, sizeof part, "%.200s.part.etag", path);
  assert_int_equal(cn_path_kind_of(part), CN_PATH_NONE);
  cn_string_free(path);
}

static void check_error(char *path, const char *says)
{
  assert_null(path);
  assert_int_not_equal(cn_err(), 0);
  if (!strstr(cn_err_message(), says)) print_message("%s\n", cn_err_message());
  assert_non_null(strstr(cn_err_message(), says));
  cn_err_clear();
}

/* How often the server was asked for a file. */
static int count(const char *name)
{
  static int number;
  char own[32], address[160], text[32] = "";
  snprintf(own, sizeof own, "count-%d", ++number);
  snprintf(address, sizeof address, "http://127.0.0.1:%d/count?%s", port, name);
  char *path = cn_download(address, .name = own);
  assert_non_null(path);
  cn_mapping m;
  assert_int_equal(cn_map_open(&m, path), 0);
  memcpy(text, m.data, m.size < 31 ? m.size : 31);
  cn_map_close(&m);
  cn_string_free(path);
  return atoi(text);
}

static void leave_part(const char *name, size_t size, const char *etag)
{
  char path[192];
  snprintf(path, sizeof path, "%s/downloads/%s.part", home, name);
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  fill(0);
  assert_int_equal(fwrite(whole, 1, size, f), size);
  fclose(f);
  snprintf(path, sizeof path, "%s/downloads/%s.part.etag", home, name);
  f = etag ? fopen(path, "wb") : NULL;
  if (f) fputs(etag, f), fclose(f);
}

/* ---- tests ---- */

static void fetches_once(void **state)
{
  (void)state;
  check_file(cn_download(at("file.bin")), 0);
  check_file(cn_download(at("file.bin")), 0);
  assert_int_equal(count("file.bin"), 1);
  check_file(cn_download(at("file.bin"), .sha256 = sums[0]), 0); /* it is read, once */
  assert_true(exists("file.bin.sha256"));
  check_file(cn_download(at("file.bin"), .sha256 = sums[0]), 0);
  assert_int_equal(count("file.bin"), 1);
  check_file(cn_download(at("file.bin?again=1#x"), .folder = "models/deep"), 0);
  assert_int_equal(count("file.bin"), 2);
}

static void another_name_and_address(void **state)
{
  (void)state;
  char address[192];
  check_file(cn_download(at("moved.bin"), .name = "renamed.bin", .sha256 = sums[0]), 0);
  assert_true(exists("renamed.bin"));
  snprintf(address, sizeof address, "file://%s/downloads/renamed.bin", home);
  check_file(cn_download(address, .name = "copy.bin", .sha256 = sums[0]), 0);
}

static void goes_on_after_a_break(void **state)
{
  (void)state;
  check_file(cn_download(at("breaks.bin")), 0);
  assert_int_equal(count("breaks.bin"), 2);
  check_file(cn_download(at("crumbs.bin"), .sha256 = sums[0]), 0);
  assert_true(count("crumbs.bin") >= 8);
  check_file(cn_download(at("norange.bin"), .sha256 = sums[0]), 0);
  check_file(cn_download(at("changes.bin")), 1); /* another version by the second try: all of that one */
}

static void completes_what_was_left(void **state)
{
  (void)state;
  leave_part("left1.bin", 100000, NULL); /* which version is unknown, but the checksum will tell */
  check_file(cn_download(at("file.bin?1"), .name = "left1.bin", .sha256 = sums[0]), 0);
  leave_part("left2.bin", 100000, "\"v0\"");
  check_file(cn_download(at("file.bin?2"), .name = "left2.bin"), 0);
  leave_part("left3.bin", 100000, "\"other\"");
  check_file(cn_download(at("file.bin?3"), .name = "left3.bin"), 0);
  leave_part("left4.bin", 100000, NULL);
  check_file(cn_download(at("file.bin?4"), .name = "left4.bin"), 0);
  leave_part("left5.bin", SIZE, NULL); /* all of it: nothing is asked for */
  int before = count("dead.bin");
  check_file(cn_download(at("dead.bin"), .name = "left5.bin", .sha256 = sums[0]), 0);
  assert_int_equal(count("dead.bin"), before);
  leave_part("left6.bin", SIZE, "\"v0\"");
  check_file(cn_download(at("file.bin?6"), .name = "left6.bin"), 0);
  leave_part("left7.bin", 100000, "\"v1\""); /* bytes of version 0 before those of version 1: wrong, so once more */
  at("changes.bin");
  check_file(cn_download(url, .name = "left7.bin", .sha256 = sums[1]), 1);
}

static void errors_say_what_to_do(void **state)
{
  (void)state;
  check_error(cn_download(at("missing.bin")), "the server answers 404");
  assert_false(exists("missing.bin") || exists("missing.bin.part"));
  check_error(cn_download(at("loop.bin")), "redirect");
  check_error(cn_download(at("local.bin")), "rotocol"); /* no way to local files from outside */
  check_error(cn_download(at("dead.bin")), "mpty reply");
  check_error(cn_download("http://127.0.0.1:1/x.bin"), "onnect");
  check_error(cn_download(at("never.bin")), "never.bin");
  check_error(cn_download("ftp://example.org/x"), "not an http");
  check_error(cn_download(NULL), "not an http");
  check_error(cn_download("http://example.org"), ".name");
  check_error(cn_download("http://example.org/"), ".name");
  check_error(cn_download("http://example.org/x", .name = "../x"), ".name");
  check_error(cn_download("http://example.org/x", .folder = "../x"), "below the home");
  check_error(cn_download("http://example.org/x", .sha256 = "12"), "64 hexadecimal");
}

static void wrong_content_is_removed(void **state)
{
  (void)state;
  check_error(cn_download(at("file.bin"), .name = "wrong.bin", .sha256 = sums[1]), sums[0]);
  assert_false(exists("wrong.bin") || exists("wrong.bin.part") || exists("wrong.bin.sha256"));
  check_file(cn_download(at("file.bin"), .name = "wrong.bin"), 0);
  /* A file with another checksum is replaced, by one that has it. */
  check_error(cn_download(at("file.bin"), .name = "wrong.bin", .sha256 = sums[1]), "removed");
  check_file(cn_download(at("changes.bin"), .name = "wrong.bin", .sha256 = sums[1]), 1);
}

static void offline(void **state)
{
  (void)state;
  setenv("CAIRN_OFFLINE", "1", 1);
  check_error(cn_download(at("new.bin")), "CAIRN_OFFLINE");
  check_file(cn_download(at("file.bin"), .sha256 = sums[0]), 0);
  check_error(cn_download(at("file.bin"), .sha256 = sums[1]), "checksum");
  setenv("CAIRN_OFFLINE", "0", 1);
  check_file(cn_download(at("file.bin?5"), .name = "online.bin"), 0);
  unsetenv("CAIRN_OFFLINE");
}

static int64_t most, in_all;
static int watch(int64_t done, int64_t total, void *payload)
{
  if (done > most) most = done;
  if (total) in_all = total;
  return payload != NULL && done > 0;
}

static void progress_and_stopping(void **state)
{
  (void)state;
  leave_part("watched.bin", 100000, "\"v0\"");
  check_file(cn_download(at("file.bin"), .name = "watched.bin", .progress = watch), 0);
  assert_int_equal(most, SIZE);
  assert_int_equal(in_all, SIZE);
  check_error(cn_download(at("slow.bin"), .name = "stopped.bin", .progress = watch, .payload = &most), "stopped");
  assert_false(exists("stopped.bin"));
}

static void two_processes(void **state)
{
  (void)state;
  pid_t children[3];
  at("slow.bin");
  int before = count("slow.bin");
  for (int i = 0; i < 3; i++) {
    children[i] = fork();
    if (children[i] == 0) {
      char *path = cn_download(url, .sha256 = sums[0]);
      _exit(path && cn_file_size(path) == SIZE ? 0 : 1);
    }
  }
  for (int i = 0; i < 3; i++) {
    int status;
    assert_int_equal(waitpid(children[i], &status, 0), children[i]);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
  assert_int_equal(count("slow.bin"), before + 1);
  check_file(cn_download(at("slow.bin"), .sha256 = sums[0]), 0);
}

/* A process that is killed in the middle leaves a part that the next one completes, and no lock. */
static void killed_process(void **state)
{
  (void)state;
  at("slow.bin?k");
  pid_t child = fork();
  if (child == 0) {
    _exit(cn_download(url, .name = "killed.bin", .sha256 = sums[0]) ? 0 : 1);
  }
  for (int i = 0; i < 200 && !exists("killed.bin.part"); i++) nanosleep(&(struct timespec){0, 10000000}, NULL);
  nanosleep(&(struct timespec){0, 150000000}, NULL);
  kill(child, SIGKILL);
  assert_int_equal(waitpid(child, NULL, 0), child);
  assert_false(exists("killed.bin"));
  assert_true(exists("killed.bin.part"));
  check_file(cn_download(at("file.bin"), .name = "killed.bin", .sha256 = sums[0]), 0);
}

static void sums_of_known_texts(void **state)
{
  (void)state;
  char text[CNI_SHA256_TEXT];
  cni_sha256 s;
  cni_sha256_begin(&s);
  cni_sha256_text(text, &s);
  assert_string_equal(text, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  cni_sha256_put(&s, "abc", 3);
  cni_sha256_text(text, &s);
  assert_string_equal(text, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  cni_sha256_begin(&s);
  for (int i = 0; i < 1000000; i++) cni_sha256_put(&s, "a", 1);
  cni_sha256_text(text, &s);
  assert_string_equal(text, "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

static void allocations_may_fail(void **state)
{
  (void)state;
  cn_memory_set_caching(false);
  for (uint64_t k = 1; k < 100; k++) {
    char name[32];
    snprintf(name, sizeof name, "k%d.bin", (int)k);
    cn_memory_fail_at(k);
    char *path = cn_download(at("file.bin"), .name = name, .sha256 = sums[0]);
    cn_memory_fail_at(0);
    bool done = path != NULL;
    assert_true(done || cn_err() == CN_ERR_MEMORY);
    cn_err_clear();
    if (done) check_file(path, 0);
    check_file(cn_download(at("file.bin"), .name = name, .sha256 = sums[0]), 0);
    if (done && k > 12) break;
  }
  cn_memory_set_caching(true);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums_of_known_texts),   cmocka_unit_test(fetches_once),
    cmocka_unit_test(another_name_and_address), cmocka_unit_test(goes_on_after_a_break),
    cmocka_unit_test(completes_what_was_left), cmocka_unit_test(errors_say_what_to_do),
    cmocka_unit_test(wrong_content_is_removed), cmocka_unit_test(offline),
    cmocka_unit_test(progress_and_stopping), cmocka_unit_test(two_processes),
    cmocka_unit_test(killed_process),
    cmocka_unit_test(allocations_may_fail),
  };
  void *curl = cn_library_open("libcurl.so.4");
  if (!curl && !(curl = cn_library_open("libcurl-gnutls.so.4"))) {
    printf("skipped: libcurl is not installed\n");
    return 77;
  }
  if (!start_server()) {
    printf("skipped: python3 is not installed, or may not listen on loopback\n");
    return 77;
  }
  return cmocka_run_group_tests(tests, set_up, tear_down);
}
