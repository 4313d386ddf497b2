/* media.hpp: pictures, sound and text on their way to tensors.
 *
 * Place in the flow: beside data.hpp, which includes it. Invariant: tokenizers are shared handles; what is read is a
 * tensor or a string of the program's own. */
#include <cairn/data.hpp> /* which includes this file, in its place */
#ifndef CAIRN_MEDIA_HPP
#define CAIRN_MEDIA_HPP

namespace cn {

/* ---- images and sound ---- */
namespace image {

inline Tensor load(const std::string &path, int channels = 0)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_image_load(path.c_str(), channels)));
}
inline void save(const Tensor &picture, const std::string &path)
{
  detail::check(cn_image_save(path.c_str(), picture.get()));
}
inline Tensor resize(const Tensor &picture, int64_t height, int64_t width)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_image_resize(picture.get(), height, width)));
}

inline Tensor crop(const Tensor &picture, int64_t top, int64_t left, int64_t height, int64_t width)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_image_crop(picture.get(), top, left, height, width)));
}
inline Tensor decode(const std::string &bytes, int channels = 0)
{
  detail::Scope scope;
  return Tensor::keep(detail::check(cn_image_decode(bytes.data(), bytes.size(), channels)));
}
/* A PNG or JPEG file as it would be written. */
inline std::string encode_png(const Tensor &picture)
{
  return detail::bytes([&](void **bytes, size_t *size) { return cn_image_encode_png(bytes, size, picture.get()); });
}
inline std::string encode_jpeg(const Tensor &picture, int quality = 90)
{
  return detail::bytes(
      [&](void **bytes, size_t *size) { return cn_image_encode_jpeg(bytes, size, picture.get(), quality); });
}

}  // namespace image

/* Sound as (channels, samples) in [-1, 1]. */
namespace audio {

/* The sound and its rate. */
inline std::pair<Tensor, int> load(const std::string &path)
{
  int rate = 0;
  detail::Scope scope;
  Tensor sound = Tensor::keep(detail::check(cn_wav_load(path.c_str(), &rate)));
  return {sound, rate};
}
inline void save(const Tensor &sound, const std::string &path, int rate)
{
  detail::check(cn_wav_save(path.c_str(), sound.get(), rate));
}

}  // namespace audio

/* The path of a local copy of an address, fetched when it is not there or is not what sha256 says. */
inline std::string download(const std::string &url, const std::string &sha256 = "")
{
  cn_download_opts o = detail::opts<cn_download_opts>();
  o.sha256 = sha256.empty() ? nullptr : sha256.c_str();
  return detail::take(cn_download_with(url.c_str(), &o));
}

/* ---- text ---- */
class Tokenizer {
 public:
  static Tokenizer bytes() { return Tokenizer(cn_tokenizer_bytes()); }
  static Tokenizer chars(const std::string &text) { return Tokenizer(cn_tokenizer_chars(text.data(), text.size())); }
  static Tokenizer bpe(const std::string &vocab, const std::string &merges)
  {
    return Tokenizer(cn_tokenizer_bpe(vocab.c_str(), merges.c_str()));
  }
  static Tokenizer wordpiece(const std::string &vocab, bool lower = true)
  {
    return Tokenizer(cn_tokenizer_wordpiece(vocab.c_str(), lower));
  }
  static Tokenizer json(const std::string &path) { return Tokenizer(cn_tokenizer_json(path.c_str())); }
  static Tokenizer sentencepiece(const std::string &path)
  {
    return Tokenizer(cn_tokenizer_sentencepiece(path.c_str()));
  }

  int64_t size() const { return cn_tokenizer_size(get()); }
  Tensor encode(const std::string &text, bool special = false) const
  {
    detail::Scope scope;
    return Tensor::keep(detail::check(cn_tokenizer_encode(get(), text.data(), text.size(), special)));
  }
  std::string decode(const Tensor &tokens, bool skip_special = true) const
  {
    return detail::bytes([&](void **bytes, size_t *size) {
      return cn_tokenizer_decode_bytes(bytes, size, get(), tokens.get(), skip_special);
    });
  }
  std::string token(int64_t id) const /* as the vocabulary writes it; "" when there is none */
  {
    const char *text = cn_tokenizer_token(get(), id);
    return text ? text : "";
  }
  int64_t id(const std::string &token) const { return cn_tokenizer_id(get(), token.c_str()); } /* -1: none */
  cn_tokenizer *get() const noexcept { return t_.get(); }

  explicit Tokenizer(cn_tokenizer *t) : t_(detail::check(t), cn_tokenizer_free) {} /* takes it over */

 private:
  std::shared_ptr<cn_tokenizer> t_;
};

}  // namespace cn

#endif
