/* options.c: options structs of any size, as programs of other versions pass them. See ext/signature.h.
 *
 * Place in the flow: behind every function with options, before its arguments become values. Invariant: what a newer
 * program asks for is done or refused, never left out in silence. */
#include <cairn/ext/signature.h>
#include <string.h>

const void *cn_opts_read(void *room, size_t room_size, const void *opts, const char *who)
{
  struct {
    size_t size;
    const void *guard;
  } head;
  memset(room, 0, room_size);
  if (!opts) return room;
  memcpy(&head.size, opts, sizeof head.size);
  if (head.size < sizeof head) {
    cn_err_set(CN_ERR_VALUE, "%s: options.size is %zu, must be the size of the options struct", who, head.size);
    return NULL;
  }
  memcpy(&head, opts, sizeof head);
  if (head.guard) {
    cn_err_set(CN_ERR_VALUE, "%s: an option was given without its name", who);
    return NULL;
  }
  for (size_t i = room_size; i < head.size; i++)
    if (((const unsigned char *)opts)[i]) {
      cn_err_set(CN_ERR_VALUE, "%s: options of a newer cairn are set, which this library does not have", who);
      return NULL;
    }
  memcpy(room, opts, head.size < room_size ? head.size : room_size);
  return room;
}
