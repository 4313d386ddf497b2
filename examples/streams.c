/* streams.c: batches come to the device in one stream while another one computes with the batch before.
 *
 * Work of one stream is done in order; two streams may overlap, in no order but by events. Whoever uses in one stream
 * what another one makes lets it wait for an event, and says so (cn_tensor_record_stream), so that the memory is not
 * given away too early. Data loaders do all this by themselves; here it is by hand.
 *
 *     cc streams.c $(pkg-config --cflags --libs cairn) && ./a.out [DEVICE]
 *
 * Without DEVICE that is the first CUDA device, or the CPU, where a stream stands for the only queue there is: programs
 * need not tell them apart. It prints a sum for each batch and, on a device, how long all of it took there.
 */
#include <cairn/cairn.h>
#include <stdio.h>

enum { BATCHES = 6, ROWS = 512, COLUMNS = 256 };

/* Batch i in memory that the device reads by itself, so that the copy from it waits for nothing. */
static cn_tensor *batch(int i, cn_device device)
{
  cn_tensor *x = cn_full(CN_SHAPE(ROWS, COLUMNS), 1 + i);
  return device == CN_CPU ? x : cn_pin_memory(x, device);
}

/* Queues the copy of batch i; returns it, on the device. Owned. */
static cn_tensor *bring(int i, cn_device device, cn_stream *copies, cn_event *arrived)
{
  cn_scope *s = cn_scope_begin();
  cn_stream_use(device, copies);
  cn_tensor *x = cn_keep(cn_to_device(batch(i, device), device));
  cn_event_record(arrived, copies);
  cn_stream_use(device, NULL);
  cn_scope_end(s);
  return x;
}

int main(int argc, char **argv)
{
  const char *name = argc > 1 ? argv[1] : cn_device_count("cuda") > 0 ? "cuda" : "cpu";
  cn_device device = cn_device_find(name);
  cn_scope *s = cn_scope_begin();
  cn_stream *copies = cn_stream_new(device, 0), *work = cn_stream_new(device, -1); /* work goes first */
  cn_event *arrived = cn_event_new(device, false), *begun = cn_event_new(device, true);
  cn_event *done = cn_event_new(device, true);
  if (cn_err()) {
    fprintf(stderr, "%s\n", cn_err_message());
    return 1;
  }

  cn_tensor *weight = cn_full(CN_SHAPE(COLUMNS, 64), 0.5, .device = device), *sums[BATCHES];
  cn_event_record(arrived, NULL); /* the weight is made in the device's own stream: the other waits for it */
  cn_stream_wait(work, arrived);
  cn_tensor_record_stream(weight, work);

  cn_event_record(begun, work);
  cn_tensor *next = bring(0, device, copies, arrived);
  for (int i = 0; i < BATCHES; i++) {
    cn_tensor *x = next;
    cn_stream_wait(work, arrived); /* the copy of this batch; the next one's begins at once */
    cn_tensor_record_stream(x, work);
    next = i + 1 < BATCHES ? bring(i + 1, device, copies, arrived) : NULL;
    cn_stream_use(device, work);
    sums[i] = cn_sum(cn_matmul(x, weight));
    cn_stream_use(device, NULL);
    cn_release(x); /* its memory is used again when both streams have come so far */
  }
  cn_event_record(done, work);
  cn_stream_sync(work); /* nothing above waited; failures of what was queued are reported here */

  int failed = 0;
  for (int i = 0; i < BATCHES; i++) {
    double sum = cn_item(sums[i]), expected = 0.5 * (1 + i) * COLUMNS * ROWS * 64;
    printf("batch %d: %.0f\n", i, sum);
    failed |= sum != expected;
  }
  double milliseconds = 0;
  failed |= cn_event_elapsed(&milliseconds, begun, done) || milliseconds < 0;
  if (device != CN_CPU) printf("%.2f ms on %s\n", milliseconds, name);

  cn_event_free(arrived);
  cn_event_free(begun);
  cn_event_free(done);
  cn_stream_release(copies);
  cn_stream_release(work);
  cn_scope_end(s);
  if (cn_err()) fprintf(stderr, "%s\n", cn_err_message());
  return failed || cn_err() ? 1 : 0;
}
