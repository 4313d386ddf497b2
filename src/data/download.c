/* download.c: files from the network, once. See data.h.
 *
 * Place in the flow: cn_download_with is all; libcurl is loaded when something must be fetched, and what is here
 * already is found without it. A file grows as NAME.part, locked, so that a second process waits and then finds it
 * done; it gets its name when it is whole and its checksum is right. NAME.sha256 (as sha256sum writes and checks it)
 * says which one it had, so that large files are not read again; NAME.part.etag which version a part is of.
 *
 * Invariant: a file of the name asked for is whole, and has had the checksum that was asked for. */
#include <cairn/data.h>
#include <cairn/ext/signature.h>
#include <cairn/ext/system.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "sha256.h"

/* ---- libcurl, by the numbers of its stable interface ---- */

enum {
  OPT_LOW_SPEED_LIMIT = 19, OPT_LOW_SPEED_TIME = 20, OPT_NOPROGRESS = 43, OPT_FAILONERROR = 45,
  OPT_FOLLOWLOCATION = 52, OPT_MAXREDIRS = 68, OPT_CONNECTTIMEOUT = 78, OPT_NOSIGNAL = 99, OPT_PROTOCOLS = 181,
  OPT_REDIR_PROTOCOLS = 182, OPT_WRITEDATA = 10001, OPT_URL = 10002, OPT_ERRORBUFFER = 10010, OPT_USERAGENT = 10018,
  OPT_HTTPHEADER = 10023, OPT_HEADERDATA = 10029, OPT_XFERINFODATA = 10057, OPT_CAINFO = 10065,
  OPT_WRITEFUNCTION = 20011, OPT_HEADERFUNCTION = 20079, OPT_XFERINFOFUNCTION = 20219, OPT_RESUME_FROM = 30116,
  INFO_RESPONSE_CODE = 0x200002,
  PROTO_HTTP = 1, PROTO_HTTPS = 2, PROTO_FILE = 1024,
  DONE = 0, PARTIAL_FILE = 18, HTTP_ERROR = 22, TIMED_OUT = 28, RANGE_ERROR = 33, BAD_RESUME = 36,
  GOT_NOTHING = 52, SEND_ERROR = 55, RECEIVE_ERROR = 56, STREAM_ERROR = 92,
  ERROR_SIZE = 256
};

static struct {
  int (*global_init)(long flags);
  void *(*init)(void);
  int (*setopt)(void *easy, int option, ...);
  int (*perform)(void *easy);
  int (*getinfo)(void *easy, int info, ...);
  void (*cleanup)(void *easy);
  const char *(*strerror)(int code);
  void *(*list_append)(void *list, const char *text);
  void (*list_free)(void *list);
  bool ready;
} curl;

/* ISO C has no cast from void * to functions. */
static bool find(void *function, void *library, const char *name)
{
  void *symbol = cn_library_symbol(library, name);
  memcpy(function, &symbol, sizeof symbol);
  return symbol != NULL;
}

static void load_curl(void)
{
  static const char *const names[] = {"libcurl.so.4", "libcurl-gnutls.so.4", "libcurl-nss.so.4"};
  void *lib = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++) lib = cn_library_open(names[i]);
  if (!lib) return;
  curl.ready = find(&curl.global_init, lib, "curl_global_init") && find(&curl.init, lib, "curl_easy_init") &&
               find(&curl.setopt, lib, "curl_easy_setopt") && find(&curl.perform, lib, "curl_easy_perform") &&
               find(&curl.getinfo, lib, "curl_easy_getinfo") && find(&curl.cleanup, lib, "curl_easy_cleanup") &&
               find(&curl.strerror, lib, "curl_easy_strerror") && find(&curl.list_append, lib, "curl_slist_append") &&
               find(&curl.list_free, lib, "curl_slist_free_all") && curl.global_init(3 /* everything */) == DONE;
}

/* ---- one download ---- */

enum { PATH_SIZE = 4096, ETAG_SIZE = 256, TRIES = 4, RESTARTS = 2 };

typedef struct job {
  const char *url;
  const cn_download_opts *opts;
  char path[PATH_SIZE], part[PATH_SIZE], etag_path[PATH_SIZE], sum_path[PATH_SIZE];
  cn_writer *writer;
  cni_sha256 sum;      /* of what the writer has */
  char etag[ETAG_SIZE]; /* of the version that the part is of; "": unknown */
  bool etag_is_new;     /* came with the response that is being read */
  uint64_t began_at;    /* bytes that were there when this transfer began */
  bool stopped;         /* by the caller */
  char error[ERROR_SIZE];
} job;

/* A note for later. Where it cannot be written (a folder that only others may write to) things go on without. */
static void put_file(const char *path, const char *text)
{
  cn_writer *w = cn_writer_open(path);
  if (w) {
    cn_writer_put(w, text, strlen(text));
    cn_writer_commit(w);
  }
  cn_err_clear();
}

/* The beginning of a file as text; "" when there is none. */
static void get_file(char *text, size_t size, const char *path)
{
  cn_mapping m;
  text[0] = 0;
  if (cn_path_kind_of(path) != CN_PATH_FILE || cn_map_open(&m, path)) return;
  size_t n = m.size < size - 1 ? m.size : size - 1;
  if (n) memcpy(text, m.data, n);
  text[n] = 0;
  cn_map_close(&m);
}

static char lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

/* Whether the two begin with the same 64 hexadecimal digits. */
static bool same_sum(const char *a, const char *b)
{
  for (int i = 0; i < 64; i++)
    if (!a[i] || lower(a[i]) != lower(b[i])) return false;
  return true;
}

static int sum_file(cni_sha256 *sum, const char *path)
{
  cn_mapping m;
  cni_sha256_begin(sum);
  int status = cn_map_open(&m, path);
  if (status) return status;
  if (m.size) cni_sha256_put(sum, m.data, m.size);
  cn_map_close(&m);
  return CN_OK;
}

static void note_sum(const job *j, const char *text)
{
  char line[PATH_SIZE + 80];
  snprintf(line, sizeof line, "%s  %s\n", text, strrchr(j->path, '/') + 1);
  put_file(j->sum_path, line);
}

/* Whether the file is here, with the right checksum. */
static bool is_here(const job *j)
{
  char text[CNI_SHA256_TEXT];
  cni_sha256 sum;
  if (cn_path_kind_of(j->path) != CN_PATH_FILE) return false;
  if (!j->opts->sha256) return true;
  get_file(text, sizeof text, j->sum_path);
  if (same_sum(text, j->opts->sha256)) return true;
  if (sum_file(&sum, j->path)) return false;
  cni_sha256_text(text, &sum);
  if (!same_sum(text, j->opts->sha256)) return false;
  note_sum(j, text);
  return true;
}

/* ---- what libcurl calls ---- */

static size_t on_body(char *bytes, size_t size, size_t n, void *payload)
{
  job *j = payload;
  if (j->etag_is_new) { /* the part is of this version from its first byte on */
    put_file(j->etag_path, j->etag);
    j->etag_is_new = false;
  }
  cni_sha256_put(&j->sum, bytes, size * n);
  return cn_writer_put(j->writer, bytes, size * n) ? 0 : size * n;
}

/* In capitals or not; `word` is not. */
static bool begins(const char *s, size_t n, const char *word)
{
  size_t i = 0;
  for (; word[i]; i++)
    if (i >= n || lower(s[i]) != word[i]) return false;
  return true;
}

/* Keeps the ETag of a response that is a whole file. Weak ones do not stand for bytes. */
static size_t on_header(char *line, size_t size, size_t n, void *payload)
{
  job *j = payload;
  size_t length = size * n;
  if (j->began_at) return length;
  if (begins(line, length, "http/"))
    j->etag[0] = 0, j->etag_is_new = false; /* behind a redirection: the next response */
  if (!begins(line, length, "etag:")) return length;
  const char *s = line + 5, *end = line + length;
  while (s < end && (*s == ' ' || *s == '\t')) s++;
  while (end > s && (end[-1] == '\r' || end[-1] == '\n' || end[-1] == ' ')) end--;
  if (s < end && *s == '"' && (size_t)(end - s) < sizeof j->etag) {
    memcpy(j->etag, s, (size_t)(end - s));
    j->etag[end - s] = 0;
    j->etag_is_new = true;
  }
  return length;
}

static int on_progress(void *payload, int64_t total, int64_t now, int64_t up_total, int64_t up)
{
  job *j = payload;
  (void)up_total, (void)up;
  if (!j->opts->progress) return 0;
  int64_t before = (int64_t)j->began_at;
  j->stopped = j->opts->progress(before + now, total > 0 ? before + total : 0, j->opts->payload) != 0;
  return j->stopped;
}

/* ---- fetching ---- */

static void configure(void *easy, job *j, void *headers)
{
  bool https = begins(j->url, strlen(j->url), "https:");
  curl.setopt(easy, OPT_URL, j->url);
  curl.setopt(easy, OPT_NOSIGNAL, 1L);
  curl.setopt(easy, OPT_FAILONERROR, 1L);
  curl.setopt(easy, OPT_FOLLOWLOCATION, 1L);
  curl.setopt(easy, OPT_MAXREDIRS, 10L);
  curl.setopt(easy, OPT_PROTOCOLS, (long)(PROTO_HTTP | PROTO_HTTPS | PROTO_FILE));
  curl.setopt(easy, OPT_REDIR_PROTOCOLS, (long)(https ? PROTO_HTTPS : PROTO_HTTP | PROTO_HTTPS)); /* never less safe */
  curl.setopt(easy, OPT_CONNECTTIMEOUT, 30L);
  curl.setopt(easy, OPT_LOW_SPEED_LIMIT, 1L); /* nothing at all for a minute: it is dead */
  curl.setopt(easy, OPT_LOW_SPEED_TIME, 60L);
  curl.setopt(easy, OPT_USERAGENT, "cairn/" CN_VERSION_STRING);
  curl.setopt(easy, OPT_ERRORBUFFER, j->error);
  curl.setopt(easy, OPT_WRITEFUNCTION, on_body);
  curl.setopt(easy, OPT_WRITEDATA, (void *)j);
  curl.setopt(easy, OPT_HEADERFUNCTION, on_header);
  curl.setopt(easy, OPT_HEADERDATA, (void *)j);
  curl.setopt(easy, OPT_XFERINFOFUNCTION, on_progress);
  curl.setopt(easy, OPT_XFERINFODATA, (void *)j);
  curl.setopt(easy, OPT_NOPROGRESS, 0L);
  curl.setopt(easy, OPT_RESUME_FROM, (int64_t)j->began_at);
  if (headers) curl.setopt(easy, OPT_HTTPHEADER, headers);
  /* As the curl command does; the library alone does not look there. */
  const char *certificates = cn_env("CURL_CA_BUNDLE") ? cn_env("CURL_CA_BUNDLE") : cn_env("SSL_CERT_FILE");
  if (certificates) curl.setopt(easy, OPT_CAINFO, certificates);
}

/* Asks for what is missing. Returns libcurl's code, or a cn_status; *response: HTTP's. */
static int transfer(job *j, long *response)
{
  char line[ETAG_SIZE + 16];
  void *easy = curl.init(), *headers = NULL;
  *response = 0;
  j->began_at = cn_writer_at(j->writer);
  j->error[0] = 0;
  if (!easy) return cn_err_set(CN_ERR_MEMORY, "libcurl has no memory");
  if (j->began_at && j->etag[0]) { /* of another version by now: all of it, please */
    snprintf(line, sizeof line, "If-Range: %s", j->etag);
    headers = curl.list_append(NULL, line);
  }
  configure(easy, j, headers);
  int code = curl.perform(easy);
  curl.getinfo(easy, INFO_RESPONSE_CODE, response);
  curl.cleanup(easy);
  curl.list_free(headers);
  return code;
}

static int restart(job *j)
{
  j->etag[0] = 0;
  j->etag_is_new = false;
  cni_sha256_begin(&j->sum);
  int status = cn_file_remove(j->etag_path);
  return status ? status : cn_writer_restart(j->writer);
}

static int failed(const job *j, int code, long response)
{
  if (cn_err()) return cn_err(); /* of writing */
  if (j->stopped) return cn_err_set(CN_ERR_IO, "%s: the download was stopped", j->url);
  if (code == HTTP_ERROR && response) return cn_err_set(CN_ERR_IO, "%s: the server answers %ld", j->url, response);
  return cn_err_set(CN_ERR_IO, "%s: %s", j->url, j->error[0] ? j->error : curl.strerror(code));
}

static bool may_go_on(int code)
{
  return code == PARTIAL_FILE || code == TIMED_OUT || code == GOT_NOTHING || code == SEND_ERROR ||
         code == RECEIVE_ERROR || code == STREAM_ERROR;
}

/* Fetches until all is there. A connection that breaks off is taken up where it was as long as that brings something;
 * servers that cannot do that are asked for the whole again, a few times. */
static int fetch(job *j)
{
  int restarts = 0;
  for (int tries = 1;; tries++) {
    long response;
    int code = transfer(j, &response);
    uint64_t before = j->began_at;
    if (code == DONE) return CN_OK;
    if (cn_err() || j->stopped) return failed(j, code, response);
    bool refused = code == RANGE_ERROR || code == BAD_RESUME || (code == HTTP_ERROR && response == 416);
    if (before && refused && restarts++ < RESTARTS) {
      if (restart(j)) return cn_err();
      tries = 0;
      continue;
    }
    if (cn_writer_at(j->writer) > before) tries = 1;
    if (!may_go_on(code) || tries >= TRIES) return failed(j, code, response);
  }
}

/* Compares with the checksum asked for; *text: the one it has. */
static bool is_right(const job *j, char text[CNI_SHA256_TEXT])
{
  cni_sha256_text(text, &j->sum);
  return !j->opts->sha256 || same_sum(text, j->opts->sha256);
}

/* Brings the writer from what an earlier try left, if anything, to the whole file. */
static int complete(job *j)
{
  char text[CNI_SHA256_TEXT];
  get_file(j->etag, sizeof j->etag, j->etag_path);
  uint64_t left = cn_writer_at(j->writer);
  /* What cannot be told from a part of another version is of no use. */
  if (left && !j->opts->sha256 && !j->etag[0]) left = 0;
  if (left ? sum_file(&j->sum, j->part) : restart(j)) return cn_err();
  if (left && j->opts->sha256 && is_right(j, text)) return CN_OK; /* only its name was missing */
  if (fetch(j)) return cn_err();
  if (is_right(j, text)) return CN_OK;
  if (left && (restart(j) || fetch(j))) return cn_err();
  if (left && is_right(j, text)) return CN_OK;
  restart(j);
  return cn_err_set(CN_ERR_IO, "%s: the checksum is %s, not %s; the file was removed", j->url, text, j->opts->sha256);
}

/* With the part locked. */
static int finish(job *j)
{
  bool here = is_here(j); /* another process was quicker */
  if (here || cn_err() || complete(j)) {
    if (!cn_writer_at(j->writer)) cn_file_remove(j->part);
    cn_writer_abandon(j->writer);
    return cn_err();
  }
  char text[CNI_SHA256_TEXT];
  cni_sha256_text(text, &j->sum);
  cn_file_remove(j->sum_path); /* of the file that this one replaces */
  cn_file_remove(j->etag_path);
  int status = cn_writer_commit(j->writer);
  if (!status && j->opts->sha256) note_sum(j, text);
  return status ? status : cn_err();
}

static int obtain(job *j)
{
  static pthread_once_t once = PTHREAD_ONCE_INIT;
  const char *offline = cn_env("CAIRN_OFFLINE");
  if (is_here(j)) return CN_OK;
  if (cn_err()) return cn_err();
  if (offline && strcmp(offline, "0"))
    return cn_err_set(CN_ERR_IO, "%s is not here%s, and CAIRN_OFFLINE is set; it comes from %s", j->path,
                      j->opts->sha256 ? " with the checksum asked for" : "", j->url);
  pthread_once(&once, load_curl);
  if (!curl.ready)
    return cn_err_set(CN_ERR_UNSUPPORTED, "downloads need libcurl (Debian's libcurl4); or put %s at %s", j->url,
                      j->path);
  char folder[PATH_SIZE];
  snprintf(folder, sizeof folder, "%s", j->path);
  *strrchr(folder, '/') = 0;
  if (cn_folder_make(folder)) return cn_err();
  j->writer = cn_writer_resume(j->path, j->part);
  return j->writer ? finish(j) : cn_err();
}

/* ---- names ---- */

static int check(const char *url, const cn_download_opts *o)
{
  size_t n = url ? strlen(url) : 0;
  if (!begins(url, n, "http://") && !begins(url, n, "https://") && !begins(url, n, "file://"))
    return cn_err_set(CN_ERR_VALUE, "download: \"%.200s\" is not an http, https or file address", url ? url : "");
  if (o->sha256 && (strlen(o->sha256) != 64 || strspn(o->sha256, "0123456789abcdefABCDEF") != 64))
    return cn_err_set(CN_ERR_VALUE, "download: a SHA-256 has 64 hexadecimal digits, not \"%.80s\"", o->sha256);
  return CN_OK;
}

/* Fills in the job's paths. The name is the last part of the address, without what is behind '?' or '#'. */
static int place(job *j)
{
  char home[PATH_SIZE];
  const char *folder = j->opts->folder ? j->opts->folder : "downloads";
  const char *name = j->opts->name, *from = strstr(j->url, "://") + 3;
  size_t n = name ? strlen(name) : strcspn(from, "?#");
  if (!name) {
    name = from;
    for (size_t i = 0; i < n; i++)
      if (from[i] == '/') name = from + i + 1;
    n -= (size_t)(name - from);
    if (name == from) n = 0; /* a host alone */
  }
  if (!n || n > 200 || memchr(name, '/', n) || name[0] == '.')
    return cn_err_set(CN_ERR_VALUE, "download: %s does not say what the file is to be called: give a .name", j->url);
  if (folder[0] == '/' || strstr(folder, ".."))
    return cn_err_set(CN_ERR_VALUE, "download: the folder \"%.200s\" is not one below the home", folder);
  if (cn_home(home, sizeof home)) return cn_err();
  int size = snprintf(j->path, sizeof j->path - 16, "%s/%s/%.*s", home, folder, (int)n, name);
  if (size < 0 || (size_t)size >= sizeof j->path - 16) return cn_err_set(CN_ERR_IO, "download: the path is too long");
  snprintf(j->part, sizeof j->part, "%.*s.part", PATH_SIZE - 17, j->path);
  snprintf(j->etag_path, sizeof j->etag_path, "%.*s.part.etag", PATH_SIZE - 17, j->path);
  snprintf(j->sum_path, sizeof j->sum_path, "%.*s.sha256", PATH_SIZE - 17, j->path);
  return CN_OK;
}

char *cn_download_with(const char *url, const cn_download_opts *opts)
{
  cn_download_opts room;
  if (cn_err()) return NULL;
  const cn_download_opts *o = cn_opts_read(&room, sizeof room, opts, "download");
  if (!o || check(url, o)) return NULL;
  job *j = cn_alloc_zero(sizeof *j);
  char *path = NULL;
  if (j) {
    j->url = url;
    j->opts = o;
    if (!place(j) && !obtain(j)) path = cn_string_copy(j->path);
    cn_free(j, sizeof *j);
  }
  return path;
}
