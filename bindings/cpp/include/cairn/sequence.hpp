/* sequence.hpp: sequences of several lengths: padded, and packed for recurrent layers.
 *
 *     auto packed = cn::pack_padded_sequence(x, lengths, true);      x: (batch, steps, features)
 *     auto [output, h, c] = lstm(packed);
 *     auto [padded, sizes] = cn::pad_packed_sequence(output, true);
 *
 * Place in the flow: modules below; layers.hpp has the layers that take them. Names and arguments are those of
 * torch::nn::utils::rnn. Invariant: a packed sequence is unpacked in the order it was given in. */
#include <cairn/module.hpp> /* which includes this file, in its place */
#ifndef CAIRN_SEQUENCE_HPP
#define CAIRN_SEQUENCE_HPP

namespace cn {

/* The rows of all first steps, then of all second steps, and so on; longer sequences come first. */
class PackedSequence {
 public:
  PackedSequence() = default;
  PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices = {}, Tensor unsorted_indices = {})
      : data_(std::move(data)),
        batch_sizes_(std::move(batch_sizes)),
        sorted_(std::move(sorted_indices)),
        unsorted_(std::move(unsorted_indices))
  {
  }
  explicit PackedSequence(const cn_packed &p) /* keeps its tensors */
      : PackedSequence(Tensor::keep(p.data), Tensor::keep(p.batch_sizes), Tensor::keep(p.sorted_indices),
                       Tensor::keep(p.unsorted_indices))
  {
  }
  const Tensor &data() const noexcept { return data_; }               /* (rows of all steps, ...) */
  const Tensor &batch_sizes() const noexcept { return batch_sizes_; } /* how many sequences have such a step */
  const Tensor &sorted_indices() const noexcept { return sorted_; }   /* undefined: they were in order */
  const Tensor &unsorted_indices() const noexcept { return unsorted_; }
  PackedSequence to(Device device) const
  {
    auto moved = [&](const Tensor &t) { return t.defined() ? t.to(device) : t; };
    return PackedSequence(data_.to(device), batch_sizes_, moved(sorted_), moved(unsorted_));
  }
  PackedSequence to(DType dtype) const { return PackedSequence(data_.to(dtype), batch_sizes_, sorted_, unsorted_); }
  cn_packed view() const noexcept { return {data_.get(), batch_sizes_.get(), sorted_.get(), unsorted_.get()}; }

 private:
  Tensor data_, batch_sizes_, sorted_, unsorted_;
};

/* lengths: (batch), whole numbers; longest first unless enforce_sorted is false. */
inline PackedSequence pack_padded_sequence(const Tensor &input, const Tensor &lengths, bool batch_first = false,
                                           bool enforce_sorted = true)
{
  cn_pack_opts o = detail::opts<cn_pack_opts>();
  o.batch_first = batch_first;
  o.no_enforce_sorted = !enforce_sorted;
  cn_packed made = {};
  detail::Scope scope;
  detail::check(cn_pack_padded_with(&made, input.get(), lengths.get(), &o));
  return PackedSequence(made);
}
inline PackedSequence pack_sequence(const std::vector<Tensor> &sequences, bool enforce_sorted = true)
{
  cn_pack_opts o = detail::opts<cn_pack_opts>();
  o.no_enforce_sorted = !enforce_sorted;
  cn_packed made = {};
  detail::Scope scope;
  detail::check(cn_pack_sequence_with(&made, detail::pointers(sequences.data()), sequences.size(), &o));
  return PackedSequence(made);
}

/* The padded tensor, and lengths in the sequences' first order. */
inline std::pair<Tensor, Tensor> pad_packed_sequence(const PackedSequence &sequence, bool batch_first = false,
                                                     double padding_value = 0,
                                                     std::optional<int64_t> total_length = None)
{
  cn_pad_sequence_opts o = detail::opts<cn_pad_sequence_opts>();
  o.batch_first = batch_first;
  o.padding_value = padding_value;
  o.total_length = total_length.value_or(0);
  const cn_packed packed = sequence.view();
  cn_tensor *output = nullptr, *lengths = nullptr;
  detail::Scope scope;
  detail::check(cn_pad_packed_with(&output, &lengths, &packed, &o));
  return {Tensor::keep(output), Tensor::keep(lengths)};
}
inline Tensor pad_sequence(const std::vector<Tensor> &sequences, bool batch_first = false, double padding_value = 0,
                           const std::string &padding_side = "right")
{
  cn_pad_sequence_opts o = detail::opts<cn_pad_sequence_opts>();
  o.batch_first = batch_first;
  o.padding_value = padding_value;
  o.padding_side = padding_side.c_str();
  detail::Scope scope;
  cn_tensor *made = cn_pad_sequence_with(detail::pointers(sequences.data()), sequences.size(), &o);
  return Tensor::keep(detail::check(made));
}
inline std::vector<Tensor> unpad_sequence(const Tensor &padded, const Tensor &lengths, bool batch_first = false)
{
  std::vector<cn_tensor *> made(static_cast<size_t>(lengths.numel()));
  detail::Scope scope;
  detail::check(cn_unpad_sequence(made.data(), made.size(), padded.get(), lengths.get(), batch_first));
  return detail::kept(made.data(), made.size());
}
inline std::vector<Tensor> unpack_sequence(const PackedSequence &sequence)
{
  const cn_packed packed = sequence.view();
  const int64_t n = sequence.batch_sizes().numel() ? sequence.batch_sizes().select(0, 0).item<int64_t>() : 0;
  std::vector<cn_tensor *> made(static_cast<size_t>(n));
  detail::Scope scope;
  detail::check(cn_unpack_sequence(made.data(), made.size(), &packed));
  return detail::kept(made.data(), made.size());
}

namespace detail {

struct PackedRun {
  PackedSequence output;
  Tensor h_n, c_n;
};

/* A recurrent layer over packed sequences. */
inline PackedRun forward_packed(cn_module *rnn, const PackedSequence &input, const Tensor &h_0, const Tensor &c_0,
                                bool two)
{
  const cn_packed given = input.view();
  cn_packed made = {};
  cn_tensor *h_n = nullptr, *c_n = nullptr;
  Scope scope;
  check(cn_forward_packed(&made, &h_n, two ? &c_n : nullptr, rnn, &given, h_0.get(), c_0.get()));
  return {PackedSequence(made), Tensor::keep(h_n), Tensor::keep(c_n)};
}

}  // namespace detail

/* (size, size): 0 on and below the diagonal, -inf above it: no place sees a later one. */
inline Tensor square_subsequent_mask(int64_t size, const TensorOptions &options = {})
{
  const DType dtype = options.dtype() ? options.dtype() : cn_default_dtype();
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_nn_square_subsequent_mask(size, dtype, options.device().number())));
}

}  // namespace cn

#endif
